# gnuplot -c targets.gnuplot TARGETS OUTPUT: a dot for each line of targets.awk, on which side of its bound it is.

set encoding utf8
set datafile separator tab
stats ARG1 using (strlen(strcol(5))) name 'names' nooutput
left = 20 + 7.2 * names_max
width = left + 460
lines = names_records
height = 80 + 16 * lines
set terminal svg size width,height font 'sans-serif,11' background '#ffffff' dynamic noenhanced
set output ARG2

set lmargin at screen left / width
set rmargin at screen 1 - 25 / width
set tmargin at screen 1 - 35.0 / height
set bmargin at screen 50.0 / height
set border 1 linecolor rgb '#444444'
set logscale x 2
# What is far from its bound is drawn at the edge, for the sake of what is near.
set xrange [0.23:4.35]
set xtics nomirror scale 0.5 ('≤ ¼' 0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, '≥ 4' 4)
set xlabel 'times the bound (logarithmic); more is better' offset 0,0.5
set yrange [lines + 0.5:0.5]
set ytics nomirror scale 0
set grid xtics ytics linetype 1 linecolor rgb '#eeeeee' linewidth 1 dashtype 1
set arrow 1 from 1, graph 0 to 1, graph 1 nohead linecolor rgb '#444444' linewidth 1.5 dashtype 2
set key at screen 1 - 25 / width, 1 - 15.0 / height right center horizontal reverse Left samplen 1.5

at(x) = x < 0.25 ? 0.25 : x > 4 ? 4 : x
is(verdict) = strcol(4) eq verdict
plot ARG1 using (is('reached') ? at($1) : NaN):($0 + 1):(at($2)):(at($3)):yticlabels(5) with xerrorbars \
         pointtype 7 pointsize 0.6 linecolor rgb '#0072B2' title 'reached', \
     ARG1 using (is('MISSED') ? at($1) : NaN):($0 + 1):(at($2)):(at($3)) with xerrorbars \
         pointtype 5 pointsize 0.6 linecolor rgb '#D55E00' title 'missed'
unset output
