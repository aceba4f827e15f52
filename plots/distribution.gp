# Draws the distribution of staleness: one panel per number of workers (columns), and per machine
# and series (rows). Loaded by staleness.gp after results.gp; `histogram` is dlsim's table.

# A single worker always has staleness 0.
worker_counts = ""
note_workers(w) = (worker_counts = add(worker_counts, w), 0)
in_team(unused) = wanted(0) && number("workers") > 1
stats results using (in_team(0) ? note_workers(text("workers")) : 0) nooutput
worker_counts = sorted(worker_counts)
columns = words(worker_counts)
if (columns == 0) {
    printerr sprintf("%s: '%s' has no row to draw: all have one worker", figure, results_name)
    exit status 1
}
narrow = exists("compact") && panel_count == 1
left_px = narrow ? 70.0 : 110.0
right_px = 275.0
column_px = narrow ? (460.0 - left_px) / columns : 250.0
row_px = 275.0
gap_px = 0.0
head_room_px = narrow ? 5.0 : 50.0
between_px = narrow ? 35.0 : 55.0    # narrow: two columns
tic_count = narrow ? 9.0 / columns : 7.0
key_lines = 3
key_chars = 24
compact_left_px = left_px
compact_body_px = head_room_px + row_px * series_count - 60
canvas_width = left_px + column_px * columns + right_px
canvas_height = head_room_px + row_px * panel_count * series_count + 35
load folder."common.gp"

in_cell(p, s, w) = in_machine(p) && in_series(s) && text("workers") eq word(worker_counts, w)
frame_left(w) = (left_px + column_px * (w - 1)) / canvas_width
frame_right(w) = (left_px + column_px * w - between_px) / canvas_width
frame_top(r) = 1 - (head_room_px + row_px * (r - 1) + 58) / canvas_height
frame_bottom(r) = 1 - (head_room_px + row_px * r - 50) / canvas_height

set style line 1 linecolor rgb "#8CB8D8"
set style line 2 linecolor rgb "#12456B" linewidth 1.6 dashtype 11 pointtype 6 \
    pointsize 1.1 * point_scale
set style line 3 linecolor rgb "#000000" linewidth 1.6 dashtype 11 pointtype 7 \
    pointsize 1.1 * point_scale
set style fill solid 1 border rgb "white"
if (!is_compact) {
    set key at screen 1 - (right_px + 25) / canvas_width, screen 1 - head_room_px / canvas_height
}
set format x "%g"
any_measured = 0
stats results using (in_team(0) && known(measured(0)) ? (any_measured = 1) : 0) nooutput
measured_key = any_measured ? \
    ", keyentry with linespoints linestyle 3 title 'measured mean ± s. d.'" : ""
set output output
set multiplot
do for [p = 1:panel_count] { do for [s = 1:series_count] { do for [w = 1:columns] {
    total = 0.0
    low_bin = NaN; high_bin = NaN
    in_bin(x) = (low_bin = x >= low_bin ? low_bin : x, high_bin = x <= high_bin ? high_bin : x)
    stats histogram using (in_cell(p, s, w) ? (total = total + column("count"), 0) : 0) nooutput
    # Bars of rarer values would be too low to see.
    seen_bin(count) = in_cell(p, s, w) && count >= 5e-4 * total
    stats histogram using (seen_bin(column("count")) ? (in_bin(column("staleness")), 0) : 0) nooutput
    if (total > 0) {
        own(c) = in_panel(p) && in_series(s) && text("workers") eq word(worker_counts, w) ? c : NaN
        # In a long tail all values may be rare; the range always includes the mean.
        stats results using (known(own(predicted(0))) ? (in_bin(ceil(predicted(0))), 0) : 0) nooutput
        bin_width = ceil((high_bin - low_bin + 1) / 25.0)
        array shares[int((high_bin - low_bin) / bin_width) + 1]
        do for [b = 1:|shares|] { shares[b] = 0.0 }
        add_share(bin, count) = bin >= 1 && bin <= |shares| ? \
            (shares[bin] = shares[bin] + 100 * count / total, 0) : 0
        stats histogram using (in_cell(p, s, w) ? add_share( \
            int((column("staleness") - low_bin) / bin_width) + 1, column("count")) : 0) nooutput
        top = 0.0
        set print $bars
        print "staleness,percent"
        do for [b = 1:|shares|] {
            print sprintf("%.9g,%.9g", low_bin + (b - 0.5) * bin_width - 0.5, shares[b])
            top = shares[b] > top ? shares[b] : top
        }
        unset print

        row = (p - 1) * series_count + s
        set lmargin at screen frame_left(w)
        set rmargin at screen frame_right(w)
        set tmargin at screen frame_top(row)
        set bmargin at screen frame_bottom(row)
        set boxwidth 0.9 * bin_width
        set xrange [low_bin - 0.5 - 0.9 * bin_width : low_bin - 0.5 + (|shares| + 0.9) * bin_width]
        set yrange [0 : top * 1.35]
        set xtics low_bin, \
            ceil((high_bin - low_bin) / (high_bin < 100 ? tic_count : 0.6 * tic_count) + 1e-9), high_bin
        set ytics 0, (narrow ? 2 : 1) * (top > 50 ? 25 : top > 20 ? 10 : top > 10 ? 5 : 2), 100
        set title word(worker_counts, w)." workers" textcolor rgb ink offset 0, -0.5
        set ylabel w == 1 ? "gradients (%)" : "" offset character 0.5, 0
        if (w == 1) {
            set label 2 panel_title(p).(panel_title(p) ne "" && series_count > 1 ? ", " : "").\
                (series_count > 1 ? series_label[s] : "") \
                at screen frame_left(1), screen frame_top(row) + 45.0 / canvas_height left noenhanced
        } else { unset label 2 }
        last_row = row == panel_count * series_count
        set xlabel last_row && (!narrow || w == int(columns / 2) + 1) ? "staleness (updates)" : ""
        if (p + s == 2 && w == columns) { set key on } else { set key off }
        has_measured = 0
        stats results using (known(own(measured(0))) ? (has_measured = 1) : 0) nooutput
        measured_part = has_measured ? "results using (own(measured(0))):(1.12 * top): \
            (own(number('measured_staleness_sd'))) \
            with xerrorbars linestyle 3 notitle, " : ""
        eval "plot $bars using (column('staleness')):(column('percent')) \
            with boxes linestyle 1 notitle, \
            results using (own(predicted(0))):(1.24 * top):(own(number('staleness_sd'))) \
            with xerrorbars linestyle 2 notitle, ".\
            measured_part."keyentry with boxes linestyle 1 title 'predicted share'.(narrow ? ' (%)' : ''), \
            keyentry with linespoints linestyle 2 title 'predicted mean ± s. d.'".measured_key
        unset label 1
    }
} } }
unset multiplot
