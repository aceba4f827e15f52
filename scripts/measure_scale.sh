#!/usr/bin/env bash
# Measures processor time and memory of simulating ten steps with 8 to a million workers. Writes docs/scale.csv
# (or $TABLE), from which plots/scale.gp draws docs/scale.png. One GPU per node on a switch; averages
# are kept in the first node's memory, the server of async on the GPU of an additional node. Takes the
# least of two runs; one minute on an idle machine.
#
# Usage: scripts/measure_scale.sh
#
# Needs dlsim in build/release/bin (or $BIN), and GNU time.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
    "") ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "measure_scale.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
bin=${BIN:-build/release/bin} out=build/scale table=${TABLE:-docs/scale.csv}
modes=(none allreduce average async)
mkdir -p "$out"

cat >"$out/switch.ini" <<'INI'
[machine]
schema    = 1
name      = one GPU per node
nodes     = 1
peer      = switch
gpudirect = yes
[gpu_model g]
memory_bytes       = 16GB
memory_bytes_per_s = 900GB/s
fp32_flop_per_s    = 15Tflop/s
[link x16]
bytes_per_s = 12.5GB/s
latency_ns  = 1us
[link port]
bytes_per_s = 12.5GB/s
latency_ns  = 2us
[host]
memory_bytes_per_s = 100GB/s
[gpus 0]
model  = g
parent = socket0
link   = x16
[nics 0]
parent = socket0
link   = x16
port   = port
INI
cat >"$out/costs.ini" <<'INI'
[costs]
schema          = 1
parameter_bytes = 100000000
[dispatch]
serial_ns     = 0
per_worker_ns = 0
[op step.forward]
fixed_ns      = 1e8
per_sample_ns = 0
INI

# Seconds of processor time and kilobytes of memory.
measure() { # mode, workers
    {
        printf '[scenario]\nsteps = 10\n[machine]\nfile = switch.ini\nnodes = %d\nworkers = %d\n' "$(($2 + 1))" "$2"
        printf '[workload]\ncosts = costs.ini\nbatch_per_worker = 1\n'
        [ "$1" = async ] || printf '[exchange]\nalgorithm = ring\n' # a server has no algorithm
        printf '[sync]\nmode = %s\n' "$1"
        case $1 in
            average) printf 'interval = 5\n' ;;
            async) printf 'where = gpu:%d\n' "$2" ;;
        esac
        printf '[noise]\nkind = lognormal\nsigma = 0.1\n'
    } >"$out/scale.ini"
    /usr/bin/time -f '%U %S %M' -o "$out/time.txt" "$bin/dlsim" --quiet --threads 1 "$out/scale.ini" -o "$out/scale.csv" 2>"$out/messages.txt" ||
        { cat "$out/messages.txt" >&2; exit 1; }
    awk '{ printf "%.3f %d\n", $1 + $2, $3 }' "$out/time.txt"
}

{
    echo "# Ten steps, one GPU per node on a switch (scripts/measure_scale.sh): mode, workers, seconds of processor time, bytes of memory."
    for mode in "${modes[@]}"; do
        for workers in 8 64 512 4096 32768 262144 1000000; do
            for _ in 1 2; do measure "$mode" "$workers"; done |
                awk -v row="$mode,$workers" '
                    NR == 1 || $1 < s { s = $1 }
                    NR == 1 || $2 < m { m = $2 }
                    END { printf "%s,%g,%d\n", row, (s < 0.005 ? 0.005 : s), 1024 * m }'
        done
    done
} >"$table.tmp"
mv "$table.tmp" "$table"
