# Breakdown of the step time: a bar per mode and number of workers, split into shares, with the mean
# step time.
#
#   gnuplot -e "results='results.csv'; output='breakdown.png'" plots/breakdown.gp
figure = "breakdown"
folder = ARG0[1:strlen(ARG0) - strlen("breakdown.gp")]
parts = "compute input dispatch communication averaging waiting"
needed = "workers step_mean_s"
do for [part in parts] { needed = needed." ".part."_frac" }
apart = "workers"
wanted(unused) = known(number("step_mean_s"))
wanted_what = "no row has a step time"
load folder."results.gp"

# Rows of the figure: the series from top to bottom, each with its numbers of workers, then a gap.
worker_counts = ""
note_workers(w) = (worker_counts = add(worker_counts, w), 0)
stats results using (wanted(0) ? note_workers(text("workers")) : 0) nooutput
worker_counts = sorted(worker_counts)
share(part) = known(number(part."_frac")) ? number(part."_frac") : 0
seen = ""    # parts that at least one bar shows
see(part) = share(part) >= 0.0005 ? (seen = add(seen, part), 0) : 0
do for [part in parts] { stats results using (wanted(0) ? see(part) : 0) nooutput }
names_above = exists("compact") && panel_count == 1    # names above bars, not beside
block_rows = words(worker_counts) + 0.8 + names_above
rank_from(w, i) = word(worker_counts, i) eq w ? i : rank_from(w, i + 1)
row(unused) = (series_from(1) - 1) * block_rows + names_above + rank_from(text("workers"), 1)
row_px = 19

left_px = label_px > 110 ? 1.06 * label_px + 75 : 190.0
right_px = 215.0
gap_px = 40.0
canvas_width = left_px + right_px + (panel_count == 1 ? 605 : 450 * panel_count - gap_px)
bars_px = row_px * block_rows * series_count
key_px = 34.0 * words(seen)    # minimum height, so that the key fits
canvas_height = 150 + (bars_px > key_px ? bars_px : key_px)
key_lines = words(seen)
key_chars = 13
compact_left_px = 72.0
compact_body_px = row_px * block_rows * series_count + 15
load folder."common.gp"

before(i) = i < 1 ? 0 : share(word(parts, i)) + before(i - 1)
three_digits(x) = x < 9.995 ? sprintf("%.2f", x) : x < 99.95 ? sprintf("%.1f", x) : sprintf("%.0f", x)
time_text(s) = s < 0.9995e-3 ? three_digits(s * 1e6)." µs" : \
    s < 0.9995 ? three_digits(s * 1e3)." ms" : three_digits(s)." s"

# Fills that also differ in grey: dark, hatched, light.
set style fill solid 1 noborder
part_colours = "#12456B #8CC4E8 #000000 #C66A00 #8B2500 #E2E2E2"
do for [i = 1:6] { set style line i linecolor rgb word(part_colours, i) linewidth 1 dashtype 11 }
fills = "solid solid pattern solid pattern solid"
patterns = "1 1 2 1 4 1"    # fill style of each part: pattern or density
if (exists("compact")) {
    # For figures in pages: browsers print patterns as images of many megabytes.
    set style line 3 linecolor rgb "#D8A0C4"
    fills = "solid solid solid solid solid solid"
    patterns = "1 1 1 1 1 1"
}
fill_of(i) = sprintf("linestyle %d fillstyle %s %s", i, word(fills, i), word(patterns, i))

unset grid
set border 1
set xrange [0 : 1.24]
set xtics ("0" 0, "25" 0.25, "50" 0.5, "75" 0.75, "100" 1)
set xlabel "share of the step (%), and its mean time"
set yrange [block_rows * series_count : 0.2]
set ytics () scale 0
longest = 0
do for [s = 1:series_count] {
    if (strlen(series_label[s]) > longest) { longest = strlen(series_label[s]) }
}
do for [s = 1:series_count] {
    if (names_above) {
        set label 100 + s series_label[s] at graph 0, first (s - 1) * block_rows + 1 left noenhanced \
            font font_times(longest > 46 ? 46.0 / longest : 1)    # longer texts would be cut off
    } else {
        set label 100 + s series_label[s] at graph 0, first (s - 1) * block_rows + 1 \
            offset character -4, 0 right noenhanced
    }
    do for [w = 1:words(worker_counts)] {
        set ytics add (word(worker_counts, w) (s - 1) * block_rows + names_above + w)
    }
}
set label 100 "workers" at graph 0, first 0.2 offset character -1, 0 right \
    font font_times(0.85) textcolor rgb ink
set output output
set multiplot
do for [p = 1:panel_count] {
    set lmargin at screen panel_left(p)
    set rmargin at screen panel_right(p)
    set title panel_title(p) textcolor rgb ink
    bars = ""
    keys = ""
    do for [i = 1:words(parts)] {
        bars = bars.sprintf("results using (in_panel(p) ? 0 : NaN):(row(0)):(before(%d)):(before(%d)):\
            (row(0) - 0.42):(row(0) + 0.42) with boxxyerror ", i - 1, i).fill_of(i)." notitle, "
        if (is_in(seen, word(parts, i))) {
            keys = keys.", keyentry with boxes ".fill_of(i)." title '".word(parts, i)."'"
        }
    }
    eval "plot ".bars."results using (in_panel(p) ? 1.03 : NaN):(row(0)):(time_text(number('step_mean_s'))) \
        with labels left font font_times(0.85) textcolor rgb ink noenhanced notitle".keys
    set key off
    unset label
    set format y ""
}
unset multiplot
