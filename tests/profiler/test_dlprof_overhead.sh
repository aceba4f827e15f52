#!/usr/bin/env bash
# Overhead of recording CUDA: the commands dlprof bench overhead, run and info, with doubles of the
# driver, of CUPTI and, in the folder of a copy of the program, of the device's library.
# Usage: test_dlprof_overhead.sh DLPROF INJECTED_LIBRARY DEVICE_DOUBLE CUPTI_DOUBLE TARGET REAL_CUPTI
set -u
built=$1
library=$2
device=$3
cupti=$4
target=$5
export DOUBLE_REAL_CUPTI=$6
[ -r "$6" ] || exit 77
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN
export XDG_DATA_HOME=$folder/data

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

mkdir -p with without data/dlprof temporary
export TMPDIR=$folder/temporary
cp "$built" "$library" with
cp "$built" "$library" without
cp "$device" with/libdlprof_cuda.so
with=$folder/with/dlprof
overhead=(bench overhead --quick --model mlp --batch 8 --data synthetic --cupti "$cupti")

# The output has the reason why a part cannot be measured; the other parts are measured.
tested=$folder/without/dlprof
expect 0 "launches are not measured: this build has no libdlprof_cuda.so" "${overhead[@]}"
tested=$with
DOUBLE_DEVICE=none expect 0 "launches are not measured: the double has no device" \
    "${overhead[@]}" -o none.dlt
expect 0 "capture_cost.light unknown (the double has no device)" info none.dlt
DOUBLE_CUPTI=taken expect 0 "another tool has CUPTI already" "${overhead[@]}"
DOUBLE_CUPTI=no-copies expect 1 "preset light: recorded 10500 kernels and 0 copies" "${overhead[@]}"

# Each preset has a line in the output, and its figures are in the file.
output=$("$with" "${overhead[@]}" -o overhead.dlt) || fail "bench overhead: $output"
[ -z "$(awk 'length > 80' <<<"$output")" ] || fail "longer than 80 columns: $output"
for name in bare nvtx light default full; do
    [[ $output == *$'\n'"$name "* ]] || fail "no line of $name in: $output"
done
for name in nvtx light default full; do
    expect 0 "capture_cost.$name" info overhead.dlt
done
[ -z "$(ls "$TMPDIR")" ] || fail "temporary files are left: $(ls "$TMPDIR")"

# A trace of dlprof run has the figures of its preset, or a note that they are unknown.
tested=$with
run=(run --cupti "$cupti")
expect 3 "default; its cost is unknown (no figures of dlprof bench" \
    "${run[@]}" -o unknown -- "$target" wait 1000
expect 3 "full; adds " "${run[@]}" -p full --overhead overhead.dlt -o known -- "$target" wait 1000
expect 0 "\"cost_known\":true" info --json known/*.dlt
output=$("$with" info known/*.dlt | tr -s ' \n' ' ') # joins lines, whose breaks depend on the numbers
[[ $output == *" kernels, 0 copies, 0 events and 0 waits per step: "* ]] ||
    fail "no launches per step in: $output"
expect 3 "unknown (the double has no device)" \
    "${run[@]}" --overhead none.dlt -o none -- "$target" wait 1000
expect 1 "is not from dlprof bench overhead" \
    "${run[@]}" --overhead "$(echo known/*.dlt)" -o x -- "$target" wait 10
expect 1 "missing.dlt" "${run[@]}" --overhead missing.dlt -o x -- "$target" wait 10

# Without a file on the command line, dlprof reads the documented place.
cp overhead.dlt data/dlprof/
expect 3 "light; adds " "${run[@]}" -p light -o found -- "$target" wait 1000

exit $((failures > 0))
