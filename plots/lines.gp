# Draws a panel of lines for each machine: predictions as lines with their spread, measurements as
# points with error bars. Points are filled. If the results have a column measured_use, points that
# costs were fitted to are hollow, and points that contradict others are crosses.
#
# Loaded after results.gp. The figure defines functions of an unused argument that read the current
# row:
#   at                                      x
#   predicted, low, high                    line and its spread (NaN: none)
#   measured, measured_low, measured_high   point and its error bar (NaN: none)
# and sets
#   reference(x), reference_label           thin reference line; label "" for none
#   spread_label                            meaning of the spread
#   x_label, y_label; y_prefixed = 1        to write numbers as 200k, 1.2M
#   x_doubles, y_doubles                    1: logarithmic axis (y: if values span a factor of 1.5)

left_px = 110.0
right_px = label_px > 155 ? 1.06 * label_px + 95 : 260.0
gap_px = 85.0
canvas_width = left_px + right_px + (panel_count == 1 ? 645 : 465 * panel_count - gap_px)
canvas_height = 640
key_lines = series_count + (reference_label ne "")
note_spread(x) = known(x) ? (key_spread = 1) : 0
use_of(unused) = is_in("fitted contradiction", text("measured_use")) ? text("measured_use") : "unseen"
note_measured(x) = known(x) ? (key_uses = add(key_uses, use_of(0))) : 0
key_spread = 0
key_uses = ""
stats results using (wanted(0) ? note_spread(low(0)) : 0) nooutput
stats results using (wanted(0) ? note_measured(measured(0)) : 0) nooutput
key_lines = key_lines + key_spread + words(key_uses)
key_chars = label_px / 8.3
key_chars = has("measured_use") && key_chars < 20 ? 20 : key_chars
compact_left_px = 106.0
compact_body_px = 300.0
load folder."common.gp"
do for [s = 1:series_count] {
    set style line s pointtype 7 pointsize 0.45 * point_scale
    set style line 200 + s linecolor rgb word(palette, 1 + (s - 1) % 7) linewidth 1.6 dashtype 11 \
        pointtype int(word(hollow, 1 + (s - 1) % 5)) pointsize 1.25 * point_scale
    set style line 300 + s linecolor rgb word(palette, 1 + (s - 1) % 7) linewidth 1.6 dashtype 11 \
        pointtype 2 pointsize 1.25 * point_scale
}
set style line 96 linecolor rgb ink linewidth 1.6 pointtype 6 pointsize 1.25 * point_scale
set style line 95 linecolor rgb ink linewidth 1.6 pointtype 2 pointsize 1.25 * point_scale

# The rows to draw, sorted by x, as a scenario may list its values in any order.
bar_low(unused) = known(measured_low(0)) ? measured_low(0) : measured(0)
bar_high(unused) = known(measured_high(0)) ? measured_high(0) : measured(0)
cell(x) = known(x) ? sprintf(",%.9g", x) : ",nan"
row_of(p) = sprintf("%d,%d", p, series_from(1)).cell(at(0)).cell(predicted(0)).cell(low(0)). \
    cell(high(0)).cell(measured(0)).cell(bar_low(0)).cell(bar_high(0)).",".use_of(0)."\n"
row_in(p) = p > panel_count ? "" : (in_panel(p) ? row_of(p) : "").row_in(p + 1)
ticks = ""
stats results using (wanted(0) ? (ticks = add(ticks, sprintf("%g", at(0))), 0) : 0) nooutput
ticks = sorted(ticks)
rows = ""
do for [x in ticks] { stats results using (at(0) == x ? (rows = rows.row_in(1), 0) : 0) nooutput }
set print $rows
print "panel,series,x,predicted,low,high,measured,measured_low,measured_high,use\n".rows
unset print

# A line visits each x once. Otherwise it would run up and down between rows whose differing
# settings are not in the file.
visited = "\n"
visit(t) = strstrt(visited, "\n".t."\n") ? (repeated = repeated eq "" ? t : repeated) : (visited = visited.t."\n")
repeated = ""
stats $rows using (visit(sprintf("%d %d %.9g", column("panel"), column("series"), column("x"))), 0) nooutput
if (repeated ne "") {
    printerr sprintf("%s: '%s' has several rows of '%s' at %s %s that differ in no setting", \
        figure, results_name, series_label[int(word(repeated, 2))], apart, word(repeated, 3))
    exit status 1
}

at_in(p, s) = column("panel") == p && column("series") == s ? column("x") : NaN
# Series of panel p that have a number in the column.
note_found(p, c) = column("panel") == p && stringcolumn(c) ne "nan" ? \
    (found = add(found, sprintf("%d", column("series"))), 0) : 0

note_use(p, use) = stringcolumn("use") eq use ? note_found(p, "measured") : 0
use_at(p, s, use) = stringcolumn("use") eq use ? at_in(p, s) : NaN
points_of(use, list, style) = list eq "" ? "" : "for [s in '".list."'] \
    $rows using (use_at(p, int(s), '".use."')):(column('measured')): \
    (column('measured_low')):(column('measured_high')) \
    with yerrorbars linestyle ".sprintf("%d", style)." + int(s) notitle, "
key_of(style, words) = sprintf(", keyentry with points linestyle %d title '%s'", style, words)

