# Errors of predictions against measurements, one line per scenario: hollow points for rows that
# costs were fitted to, filled points for rows that no cost was fitted to, crosses for rows that
# contradict others; bands of 5 and 10 %.
#
#   gnuplot -e "results='report/rows.csv'; output='errors.png'" plots/errors.gp
#
# Reads the table of all rows that dlsim --index writes: scenario, error_frac (predicted over
# measured throughput, minus 1) and use (fitted, unseen, contradiction). With several groups,
# scenarios are named GROUP/SCENARIO.
# by='group' draws one line per value of that column instead of per scenario; over='workers' draws
# the errors over that column instead.
figure = "errors"
folder = ARG0[1:strlen(ARG0) - strlen("errors.gp")]
set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='rows.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading'; SVG is written when the output's name ends in .svg"
    exit status 2
}
is_over = exists("over")
if (!exists("by")) { by = "scenario" }
table = results
needed = by." error_frac use".(is_over ? " ".over : "")
load folder."columns.gp"
results_name = results
results = table

group_names = ""
stats results using (known(number("error_frac")) ? (group_names = add(group_names, text("group")), 0) : 0) nooutput
name_of(unused) = by eq "scenario" && words(group_names) > 1 ? text("group")."/".text(by) : text(by)
names = ""
rows = 0
largest = 0.0
note(e) = known(e) ? (rows = rows + 1, names = add(names, name_of(0)), \
    largest = abs(e) > largest ? abs(e) : largest, 0) : 0
stats results using (note(number("error_frac"))) nooutput
if (rows == 0) {
    printerr sprintf("%s: '%s' has no row to draw: no row has an error", figure, results_name)
    exit status 1
}
longest = 0
do for [name in names] { longest = strlen(name) > longest ? strlen(name) : longest }

series_count = 1
panel_count = 1
left_px = is_over ? 110 : 40 + 8.3 * longest
right_px = 210.0
gap_px = 0.0
canvas_width = left_px + right_px + 520
canvas_height = is_over ? 560 : 190 + 26 * words(names)
key_lines = 5
key_chars = 13
names_above = exists("compact")    # scenarios' names above their points, not beside them
compact_left_px = is_over ? 78.0 : 14.0
compact_body_px = is_over ? 320.0 : 120 + 34.0 * words(names)
load folder."common.gp"

place_from(name, i) = word(names, i) eq name ? i : place_from(name, i + 1)
place(unused) = is_over ? number(over) : place_from(name_of(0), 1)
off(use) = text("use") eq use && known(number("error_frac")) ? 100 * number("error_frac") : NaN
x(use) = is_over ? place(0) : off(use)
y(use) = is_over ? off(use) : place(0)
points = ""
do for [i = 1:3] {
    use = word("fitted unseen contradiction", i)
    style = word("1 101 102", i)
    has_use = 0
    stats results using (known(off(use)) ? (has_use = 1) : 0) nooutput
    if (has_use) {
        points = points."results using (x('".use."')):(y('".use."')) with points linestyle ".style." notitle, "
    }
}
span = 5 * ceil(105 * largest / 5)
span = span < 15 ? 15 : span
set style line 1 linecolor rgb word(palette, 1) linewidth 1.8 pointtype 6 pointsize 1.1 * point_scale
set style line 101 linecolor rgb word(palette, 2) pointtype 7 pointsize 1.1 * point_scale
set style line 102 linecolor rgb "#000000" linewidth 1.8 pointtype 2 pointsize 1.2 * point_scale
set grid x y linetype 1 linecolor rgb "#D8D8D8" linewidth 1
set style fill solid 1 noborder
band_colours = "#EDEDED #D9E6EE"
band_reach = "10 5"
error_label = "error of the predicted throughput (%)"
if (is_over) {
    set yrange [-span : span]
    set logscale x 2
    set xlabel over
    set ylabel error_label
    set offsets graph 0.04, graph 0.04, 0, 0
    do for [b = 1:2] {
        set object b rectangle from graph 0, first -word(band_reach, b) to graph 1, first word(band_reach, b) \
            behind fillcolor rgb word(band_colours, b) fillstyle solid 1 noborder
    }
    set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead linestyle 99
} else {
    set xrange [-span : span]
    set yrange [words(names) + 0.7 : 0.3 - 0.3 * names_above]
    if (names_above) { unset ytics } else { set ytics () scale 0 }
    do for [i = 1:words(names)] {
        if (names_above) {
            set label 200 + i word(names, i) at graph 0, first i - 0.45 left noenhanced \
                font font_times(0.8) textcolor rgb ink
        } else { set ytics add (word(names, i) i) }
    }
    set border 1
    set xlabel error_label
    do for [b = 1:2] {
        set object b rectangle from first -word(band_reach, b), graph 0 to first word(band_reach, b), graph 1 \
            behind fillcolor rgb word(band_colours, b) fillstyle solid 1 noborder
    }
    set arrow 1 from 0, graph 0 to 0, graph 1 nohead linestyle 99
}
set lmargin at screen panel_left(1)
set rmargin at screen panel_right(1)
set style line 3 linecolor rgb word(band_colours, 2)
set style line 4 linecolor rgb word(band_colours, 1)
set output output
eval "plot ".points."keyentry with points linestyle 1 title 'fitted', \
    keyentry with points linestyle 101 title 'unseen', \
    keyentry with points linestyle 102 title 'contradiction', \
    keyentry with boxes linestyle 3 title 'within 5 %', \
    keyentry with boxes linestyle 4 title 'within 10 %'"
