#!/usr/bin/env bash
# Matrix products by shape, from the measurement to a prediction: dlprof bench shapes, dlcal shapes, dlsim.
# Usage: test_shapes.sh DLPROF DLCAL DLSIM
set -u
dlprof=$1
dlcal=$2
dlsim=$3
tested=$dlprof
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

net=transformer:layers=2,width=64,heads=4,sequence=32,vocabulary=200,positions=32
expect 0 "dlcal shapes makes a machine file from it" bench shapes --quick --workload "$net" \
    --threads 1 -o small.dlt
expect 0 "forward 256x64x192" info small.dlt
expect 2 "'shapes' comes before its options" bench --quick shapes
expect 2 "--workload is missing" bench shapes --quick
expect 2 "'transformer'" bench shapes --quick --workload transformr
expect 2 "shapes: --workload: transformers have no key 'hed'" bench shapes --quick \
    --workload transformer:hed=2
expect 2 "the process may use" bench shapes --quick --workload "$net" --threads 4000
expect 2 "the processor has fp32 only" bench shapes --quick --workload "$net" --math tf32

expect 2 "stored in 32 bits" bench shapes --quick --workload "$net" --device cuda --math fp16
tested=$dlcal
expect 0 "errors on the products of $net, batch 8, which the fit does not use" shapes small.dlt -o m.ini
expect 0 "machine written to n.ini" shapes small.dlt --machine 1xrtx3090 -o n.ini
expect 1 "it has [kernels cores fp32] already" shapes small.dlt --machine m.ini -o o.ini
expect 2 "would overwrite the trace" shapes small.dlt -o small.dlt
printf 'no trace' >not.dlt
expect 1 "not.dlt" shapes not.dlt -o o.ini

tested=$dlsim
run=(--workload "$net" --batch 8 --workers 1)
expect 0 "that were measured one by one on cores; steps were found to take" "${run[@]}" \
    --machine m.ini -o m.csv
# n.ini has only fp32 kernels of the RTX 3090.
expect 0 "measured one by one on rtx3090" "${run[@]}" --machine n.ini --set workload.arithmetic=fp32 \
    -o n.csv
expect 0 "of the bf16 flop rate" "${run[@]}" --machine n.ini -o n16.csv
# With a tenth of the rates and ten times the times, a step takes ten times as long; and so much longer as
# the layer took in its loop. The factor of 20 makes it longer than the host's launches.
grep -q '^; sustained = .*, measured' m.ini || { echo "FAIL: no sustained in m.ini"; exit 1; }
sed 's/^; sustained = .*/sustained = 20, measured/' m.ini >fast.ini
sed 's/^; sustained = .*/sustained = 40, measured/' m.ini >long.ini
awk '/_flop_per_s|_bytes_per_s/ && !/^memory/ { sub(/= [^f|B]*/, "= " $3 / 10) }
    / = .*ns, fitted/ { sub(/= [^n]*/, "= " 10 * $3) } { print }' fast.ini >slow.ini
step() {
    "$dlsim" "${run[@]}" --machine "$1" -q -o out.csv >/dev/null 2>&1
    awk -F, '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == "step_mean_s") at = i; next }
        { print $at }' out.csv
}
if [ "$failures" -gt 0 ]; then exit 1; fi
fast=$(step fast.ini) slow=$(step slow.ini) long=$(step long.ini)
if ! awk -v a="$fast" -v b="$slow" 'BEGIN { exit !(a > 0 && b > 9 * a && b < 11 * a) }'; then
    echo "FAIL: a step of $fast s, ten times slower kernels $slow s"
    failures=$((failures + 1))
fi
if ! awk -v a="$fast" -v b="$long" 'BEGIN { exit !(b > 1.98 * a && b < 2.02 * a) }'; then
    echo "FAIL: a step of $fast s with a factor of 20, $long s with 40"
    failures=$((failures + 1))
fi
exit "$((failures > 0))"
