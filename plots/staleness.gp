# Staleness of the applied gradients against the number of workers: predicted mean and standard
# deviation, and the measured ones as filled points. If dlsim's histogram is given too, the whole
# distribution for each number of workers.
#
#   gnuplot -e "results='results.csv'; output='staleness.png'" plots/staleness.gp
#   gnuplot -e "results='results.csv'; histogram='histogram.csv'; output='staleness.png'" \
#       plots/staleness.gp
figure = "staleness"
folder = ARG0[1:strlen(ARG0) - strlen("staleness.gp")]
if (exists("histogram")) {
    table = histogram
    needed = "cores workers sync staleness count"
    load folder."columns.gp"
    histogram = table
}
needed = "workers sync staleness_mean staleness_sd"
apart = "workers"
# In synchronous modes the staleness is 0 (or their lag) in all rows, so they are not drawn.
stale_modes = ""
prepare = "stats results using (number('staleness_mean') > 0 && !(number('lag') > 0) ? \
    (stale_modes = add(stale_modes, text('sync')), 0) : 0) nooutput"
wanted(unused) = known(number("staleness_mean")) && is_in(stale_modes, text("sync"))
wanted_what = "no row of an asynchronous mode has a staleness"
load folder."results.gp"

at(unused) = number("workers")
predicted(unused) = number("staleness_mean")
low(unused) = number("staleness_mean") - number("staleness_sd")
high(unused) = number("staleness_mean") + number("staleness_sd")
measured(unused) = number("measured_staleness_mean")
measured_low(unused) = number("measured_staleness_mean") - number("measured_staleness_sd")
measured_high(unused) = number("measured_staleness_mean") + number("measured_staleness_sd")
spread_label = "± standard deviation"
reference(x) = x - 1
reference_label = "workers − 1"
x_label = "workers"
x_doubles = 0
y_doubles = 0
y_label = "staleness (updates by others between read and apply)"
short_y_label = "staleness (updates)"
if (exists("histogram")) { load folder."distribution.gp" } else { load folder."lines.gp" }
