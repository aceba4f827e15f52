# Share of the time in which the workers compute against the rate of the network, one line per
# averaging interval (or other swept setting). Reads rows that differ in port_bytes_per_s or
# site_bytes_per_s.
#
#   gnuplot -e "results='results.csv'; output='utilisation.png'" plots/utilisation.gp
figure = "utilisation"
folder = ARG0[1:strlen(ARG0) - strlen("utilisation.gp")]
needed = "workers sync compute_frac"
apart = "port_bytes_per_s"
prepare = "if (!has(apart) && has('site_bytes_per_s')) { apart = 'site_bytes_per_s' }"
# For all-reduce in every step, which has no outer steps, this is the share of compute.
used(unused) = has("utilisation_frac") && known(number("utilisation_frac")) ? number("utilisation_frac") : \
    text("sync") eq "allreduce" ? number("compute_frac") : NaN
wanted(unused) = has(apart) && known(number(apart)) && known(used(0))
wanted_what = "no row has a utilisation and a swept rate (port_bytes_per_s or site_bytes_per_s)"
load folder."results.gp"

at(unused) = 8e-6 * number(apart)
predicted(unused) = 100 * used(0)
low(unused) = NaN
high(unused) = NaN
measured(unused) = NaN
measured_low(unused) = NaN
measured_high(unused) = NaN
spread_label = ""
reference_label = ""
x_label = (apart eq "port_bytes_per_s" ? "rate of a port" : "rate between sites")." (Mb/s)"
x_doubles = 1
y_doubles = 0
y_label = "compute utilisation (%)"
load folder."lines.gp"
