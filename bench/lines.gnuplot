# gnuplot -c lines.gnuplot DATA NAMES OUTPUT XLABEL: what panels.awk made, as lines over the cases' numbers.

load ARG2
xlabel_text = ARG4

set encoding utf8
set datafile separator tab
set datafile missing NaN
across = panels < 2 ? panels : 2
down = (panels + across - 1) / across
height = 75 + 270 * down
set terminal svg size 1100,height font 'sans-serif,13' background '#ffffff' dynamic noenhanced
set output ARG3
array colours[8] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#999999', '#E69F00', '#56B4E9', '#F0E442']
array shapes[8] = [7, 5, 9, 13, 11, 15, 4, 6]

set multiplot
set border 3 linecolor rgb '#444444'
set xtics nomirror scale 0.5
set ytics nomirror scale 0.5
set grid xtics ytics linetype 1 linecolor rgb '#dddddd' linewidth 1 dashtype 1
set logscale x 10
set format x '%.0s%c'
set yrange [0:*]
unset key
do for [p = 1:panels] {
    column_of = (p - 1) % across
    line_of = (p - 1) / across
    set lmargin at screen (column_of + 0.15) / across
    set rmargin at screen (column_of + 0.96) / across
    set tmargin at screen 1 - (30.0 + 270 * line_of) / height
    set bmargin at screen 1 - (220.0 + 270 * line_of) / height
    if (p + across > panels) { set xlabel xlabel_text offset 0,0.4 } else { unset xlabel }
    set title title[p] offset 0,-0.5
    stats ARG1 index p - 1 using 1 name 'x' nooutput
    set xrange [x_min / 1.5:x_max * 1.5]
    unset xtics
    set xtics nomirror scale 0.5
    # Fewer than three sizes would leave an axis of powers of ten with hardly a mark.
    set xtics (x_min x_min)
    do for [c = 1:cases[p]] {
        stats ARG1 index p - 1 every ::c - 1::c - 1 using 1 name 'at' nooutput
        set xtics add (at_min)
    }
    set format y (strstrt(title[p], '/s') ? '%.0f' : '%g')
    plot for [i in present[p]] ARG1 index p - 1 using 1:(column(3 * i - 1)):(column(3 * i)):(column(3 * i + 1)) \
        with yerrorlines linewidth 2 pointsize 0.8 pointtype shapes[(i - 1) % 8 + 1] linecolor rgb colours[(i - 1) % 8 + 1]
}

# A plot of nothing for the sake of its key.
set lmargin at screen 0.02
set rmargin at screen 0.98
set tmargin at screen 40.0 / height
set bmargin at screen 0.0
unset title; unset xlabel; unset border; unset xtics; unset ytics; unset grid; unset logscale
set xrange [0:1]
set yrange [0:1]
set key at screen 0.5, 20.0 / height center center horizontal reverse Left maxrows 1 samplen 2 width -2
plot NaN notitle, for [i = 1:contenders] keyentry with linespoints linewidth 2 pointsize 0.8 pointtype shapes[(i - 1) % 8 + 1] \
    linecolor rgb colours[(i - 1) % 8 + 1] title contender[i]
unset multiplot
unset output
