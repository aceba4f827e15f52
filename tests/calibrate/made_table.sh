# For tests of dlcal table: a machine, and a table of rows simulated by dlsim. Sourced; $dlsim
# simulates.

# four_gpus [LINES of [host]]: writes machine.ini, without a network
four_gpus() {
    cat <<END >machine.ini
[machine]
schema = 1
name = test
peer = all
[gpu_model g]
memory_bytes = 1GB
memory_bytes_per_s = 100GB/s
fp32_flop_per_s = 1Tflop/s
[link x16]
bytes_per_s = 10GB/s
latency_ns = 100
[host]
memory_bytes_per_s = 40GB/s
${1:-}
[gpus 0-3]
model = g
parent = socket0
link = x16
END
}

# make_table COSTS [OFF]: writes table.csv of scenario.ini with these costs; with OFF, every third
# row's throughput is too high by this fraction
make_table() {
    printf '%s\n' "$1" >costs.ini
    "$dlsim" --quiet scenario.ini -o made.csv || exit 1
    awk -F, -v off="${2:-0}" '/^#/ { next }
        !named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; print "workers,batch,throughput_per_s"; next }
        { per_s = $at["throughput_per_s"]
          print $at["workers"] "," $at["batch"] "," (++row % 3 == 0 && off > 0 ? per_s * (1 + off) : per_s) }' \
        made.csv >table.csv
}

# make_table_with_errors: writes table.csv with errors in some rows, which the fit leaves out, and
# costs.ini without the costs that it finds
make_table_with_errors() {
    local known="[costs]
schema = 1
parameter_bytes = 8000000
[dispatch]
per_worker_ns = 0"
    make_table "$known
serial_ns = 200000
[op network.forward]
fixed_ns = 1000000
per_sample_ns = 30000" 0.04
    echo "$known" >costs.ini
}
