# Throughput against the averaging interval, one line per number of workers: predictions as lines
# with their 95 % interval, measurements as points.
#
#   gnuplot -e "results='results.csv'; output='interval.png'" plots/interval.gp
figure = "interval"
folder = ARG0[1:strlen(ARG0) - strlen("interval.gp")]
needed = "workers interval throughput_per_s"
apart = "interval"
wanted(unused) = known(number("interval")) && known(number("throughput_per_s"))
wanted_what = "no row has an averaging interval"
load folder."results.gp"

at(unused) = number("interval")
predicted(unused) = number("throughput_per_s")
low(unused) = number("throughput_low_per_s")
high(unused) = number("throughput_high_per_s")
measured(unused) = number("measured_per_s")
measured_low(unused) = number("measured_low_per_s")
measured_high(unused) = number("measured_high_per_s")
spread_label = "95 % interval"
reference_label = ""
x_label = "mini-batches between two averages"
x_doubles = 1
y_doubles = 0
y_label = "throughput (samples/s)"
y_prefixed = 1
load folder."lines.gp"
