# Speedup against the number of workers: predictions as lines with their 95 % interval, measurements
# as points. Points are hollow where costs were fitted to them, if the results have a column
# measured_use.
#
#   gnuplot -e "results='results.csv'; output='speedup.png'" plots/speedup.gp
figure = "speedup"
folder = ARG0[1:strlen(ARG0) - strlen("speedup.gp")]
needed = "workers throughput_per_s speedup"
apart = "workers"
wanted(unused) = known(number("speedup"))
wanted_what = "no row has a speedup"
load folder."results.gp"

# The baseline of all speedups: the throughput of one worker without exchange.
single(unused) = number("throughput_per_s") / number("speedup")
at(unused) = number("workers")
predicted(unused) = number("speedup")
low(unused) = number("speedup_low")
high(unused) = number("speedup_high")
measured(unused) = number("measured_per_s") / single(0)
measured_low(unused) = number("measured_low_per_s") / single(0)
measured_high(unused) = number("measured_high_per_s") / single(0)
spread_label = "95 % interval"
reference(x) = x
reference_label = "ideal"
x_label = "workers"
x_doubles = 1
y_doubles = 1
y_label = "speedup over one worker without exchange"
short_y_label = "speedup over one worker"
load folder."lines.gp"
