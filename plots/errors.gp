# How far predictions are off measurements, a line per scenario: hollow points for rows that costs were
# fitted to, full ones for rows that they were not.
#
#   gnuplot -e "results='build/seeds/rows.csv'; output='errors.png'" plots/errors.gp
#
# Reads what scenarios/seeds/rows.awk writes: scenario, error_frac (predicted over measured throughput,
# minus 1) and use (fitted, unseen).
figure = "errors"
folder = ARG0[1:strlen(ARG0) - strlen("errors.gp")]
set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='rows.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading'; SVG is written when the output's name ends in .svg"
    exit status 2
}
table = results
needed = "scenario error_frac use"
load folder."columns.gp"

names = ""
rows = 0
largest = 0.0
note(e) = known(e) ? (rows = rows + 1, names = add(names, text("scenario")), \
    largest = abs(e) > largest ? abs(e) : largest, 0) : 0
stats results using (note(number("error_frac"))) nooutput
if (rows == 0) {
    printerr sprintf("%s: '%s' has no row to draw: no row has an error", figure, results)
    exit status 1
}
longest = 0
do for [name in names] { longest = strlen(name) > longest ? strlen(name) : longest }

series_count = 1
panel_count = 1
left_px = 40 + 8.3 * longest
right_px = 150.0
gap_px = 0.0
canvas_width = left_px + right_px + 520
canvas_height = 190 + 26 * words(names)
load folder."common.gp"

place_from(name, i) = word(names, i) eq name ? i : place_from(name, i + 1)
place(use) = text("use") eq use && known(number("error_frac")) ? place_from(text("scenario"), 1) : NaN
span = 5 * ceil(105 * largest / 5)
set xrange [-span : span]
set yrange [words(names) + 0.7 : 0.3]
set ytics () scale 0
do for [i = 1:words(names)] { set ytics add (word(names, i) i) }
set grid x y linetype 1 linecolor rgb "#D8D8D8" linewidth 1
set border 1
set xlabel "predicted over measured throughput, minus 1 (%)"
set lmargin at screen panel_left(1)
set rmargin at screen panel_right(1)
set style line 1 linecolor rgb word(palette, 1) linewidth 1.8 pointtype 6 pointsize 1.1 * point_scale
set style line 101 linecolor rgb word(palette, 2) pointtype 7 pointsize 1.1 * point_scale
set arrow 1 from 0, graph 0 to 0, graph 1 nohead linestyle 99
set output output
plot results using (100 * number("error_frac")):(place("fitted")) with points linestyle 1 notitle, \
    results using (100 * number("error_frac")):(place("unseen")) with points linestyle 101 notitle, \
    keyentry with points linestyle 1 title "fitted", \
    keyentry with points linestyle 101 title "unseen"
