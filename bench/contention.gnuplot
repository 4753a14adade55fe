# gnuplot -c contention.gnuplot MEDIANS DIRECTORY: the plots of docs/choosing.md.
#
# A column of panels for each number of rows, a line of them for each setting. The colours are Okabe and Ito's, which the
# colour-blind can tell apart; shapes differ as well.

medians = ARG1
directory = ARG2

array settings[2] = ['the unit alone', 'the unit, a sale and 1 ms of work']
array setting_names[2] = ['the unit alone', 'with a sale and 1 ms of work']
array rows[3] = [1, 100, 100000]
array row_names[3] = ['1 row', '100 rows', '100,000 rows']
array strategies[5] = ['optimistic_update', 'pessimistic_lock', 'conditional_adjust', \
                       'unique_insert, next unit', 'unique_insert, random unit']
array keys[5] = ['optimistic', 'pessimistic', 'conditional', 'unique, next unit', 'unique, random unit']
array colours[5] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#CC79A7']
array shapes[5] = [7, 5, 9, 13, 12]
array dashes[5] = [1, 1, 1, 1, 2]
array names[3] = ['throughput', 'p99', 'retries']
array headings[3] = ['Units taken per second', 'Milliseconds until a unit is had, 99th percentile', 'Retries per unit']
array columns[3] = [5, 10, 8]

# On a logarithmic axis, no retries are drawn at the bottom.
no_retries = 0.001

set encoding utf8
set datafile separator tab
set datafile missing NaN
set terminal svg size 1100,780 font 'sans-serif,13' background '#ffffff' dynamic noenhanced
set style data linespoints
do for [i = 1:5] {
    set linetype i linewidth 2 linecolor rgb colours[i] dashtype dashes[i] pointtype shapes[i] pointsize 0.8
}

is(s, r, i) = strcol(1) eq settings[s] && column(2) == rows[r] && strcol(4) eq strategies[i]
shown(m) = m == 3 && column(columns[m]) < no_retries ? no_retries : column(columns[m])

do for [m = 1:3] {
    set yrange [*:*]
    stats medians using (shown(m)) name 'all' nooutput
    set output directory.'/contention-'.names[m].'.svg'
    set multiplot
    set label 1 headings[m] at screen 0.5, 0.97 center font ',16'
    unset key
    set border 3 linecolor rgb '#444444'
    set logscale x 2
    set xrange [0.85:38]
    set xtics nomirror scale 0.5 (1, 2, 4, 8, 16, 32)
    set logscale y 10
    set yrange [all_min / 1.2:all_max * 1.2]
    set ytics nomirror scale 0.5 (0.1, 0.3, 1, 3, 10, 30, 100, 300, '1,000' 1000, '3,000' 3000, '10,000' 10000, '30,000' 30000)
    if (m == 3) { set ytics add ('0' no_retries, 0.003, 0.01, 0.03) }
    set grid xtics ytics linetype 1 linecolor rgb '#dddddd' linewidth 1 dashtype 1

    do for [s = 1:2] {
        do for [r = 1:3] {
            set lmargin at screen 0.060 + (r - 1) * 0.320
            set rmargin at screen 0.340 + (r - 1) * 0.320
            set tmargin at screen 0.905 - (s - 1) * 0.425
            set bmargin at screen 0.580 - (s - 1) * 0.425
            set title row_names[r].', '.setting_names[s] offset 0,-0.6
            if (s == 2) { set xlabel 'clients' offset 0,0.4 } else { unset xlabel }
            plot for [i = 1:5] medians using (is(s, r, i) ? column(3) : NaN):(shown(m)) linetype i
            unset label 1
        }
    }

    # A plot of nothing for the sake of its key.
    set lmargin at screen 0.02
    set rmargin at screen 0.98
    set tmargin at screen 0.06
    set bmargin at screen 0.0
    unset title; unset xlabel; unset border; unset xtics; unset ytics; unset grid; unset logscale
    set yrange [0:1]
    set key at screen 0.5, 0.035 center center horizontal reverse Left maxrows 1 samplen 2.5 width -3
    plot NaN notitle, for [i = 1:5] keyentry with linespoints linetype i title keys[i]
    unset multiplot
    unset output
}
