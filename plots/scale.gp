# Processor time and memory to simulate 10 steps, over the number of workers (docs/scale.md).
# Columns of the table: mode, workers, seconds of processor time, bytes of memory.
#
#   gnuplot -e "table='docs/scale.csv'; output='docs/scale.png'" plots/scale.gp
folder = ARG0[1:strlen(ARG0) - strlen("scale.gp")]
set encoding utf8
if (!exists("table") || !exists("output")) {
    printerr "usage: gnuplot -e \"table='docs/scale.csv'; output='docs/scale.png'\" plots/scale.gp"
    exit status 2
}
set datafile separator ","
set datafile commentschars "#"
modes = "none allreduce average async"
panel_count = 2
series_count = words(modes)
canvas_width = 1150
canvas_height = 480
if (!exists("title")) { title = "Ten steps on one core, by mode" }
left_px = 100.0
right_px = 170.0
gap_px = 110.0
load folder."common.gp"

of(s, column) = strcol(1) eq word(modes, s) ? column : NaN
set logscale xy
set xlabel "workers"
set xrange [5 : 2e6]
set xtics ("10" 10, "100" 100, "1k" 1000, "10k" 10000, "100k" 100000, "1M" 1000000)
set output output
set multiplot
set lmargin at screen panel_left(1); set rmargin at screen panel_right(1)
set ylabel "processor time of 10 steps (s)"
set yrange [0.003 : 100]
set format y "%g"
unset key
plot for [s = 1:series_count] table using 2:(of(s, $3)) with linespoints linestyle s
set lmargin at screen panel_left(2); set rmargin at screen panel_right(2)
unset label 1
set ylabel "memory (MB)"
set yrange [2 : 5000]
set key
plot for [s = 1:series_count] table using 2:(of(s, $4 / 1e6)) with linespoints linestyle s title word(modes, s)
unset multiplot
