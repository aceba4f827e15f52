#!/usr/bin/env bash
# Compares the bandwidth that a wanted compute utilisation needs (dlsim --solve) with what the simulator of
# Douillard et al. 2025 gives (arXiv 2501.18512, table 4): models of 1, 10 and 100 B parameters at two
# sites; data parallel, DiLoCo, Streaming DiLoCo with fragments of three layers, each every 100 steps. The
# table lies in $DL_DATA/scaling/local_sgd (default ./data); without it this script says so and does nothing.
# table4.awk says what is assumed and how the two are compared.
#
# Usage: scenarios/local_sgd/table4.sh [TABLE]     needs bin/dlsim in build/release (or $DLSIM)
# $BUILD: folder for scenarios and results (default build/local_sgd_table4)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlsim=${DLSIM:-build/release/bin/dlsim}
table=${1:-${DL_DATA:-data}/scaling/local_sgd/streaming_diloco_table4.csv}
out=${BUILD:-build/local_sgd_table4}
[ -f "$table" ] || { echo "table4.sh: skipped, there is no $table"; exit 0; }
[ -x "$dlsim" ] || { echo "table4.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
mkdir -p "$out"

# Nothing but the network takes time.
cat >"$out/machine.ini" <<'INI'
[machine]
schema = 1
name   = two sites
nodes  = 2
peer   = none
[gpu_model any]
memory_bytes       = 10000GB, assumed
memory_bytes_per_s = 1e6GB/s, assumed
fp32_flop_per_s    = 100Tflop/s, assumed
[link port]
bytes_per_s = 1Gb/s, assumed
latency_ns  = 0, assumed
[link pcie]
bytes_per_s = 1e6GB/s, assumed
latency_ns  = 0, assumed
[host]
sockets            = 1
memory_bytes_per_s = 1e6GB/s, assumed
[gpus 0]
model  = any
parent = socket0
link   = pcie
[nics 0]
parent = socket0
link   = pcie
port   = port
INI

# costs PARAMS_B LAYERS STEP_S BYTES: of a step whose backward pass takes two thirds of it, and has the layers'
# gradients one after another.
costs() {
    awk -v n="$1" -v layers="$2" -v step="$3" -v bytes="$4" 'BEGIN {
        printf "[costs]\nschema = 1\noverlap = yes\nparameter_bytes = %.0f\n", bytes * n * 1e9
        printf "[op network.forward]\nfixed_ns = %.3f, assumed\nper_sample_ns = 0, assumed\n", step / 3 * 1e9
        printf "[op network.backward]\nfixed_ns = %.3f, assumed\nper_sample_ns = 0, assumed\n", 2 * step / 3 * 1e9
        print "[op network.update]\nfixed_ns = 0, assumed\nper_sample_ns = 0, assumed"
        print "[dispatch]\nserial_ns = 0, assumed\nper_worker_ns = 0, assumed\n[overlap]\nslowdown = 1, assumed"
        print "[gpu_memory]\nactivation_bytes_per_sample = 0, assumed\nworkspace_bytes = 0, assumed\n[gradients]"
        for (i = 1; i <= layers; i++)
            printf "ready_%d = %.9f, %.0f\n", i, i / layers, bytes * n * 1e9 * i / layers }'
}

# scenario METHOD LAYERS COSTS: its sync mode.
scenario() {
    printf '[scenario]\nname = %s\nsteps = 2200\nwarmup = 200\n' "$1"
    printf '[machine]\nfile = machine.ini\nworkers = 2\nport_bytes_per_s = 1Gb/s\n'
    printf '[workload]\ncosts = %s\nbatch_per_worker = 1\n[exchange]\nalgorithm = ring\n' "$3"
    case $1 in
        data-parallel) printf '[sync]\nmode = allreduce\n'; return ;;
        *+FP4) printf 'compress = fp4\n' ;;
    esac
    printf '[sync]\nmode = average\nwhere = allreduce\ninterval = 100\n'
    [ "$1" = DiLoCo ] || printf 'fragments = %d\n' $(($2 / 3))
    case $1 in *overlap*) printf 'lag = 1\n' ;; esac
}

n=0
while IFS=, read -r params layers step method targets; do
    n=$((n + 1))
    case $method in *FP4) bytes=4 ;; *) bytes=2 ;; esac # fp4 is an eighth of fp32; all others are in bf16
    costs "$params" "$layers" "$step" $bytes >"$out/costs_$n.ini"
    scenario "$method" "$layers" "costs_$n.ini" >"$out/row_$n.ini"
    "$dlsim" --quiet "$out/row_$n.ini" --solve port_bytes_per_s --target compute_frac=0.5,0.8,0.9,0.95,0.99 \
        -o "$out/row_$n.csv" >"$out/row_$n.txt"
    solved=$(awk -F, '/^#/ { next } !n { n = 1; next } { printf " %.9g", 8e-9 * $2 }' "$out/row_$n.csv")
    echo "$params $layers $step $method ${targets//,/ }$solved"
done < <(tail -n +2 "$table" | tr -d '\r') >"$out/solved"
awk -f scenarios/local_sgd/table4.awk "$out/solved"
