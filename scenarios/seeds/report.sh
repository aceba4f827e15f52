#!/usr/bin/env bash
# Simulates the studies that the project grew from, compares with what they measured, answers what they
# asked, draws. Results: build/seeds, above all report.txt; every number in it is read from a result,
# cost or measured file.
#
# Usage: scenarios/seeds/report.sh        needs bin/dlsim in build/release (or $DLSIM), and gnuplot
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    '') ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "report.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
dlsim=${DLSIM:-build/release/bin/dlsim}
seeds=scenarios/seeds
out=build/seeds
[ -x "$dlsim" ] || { echo "report.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
rm -rf "$out"
mkdir -p "$out"

studies="beeva_mxnet_p2_lenet beeva_mxnet_p2_lenet_3gpus beeva_mxnet_p2_mlp beeva_mxnet_p2_mlp_3gpus
    beeva_mxnet_gce8_lenet beeva_mxnet_gce2_lenet beeva_mxnet_azure_lenet
    beeva_tensorflow_p2 navid_keras navid_pytorch"

simulate() { # result, scenario, options...
    "$dlsim" --quiet "$seeds/$2.ini" -o "$out/$1.csv" "${@:3}"
}
for scenario in "$seeds"/*.ini; do
    name=$(basename "$scenario" .ini)
    simulate "$name" "$name"
done
for name in beeva_mxnet_p2_lenet beeva_tensorflow_p2 navid_keras_more; do
    simulate "${name}_free_host" "$name" --without dispatch
done
{
    echo "scenario,workers,batch,step_s,measured_step_s,error_frac,use"
    for name in $studies; do
        awk -v scenario="$name" -f "$seeds/rows.awk" "$seeds/fitted.csv" "$out/$name.csv"
    done
} >"$out/rows.csv"

# value RESULT KEY=VALUE,... COLUMN: the cell of the one row with these keys; `fastest` as COLUMN: the
# workers of the row with the largest throughput.
value() {
    awk -F, -v keys="$2" -v column="$3" '
        /^#/ { next }
        { gsub(/"[^"]*"/, "") }
        !named { for (i = 1; i <= NF; i++) at[$i] = i; named = split(keys, want, ","); next }
        {
            for (k in want) { split(want[k], pair, "="); if ($at[pair[1]] != pair[2]) next }
            rows++
            rate = $at["throughput_per_s"] + 0
            if (column != "fastest") found = $at[column]
            else if (rate > top) { top = rate; found = $at["workers"] }
        }
        END {
            if (found == "" || (rows != 1 && column != "fastest")) {
                print "report.sh: no one row " keys ": " column > "/dev/stderr"
                exit 1
            }
            print found
        }' "$out/$1.csv"
}
# cost COSTS SECTION KEY: the number in a cost file.
cost() {
    awk -v section="[$2]" -v key="$3" '
        /^\[/ { in_section = $0 == section }
        in_section && $1 == key { sub(/,.*/, "", $3); print $3; found = 1 }
        END { exit !found }' "scenarios/costs/$1.ini"
}
# measured TABLE WORKERS BATCH: step in s.
measured() {
    awk -F, -v n="$2" -v b="$3" '
        /^#/ { next }
        !named { named = 1; is_step = $4 == "step_s"; next }
        $1 == n && $2 == b && !found { found = 1; printf "%.8g\n", is_step ? $4 : b / $4 }
        END { exit !found }' "scenarios/measured/$1.csv"
}
calc() { awk "BEGIN { printf \"$1\", $2 }"; } # format, arithmetic

# shellcheck source=scenarios/seeds/report_text.sh
source "$seeds/report_text.sh"
report >"$out/report.txt"

draw() { # figure, result, title
    gnuplot -e "results='$out/$2.csv'; output='$out/$2.$1.png'; title='$3'" "plots/$1.gp"
}
draw errors rows "predicted and measured: all rows"
draw speedup beeva_mxnet_p2_lenet "LeNet, MXNet, EC2 p2.8xlarge"
draw breakdown beeva_mxnet_p2_lenet "LeNet, MXNet, EC2 p2.8xlarge"
draw speedup beeva_mxnet_p2_mlp "MLP, MXNet, EC2 p2.8xlarge"
draw speedup beeva_mxnet_gce8_lenet "LeNet, MXNet, Google, 8 K80 dies"
draw speedup beeva_mxnet_azure_lenet "LeNet, MXNet, Azure NC6 and NC24"
draw speedup beeva_tensorflow_p2 "Keras on TensorFlow, EC2 p2.8xlarge"
draw breakdown beeva_tensorflow_p2 "Keras on TensorFlow, EC2 p2.8xlarge"
draw speedup navid_keras "MNIST, Keras on TensorFlow, GTX 1080 Ti"
draw speedup navid_pytorch "VGG-19-BN, PyTorch, GTX 1080 Ti"
draw speedup navid_vgg_modes "VGG-19-BN, ways to exchange"
draw breakdown navid_vgg_modes "VGG-19-BN, ways to exchange"
draw staleness navid_vgg_modes "VGG-19-BN, ways to exchange"
draw speedup navid_vgg_unequal "VGG-19-BN, one GPU half as fast"
draw interval navid_vgg_interval "VGG-19-BN, averaging in host memory"

cat "$out/report.txt"
echo
echo "tables, figures and this text: $out"