set xlabel x_label.(along eq "" ? "" : " (".along.")")
set ylabel is_compact && exists("short_y_label") ? short_y_label : y_label
if (x_doubles) { set logscale x 2 }
set xtics () nomirror
if (words(ticks) <= 12) { do for [x in ticks] { set xtics add (x x + 0) } } \
else { set xtics autofreq }
any_spread = 0
measured_key = !has("measured_use") ? (is_in(key_uses, "unseen") ? key_of(97, "measured") : "") : \
    (is_in(key_uses, "unseen") ? key_of(97, "measured, unseen") : ""). \
    (is_in(key_uses, "fitted") ? key_of(96, "measured, fitted") : ""). \
    (is_in(key_uses, "contradiction") ? key_of(95, "contradictory") : "")
set output output
set multiplot
do for [p = 1:panel_count] {
    # Otherwise stats would use the ranges of the previous panel.
    unset logscale y
    set xrange [*:*]
    set yrange [*:*]
    found = ""; stats $rows using (note_found(p, "predicted")) nooutput; predicted_in = found
    found = ""; stats $rows using (note_found(p, "low")) nooutput; spread_in = found
    found = ""; stats $rows using (note_use(p, "unseen")) nooutput; unseen_in = found
    found = ""; stats $rows using (note_use(p, "fitted")) nooutput; fitted_in = found
    found = ""; stats $rows using (note_use(p, "contradiction")) nooutput; contradiction_in = found
    any_spread = any_spread || spread_in ne ""

    y_min = NaN; y_max = NaN; x_min = NaN; x_max = NaN
    span_x(x) = (x_min = x >= x_min ? x_min : x, x_max = x <= x_max ? x_max : x)
    span_y(y) = (y_min = y >= y_min ? y_min : y, y_max = y <= y_max ? y_max : y)
    span(x, y) = y eq "nan" ? 0 : (span_x(x), span_y(real(y)), 0)
    do for [c in "predicted low high measured_low measured_high"] {
        stats $rows using (column("panel") == p ? span(column("x"), stringcolumn(c)) : 0) nooutput
    }
    x_room = x_max > x_min ? 0.03 * (x_max - x_min) : 0.5
    if (x_doubles) { set xrange [x_min / 1.15 : x_max * 1.15] } \
    else { set xrange [x_min - x_room : x_max + x_room] }
    set ytics autofreq
    if (y_doubles && y_min > 0 && y_max > 1.5 * y_min) {
        set logscale y 2
        # Powers of two alone would be too few.
        if (y_max < 8 * y_min) { set ytics (0.1875, 0.25, 0.375, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, \
            48, 64, 96, 128, 192, 256, 384, 512) }
        set yrange [y_min / 1.15 : y_max * 1.15]
    } else {
        unset logscale y
        set yrange [0 : y_max > 0 ? y_max * 1.1 : 1]
    }
    # All ticks of an axis have the same prefix; steps are 1, 2 or 5 times a power of ten, five to
    # ten of them.
    if (exists("y_prefixed")) {
        y_top = y_max > 0 ? y_max * 1.1 : 1
        tick = 10 ** floor(log10(y_top / 5))
        tick = tick * (y_top >= 25 * tick ? 5 : y_top >= 10 * tick ? 2 : 1)
        prefixed = y_max < 1e3 ? 1 : y_max < 1e6 ? 1e3 : 1e6
        prefix = prefixed == 1 ? "" : prefixed == 1e3 ? "k" : "M"
        set ytics ("0" 0)
        do for [i = 1:int(y_top / tick)] {
            set ytics add (sprintf("%.6g%s", i * tick / prefixed, prefix) i * tick)
        }
    }

    set lmargin at screen panel_left(p)
    set rmargin at screen panel_right(p)
    set title panel_title(p) textcolor rgb ink
    if (p < panel_count) { set key off } else { set key on }
    # A part without points is omitted, as gnuplot would warn.
    reference_part = reference_label eq "" ? "" : "reference(x) with lines linestyle 99 notitle, "
    spread_part = spread_in eq "" ? "" : "for [s in spread_in] \
        $rows using (at_in(p, int(s))):(column('low')):(column('high')) \
        with filledcurves linestyle int(s) notitle, "
    predicted_part = predicted_in eq "" ? "" : "for [s in predicted_in] \
        $rows using (at_in(p, int(s))):(column('predicted')) \
        with linespoints linestyle int(s) notitle, "
    measured_part = points_of("unseen", unseen_in, 100).points_of("fitted", fitted_in, 200). \
        points_of("contradiction", contradiction_in, 300)
    reference_key = reference_label eq "" ? "" : \
        ", keyentry with lines linestyle 99 title reference_label"
    spread_key = any_spread ? ", keyentry with filledcurves linestyle 98 fillstyle transparent solid 0.25 title spread_label" : ""
    set datafile missing NaN    # a missing point does not break the line of a series
    eval "plot ".reference_part.spread_part.predicted_part.measured_part.\
        "for [s = 1:series_count] keyentry with linespoints linestyle s title series_label[s]".\
        reference_key.spread_key.measured_key
    unset datafile missing
    unset label 1
    unset ylabel
}
unset multiplot
