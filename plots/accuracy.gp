# Test error after training against the averaging interval, and against the mean staleness of the
# applied gradients, with and without division of the learning rate by it: means over the seeds with
# standard errors. Reads the table that scenarios/accuracy/run.sh writes.
#
#   gnuplot -e "results='accuracy.csv'; output='accuracy.png'" plots/accuracy.gp
figure = "accuracy"
folder = ARG0[1:strlen(ARG0) - strlen("accuracy.gp")]
set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='accuracy.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading'; SVG is written when the output's name ends in .svg"
    exit status 2
}
table = results
needed = "model sync workers interval staleness_rate simulated accuracy accuracy_se staleness_mean"
load folder."columns.gp"

# Rows with an interval belong to the left panel, rows with a staleness to the right one.
averages(unused) = known(number("interval"))
stale(unused) = known(number("staleness_mean")) && text("sync") ne "none"
models = ""
workers_seen = ""
rates = ""
found_rows = 0
note(m) = (models = add(models, m), found_rows = found_rows + 1, 0)
stats results using (averages(0) || stale(0) ? note(text("model")) : 0) nooutput
stats results using (averages(0) ? (workers_seen = add(workers_seen, text("workers")), 0) : 0) nooutput
stats results using (stale(0) ? (rates = add(rates, text("staleness_rate")), 0) : 0) nooutput
if (found_rows == 0) {
    printerr sprintf("%s: '%s' has no row to draw: none has an interval or a staleness", figure, results)
    exit status 1
}
model_count = words(models)
left_count = model_count * words(workers_seen)
right_count = model_count * words(rates)
series_count = left_count + right_count
panel_count = (left_count > 0) + (right_count > 0)
left_px = 100.0
right_px = 330.0
gap_px = 75.0
canvas_width = left_px + right_px + 430 * panel_count
canvas_height = 600
load folder."common.gp"

# In percent, with a lower limit, as the axis is logarithmic.
error_of(unused) = 100 * (1 - number("accuracy"))
se_of(unused) = known(number("accuracy_se")) ? 100 * number("accuracy_se") : 0
low_of(unused) = error_of(0) - se_of(0) > 0.01 ? error_of(0) - se_of(0) : 0.01
high_of(unused) = error_of(0) + se_of(0)
model_of(s) = word(models, 1 + (s - 1) % model_count)
workers_of(s) = word(workers_seen, 1 + (s - 1) / model_count)
rate_of(s) = word(rates, 1 + (s - 1) / model_count)
in_left(s) = averages(0) && text("model") eq model_of(s) && text("workers") eq workers_of(s)
in_right(s) = stale(0) && text("model") eq model_of(s) && text("staleness_rate") eq rate_of(s)
alone(m) = text("sync") eq "none" && number("simulated") == 0 && text("model") eq word(models, m)

set logscale y
set ylabel "test error (%)"
set format y "%g"
set ytics (0.5, 1, 2, 3, 5, 10, 20, 50, 90)
array one[model_count]
do for [m = 1:model_count] {
    one[m] = NaN
    stats results using (alone(m) ? (one[m] = error_of(0), 0) : 0) nooutput
}
low_end = 1e9
high_end = 0
span(unused) = (low_end = low_of(0) < low_end ? low_of(0) : low_end, \
    high_end = high_of(0) > high_end ? high_of(0) : high_end, 0)
stats results using (averages(0) || stale(0) ? span(0) : 0) nooutput
set yrange [low_end / 1.2 : high_end * 1.2]
key_left = "for [s = 1:left_count] keyentry with linespoints linestyle s title \
    sprintf('%s, average, %s workers', model_of(s), workers_of(s)), "
key_right = "for [s = 1:right_count] keyentry with points linestyle 100 + left_count + s title \
    sprintf('%s, %s', model_of(s), rate_of(s) eq '1' ? 'rate / staleness' : 'stale gradients'), "
alone_lines(x) = "for [m = 1:model_count] one[m] with lines linestyle 99 notitle, "
key_alone = "keyentry with lines linestyle 99 title '1 worker'"
set output output
set multiplot
panel = 0
if (left_count > 0) {
    panel = 1
    set lmargin at screen panel_left(panel); set rmargin at screen panel_right(panel)
    if (panel < panel_count) { unset key }
    set logscale x
    set xlabel "mini-batches between two averages"
    set xrange [0.8 : 65]
    set xtics (1, 2, 5, 10, 20, 50)
    eval "plot ".alone_lines(0)."for [s = 1:left_count] results \
        using (in_left(s) ? number('interval') : NaN):(error_of(0)):(low_of(0)):(high_of(0)) \
        with yerrorlines linestyle s notitle".(panel == panel_count ? ", ".key_left.key_alone : "")
    unset label 1
    unset ylabel
}
if (right_count > 0) {
    panel = panel + 1
    set lmargin at screen panel_left(panel); set rmargin at screen panel_right(panel)
    set key
    unset logscale x
    # Most settings lie near 0, a few far away.
    set nonlinear x via log(1 + x) inverse exp(x) - 1
    set xlabel "mean staleness (updates of others since the read)"
    set xrange [-0.1 : 40]
    set xtics (0, 0.5, 1, 2, 3, 5, 10, 20, 30)
    eval "plot ".alone_lines(0)."for [s = 1:right_count] results \
        using (in_right(s) ? number('staleness_mean') : NaN):(error_of(0)):(low_of(0)):(high_of(0)) \
        with yerrorbars linestyle 100 + left_count + s notitle, ".key_left.key_right.key_alone
}
unset multiplot
