# Draws the distribution of staleness, a panel for each number of workers (across) and each machine and series (down).
# Loaded by staleness.gp, after results.gp; `histogram` is dlsim's table of counts.

# One worker alone is never stale.
worker_counts = ""
stats results using (wanted(0) && number("workers") > 1 ? (worker_counts = add(worker_counts, text("workers")), 0) : 0) nooutput
worker_counts = sorted(worker_counts)
columns = words(worker_counts)
if (columns == 0) {
    printerr sprintf("%s: '%s' has no row to draw: all have one worker", figure, results)
    exit status 1
}
column_px = 250.0
row_px = 240.0
left_px = 100.0
right_px = 245.0
gap_px = 0.0
head_room_px = 75.0
canvas_width = left_px + column_px * columns + right_px
canvas_height = head_room_px + row_px * panel_count * series_count + 20
load folder."common.gp"

in_cell(p, s, w) = in_machine(p) && in_series(s) && text("workers") eq word(worker_counts, w)
frame_left(w) = (left_px + column_px * (w - 1)) / canvas_width
frame_right(w) = (left_px + column_px * w - 55) / canvas_width
frame_top(r) = 1 - (head_room_px + row_px * (r - 1)) / canvas_height
frame_bottom(r) = 1 - (head_room_px + row_px * r - 75) / canvas_height

set style line 1 linecolor rgb "#8CB8D8"
set style line 2 linecolor rgb "#12456B" linewidth 1.6 pointtype 6 pointsize 1.1 * point_scale
set style line 3 linecolor rgb "#000000" linewidth 1.6 pointtype 7 pointsize 1.1 * point_scale
set style fill solid 1 border rgb "white"
set boxwidth 0.9
set xtics autofreq
set key at screen 1 - (right_px - 20) / canvas_width, screen 1 - head_room_px / canvas_height
set output output
set multiplot
do for [p = 1:panel_count] { do for [s = 1:series_count] { do for [w = 1:columns] {
    total = 0.0
    low_bin = NaN; high_bin = NaN
    in_bin(x) = (low_bin = x >= low_bin ? low_bin : x, high_bin = x <= high_bin ? high_bin : x)
    stats histogram using (in_cell(p, s, w) ? (total = total + column("count"), 0) : 0) nooutput
    stats histogram using (in_cell(p, s, w) && column("count") >= 5e-4 * total ? (in_bin(column("staleness")), 0) : 0) nooutput
    if (total > 0) {
        array share[high_bin + 1]
        do for [b = 0:high_bin] { share[b + 1] = 0.0 }
        bin(b, c) = b <= high_bin ? (share[b + 1] = share[b + 1] + 100.0 * c / total) : 0
        stats histogram using (in_cell(p, s, w) ? (bin(column("staleness"), column("count")), 0) : 0) nooutput
        top = 0.0
        do for [b = 0:high_bin] { if (share[b + 1] > top) { top = share[b + 1] } }

        row = (p - 1) * series_count + s
        set lmargin at screen frame_left(w)
        set rmargin at screen frame_right(w)
        set tmargin at screen frame_top(row)
        set bmargin at screen frame_bottom(row)
        set xrange [low_bin - 0.8 : high_bin + 0.8]
        set yrange [0 : top * 1.35]
        set title word(worker_counts, w)." workers" textcolor rgb ink offset 0, -0.5
        set ylabel w == 1 ? join(panel_title(p), series_count > 1 ? series_label[s] : "")."\nshare of gradients (%)" : "" \
            offset character 1, 0
        if (row == panel_count * series_count) { set xlabel "staleness (updates)" }
        if (p + s == 2 && w == columns) { set key on } else { set key off }
        own(c) = in_panel(p) && in_series(s) && text("workers") eq word(worker_counts, w) ? c : NaN
        has_measured = 0
        stats results using (known(own(measured(0))) ? (has_measured = 1) : 0) nooutput
        measured_part = has_measured ? "results using (own(measured(0))):(1.12 * top):(own(number('measured_staleness_sd'))) \
            with xerrorbars linestyle 3 notitle, " : ""
        eval "plot share using (column(1) - 1):2 with boxes linestyle 1 notitle, \
            results using (own(predicted(0))):(1.24 * top):(own(number('staleness_sd'))) with xerrorbars linestyle 2 notitle, ".\
            measured_part."keyentry with boxes linestyle 1 title 'predicted', \
            keyentry with linespoints linestyle 2 title 'its mean ± s. d.', \
            keyentry with linespoints linestyle 3 title 'measured mean ± s. d.'"
        unset label 1
    }
} } }
unset multiplot
