# Some steps of a simulated run: a row per worker, a bar per stretch of time, filled by what it is spent on.
#
#   gnuplot -e "results='timeline.csv'; output='timeline.png'" plots/timeline.gp
#
# Reads the table that dlsim --html draws it from: worker, part, start_s, end_s.
figure = "timeline"
folder = ARG0[1:strlen(ARG0) - strlen("timeline.gp")]
set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='timeline.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading'; SVG is written when the output's name ends in .svg"
    exit status 2
}
table = results
needed = "worker part start_s end_s"
load folder."columns.gp"
parts = "compute input dispatch communication averaging waiting"
workers = 0
last_s = 0.0
seen = ""    # parts that some stretch has
note(w, s) = (seen = is_in(seen, text("part")) ? seen : seen." ".text("part"), workers = w + 1 > workers ? w + 1 : workers, last_s = s > last_s ? s : last_s, 0)
stats results using (is_in(parts, text("part")) ? note(number("worker"), number("end_s")) : 0) nooutput
if (workers == 0) {
    printerr sprintf("%s: '%s' has no row to draw", figure, results)
    exit status 1
}
series_count = 1
panel_count = 1
left_px = 90.0
right_px = 215.0
gap_px = 0.0
canvas_width = left_px + right_px + 620
canvas_height = 180 + (workers < 6 ? 6 : workers) * 24
key_lines = words(seen)
key_chars = 13
compact_left_px = 60.0
compact_body_px = 20 + 24.0 * workers
load folder."common.gp"

unit = last_s < 1e-3 ? 1e6 : last_s < 1 ? 1e3 : 1
unit_name = last_s < 1e-3 ? "µs" : last_s < 1 ? "ms" : "s"
# Fills that differ in grey too, as in breakdown.gp.
set style fill solid 1 noborder
part_colours = "#12456B #8CC4E8 #000000 #C66A00 #8B2500 #E2E2E2"
do for [i = 1:6] { set style line i linecolor rgb word(part_colours, i) linewidth 1 dashtype 11 }
fills = "solid solid pattern solid pattern solid"
patterns = "1 1 2 1 4 1"    # or how solid
if (exists("compact")) {
    # Of figures in pages: browsers print patterns as pictures of many megabytes.
    set style line 3 linecolor rgb "#D8A0C4"
    fills = "solid solid solid solid solid solid"
    patterns = "1 1 1 1 1 1"
}
fill_of(i) = sprintf("linestyle %d fillstyle %s %s", i, word(fills, i), word(patterns, i))
unset grid
set border 1
set xrange [0 : last_s * unit]
set yrange [workers - 0.4 : -0.6]
set ytics () scale 0
do for [w = 0:workers - 1] { set ytics add (sprintf("%d", w) w) }
set ylabel "worker"
set xlabel "time (".unit_name.")"
set lmargin at screen panel_left(1)
set rmargin at screen panel_right(1)
x(c) = unit * number(c)
in_part(i) = text("part") eq word(parts, i) ? x("start_s") : NaN
set output output
bars = ""
keys = ""
do for [i = 1:words(parts)] {
    bars = bars.(i > 1 ? ", " : "").sprintf("results using (in_part(%d)):(number('worker')):(x('start_s')): \
        (x('end_s')):(number('worker') - 0.4):(number('worker') + 0.4) with boxxyerror ", i).fill_of(i)." notitle"
    if (is_in(seen, word(parts, i))) {
        keys = keys.", keyentry with boxes ".fill_of(i)." title '".word(parts, i)."'"
    }
}
eval "plot ".bars.keys
