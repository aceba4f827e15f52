# Test error during training against simulated seconds, measured with real gradients that were
# applied in the order of a simulated run (dlprof train --schedule ... --curve): one line per
# setting, with standard errors if there are several seeds. Reads the curves that
# scenarios/accuracy/run.sh summarises.
#
#   gnuplot -e "results='curves.csv'; output='time_to_accuracy.png'" plots/time_to_accuracy.gp
#   model='mlp' selects one of several models; default: the first one
figure = "time_to_accuracy"
folder = ARG0[1:strlen(ARG0) - strlen("time_to_accuracy.gp")]
set encoding utf8
if (!exists("results") || !exists("output")) {
    printerr sprintf("usage: gnuplot -e \"results='curves.csv'; output='%s.png'\" %s%s.gp", \
        figure, folder, figure)
    printerr "       optional: title='heading', model='mlp'; SVG is written when the output's name ends in .svg"
    exit status 2
}
table = results
needed = "model setting simulated_s accuracy accuracy_se"
load folder."columns.gp"
found = ""
stats results using (known(number("simulated_s")) ? (found = add(found, text("model")), 0) : 0) nooutput
if (!exists("model")) { model = word(found, 1) }
wanted(unused) = known(number("simulated_s")) && text("model") eq model
settings = ""
stats results using (wanted(0) ? (settings = add(settings, text("setting")), 0) : 0) nooutput
if (words(settings) == 0) {
    printerr sprintf("%s: '%s' has no row to draw: none has a simulated time", figure, results)
    exit status 1
}
series_count = words(settings)
panel_count = 1
left_px = 100.0
right_px = 425.0
gap_px = 0.0
canvas_width = left_px + right_px + 645
canvas_height = 600
load folder."common.gp"

# "s30-softsync-15-rate": 15-softsync, rate / staleness.
part(t, i) = i <= words(t) ? word(t, i) : ""
spaced(t) = strstrt(t, "-") == 0 ? t : \
    spaced(t[1:strstrt(t, "-") - 1]." ".t[strstrt(t, "-") + 1:])
workers_of(t) = part(t, 1)[2:]
mode_of(t) = part(t, 2) eq "softsync" ? part(t, 3)."-softsync" : part(t, 2) eq "one" ? "" : part(t, 2)
suffix_of(t) = word(t, words(t)) eq "rate" ? ", rate / staleness" : ""
label_of(t) = workers_of(t) eq "1" ? "1 worker" : workers_of(t)." workers, ".mode_of(t).suffix_of(t)
in_series(s) = wanted(0) && text("setting") eq word(settings, s)
x_of(s) = in_series(s) ? number("simulated_s") : NaN
# The axis is logarithmic: an error of 0 is drawn as 0.01 %.
error_of(unused) = 100 * (1 - number("accuracy"))
y_of(unused) = error_of(0) > 0.01 ? error_of(0) : 0.01
se_of(unused) = known(number("accuracy_se")) ? 100 * number("accuracy_se") : 0
low_of(unused) = y_of(0) - se_of(0) > 0.01 ? y_of(0) - se_of(0) : 0.01
high_of(unused) = y_of(0) + se_of(0)
set lmargin at screen panel_left(1)
set rmargin at screen panel_right(1)
set xlabel "simulated time (s)"
set ylabel "test error (%)"
set logscale xy
set yrange [*:110]
set ytics (0.5, 1, 2, 3, 5, 10, 20, 50, 90)
set format x "%g"
set output output
set datafile missing NaN
plot for [s = 1:series_count] results using (x_of(s)):(y_of(0)):(low_of(0)):(high_of(0)) \
        with yerrorlines linestyle s title label_of(spaced(word(settings, s)))
