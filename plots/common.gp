# The style of all figures: size, colours, dashes, points, margins, key.
#
# Loaded after results.gp. Set by the figure:
#   canvas_width, canvas_height             size of the picture in pixels
#   left_px, right_px, gap_px               space left and right of the panels, and between panels
# and, by a figure that has a compact form,
#   key_lines                               number of entries in the key
#   key_chars                               length of the longest entry
#   compact_left_px, compact_body_px        space left of the panel, and the panel's height
# If the caller has set compact=1, such a figure with one panel has the width of a phone, with the
# key below the panel.
#
# Set by this file:
#   linestyle s         predictions of series s: hollow points, dashed; linestyle 100 + s:
#                       measurements, filled points. Colours, dashes and points have different
#                       periods, so series also differ in grey.
#   linestyle 97, 98, 99        "measured" in the key; "spread" in the key; thin reference line
#   panel_left(p), panel_right(p)   margins of panel p, as fractions of the picture

# The name is always that of a file, never a command.
if (strstrt(output, "|") == 1) { output = "./".output }
is_compact = exists("compact") && exists("key_lines") && panel_count == 1
key_px = 27.0
if (is_compact) {
    key_columns = key_lines < 2 || key_chars > 17 ? 1 : 2
    key_rows = ceil(1.0 * key_lines / key_columns)
    # At least as high as the key: gnuplot puts only as many rows into it as fit beside the panel.
    key_body_px = 1.1 * key_px * key_rows + 10
    if (compact_body_px < key_body_px) { compact_body_px = key_body_px }
    left_px = compact_left_px
    right_px = 14.0
    canvas_width = 460
    canvas_height = compact_body_px + 104 + key_px * key_rows + (exists("title") ? 35 : 0)
}
heading = exists("title") ? title : ""
# Widens the picture for a heading that is wider than the panels.
if (!is_compact && strlen(heading) * 10.5 > canvas_width) { canvas_width = strlen(heading) * 10.5 }
is_svg = strlen(output) > 4 && output[strlen(output) - 3:] eq ".svg"
# Each terminal has its own units: PNG's fonts are in points, SVG's in pixels.
font_size = is_svg ? 15.0 : 12.0
font_times(factor) = sprintf(",%.1f", font_size * factor)
point_scale = is_svg ? 0.6 : 1.0
if (is_svg) {
    set terminal svg size canvas_width, canvas_height dynamic noenhanced \
        font "sans-serif".font_times(1) background rgb "white"
} else {
    set terminal pngcairo size canvas_width, canvas_height noenhanced \
        font "Sans".font_times(1) background rgb "white"
}

# Colours that colour-blind readers can distinguish: Okabe and Ito's, with the light ones replaced
# by Tol's indigo and purple.
palette = "#0072B2 #D55E00 #009E73 #AA4499 #332288 #E69F00 #000000"
set dashtype 11 solid
set dashtype 12 (14, 4)
set dashtype 13 (5, 4)
set dashtype 14 (14, 4, 3, 4)
set dashtype 15 (3, 3)
set dashtype 16 (14, 4, 3, 4, 3, 4)
hollow = "4 6 8 10 12"
do for [s = 1:series_count] {
    set style line s linecolor rgb word(palette, 1 + (s - 1) % 7) linewidth 1.8 \
        dashtype 11 + (s - 1) % 6 pointtype int(word(hollow, 1 + (s - 1) % 5)) \
        pointsize 0.9 * point_scale
    set style line 100 + s linecolor rgb word(palette, 1 + (s - 1) % 7) linewidth 1.6 \
        dashtype 11 pointtype 1 + int(word(hollow, 1 + (s - 1) % 5)) pointsize 1.25 * point_scale
}
ink = "#404040"
set style line 98 linecolor rgb "#808080"
set style line 97 linecolor rgb "#404040" pointtype 7 pointsize 1.25 * point_scale
set style line 99 linecolor rgb "#808080" linewidth 1 dashtype 11    # ideal, reference
set border 3 linecolor rgb ink linewidth 1
set tics nomirror out scale 0.6 textcolor rgb ink
set grid ytics linetype 1 linecolor rgb "#D8D8D8" linewidth 1
set style fill transparent solid (series_count > 4 ? 0.05 : 0.08) noborder    # many bands overlap
panel_px = (1.0 * canvas_width - left_px - right_px - gap_px * (panel_count - 1)) / panel_count
panel_left(p) = (left_px + (p - 1) * (panel_px + gap_px)) / canvas_width
panel_right(p) = (left_px + (p - 1) * (panel_px + gap_px) + panel_px) / canvas_width
head_px = (heading eq "" ? 50.0 : 85.0) - (is_compact ? 36 : 0)
foot_px = is_compact ? 88 + key_px * key_rows : 75.0
set tmargin at screen 1 - head_px / canvas_height
set bmargin at screen foot_px / canvas_height
set key at screen panel_right(panel_count) + 12.0 / canvas_width, \
    screen 1 - head_px / canvas_height \
    left top vertical Left reverse samplen 3.5 spacing 1.35 noenhanced textcolor rgb ink maxrows 30
if (is_compact) {
    set key at screen 8.0 / canvas_width, screen (10 + key_px * key_rows) / canvas_height \
        samplen 2.5 spacing 1.2 maxrows key_rows
}
set label 1 heading at screen 0.5, screen 1 - 28.0 / canvas_height center \
    font font_times(1.25) noenhanced
