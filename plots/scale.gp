# Time and memory of simulating 10 steps, over the number of workers: docs/scale.md. The table has the
# columns mode, workers, seconds of processor time, bytes of memory.
#
#   gnuplot -e "table='docs/scale.csv'; output='docs/scale.png'" plots/scale.gp
if (!exists("table") || !exists("output")) {
    print "usage: gnuplot -e \"table='docs/scale.csv'; output='docs/scale.png'\" plots/scale.gp"
    exit status 2
}
set datafile separator ","
set datafile commentschars "#"
set terminal pngcairo size 900,380 font "sans,10"
set output output
set multiplot layout 1,2
set logscale xy
set grid
set key left top
set xlabel "workers"
set format x "10^{%L}"
set ylabel "processor time (s)"
of(mode, column) = strcol(1) eq mode ? column : NaN
plot for [mode in "none allreduce async"] table using 2:(of(mode, $3)) with linespoints pt 7 title mode
set ylabel "memory (MB)"
plot for [mode in "none allreduce async"] table using 2:(of(mode, $4 / 1e6)) with linespoints pt 7 title mode
unset multiplot
