# gnuplot -c bars.gnuplot DATA NAMES OUTPUT: what panels.awk made, as bars for each case.

load ARG2

set encoding utf8
set datafile separator tab
set datafile missing NaN
across = panels < 2 ? panels : 2
down = (panels + across - 1) / across
height = 90 + 310 * down
set terminal svg size 1100,height font 'sans-serif,13' background '#ffffff' dynamic noenhanced
set output ARG3
array colours[8] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#999999', '#E69F00', '#56B4E9', '#F0E442']

width = 0.8 / contenders
place(c, i) = c + (i - (contenders + 1) / 2.0) * width

set multiplot
set style fill solid 0.85 noborder
set errorbars linewidth 1 linecolor rgb '#444444'
set border 3 linecolor rgb '#444444'
set xtics nomirror scale 0
set ytics nomirror scale 0.5
set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1 dashtype 1
set format y '%.0f'
set yrange [0:*]
unset key
do for [p = 1:panels] {
    column_of = (p - 1) % across
    line_of = (p - 1) / across
    set lmargin at screen (column_of + 0.14) / across
    set rmargin at screen (column_of + 0.97) / across
    set tmargin at screen 1 - (30.0 + 310 * line_of) / height
    set bmargin at screen 1 - (250.0 + 310 * line_of) / height
    set title title[p] offset 0,-0.5
    set xrange [0.5:cases[p] + 0.5]
    unset xtics
    set xtics nomirror scale 0 (label[(p - 1) * most + 1] 1)
    do for [c = 2:cases[p]] { set xtics add (label[(p - 1) * most + c] c) }
    plot for [i in present[p]] ARG1 index p - 1 using (place($0 + 1, i)):(column(3 * i - 1)):(column(3 * i)):(column(3 * i + 1)):(width * 0.9) \
        with boxerrorbars linecolor rgb colours[(i - 1) % 8 + 1]
}

# A plot of nothing for the sake of its key.
set lmargin at screen 0.02
set rmargin at screen 0.98
set tmargin at screen 50.0 / height
set bmargin at screen 0.0
unset title; unset border; unset xtics; unset ytics; unset grid
set xrange [0:1]
set yrange [0:1]
set key at screen 0.5, 25.0 / height center center horizontal reverse Left maxrows 1 samplen 2 width -2
plot NaN notitle, for [i = 1:contenders] keyentry with boxes linecolor rgb colours[(i - 1) % 8 + 1] title contender[i]
unset multiplot
unset output
