#!/usr/bin/env bash
# From traces of ranks with sharded states to costs that name the sharding, and a prediction of the
# traced step.
# Usage: test_traced_collectives.sh DLCAL DLSIM
set -u
dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/made_sharded.sh
source "$(dirname "$0")/made_sharded.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
has() { grep -q -- "$2" "$1" || fail "$1 has no '$2': $(grep -v '^note' "$1")"; }
lacks() { grep -q -- "$2" "$1" && fail "$1 has '$2'"; }
costs() { # KIND: both forms of the trace give equal costs
    for form in params ranges; do
        made_sharded $form "$1" 4 8 >$form.json
        tested=$dlcal expect 0 "costs written" costs $form.json --batch 16 -o $form.ini
        sed -e '1d' -e '/^file = /d' -e '/^\[notes\]/,$d' -e '/_ns = /d' $form.ini >$form.same
    done
    diff params.same ranges.same >/dev/null || fail "$1: $(diff params.same ranges.same)"
    mv params.ini "$1.ini"
}
step() { # ms, of the only row
    awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
        { printf "%.4f\n", 1000 * $c["step_mean_s"] }' "$1"
}

# Four layers of 4 MB on eight ranks: the traced step takes 2.6 ms, of which 2.5 ms is compute. The
# update of one eighth takes 0.1 ms, 5 us of it to start, so that of all parameters takes 5 + 8 x 95
# = 765 us.
costs full
has full.ini '^sharded = parameters$'
has full.ini '^parameter_bytes = 16000000$'
has full.ini '^ready_1 = 0.25, 4000000$'
has full.ini '^ready_4 = 1, 16000000$'
has full.ini '^fixed_ns = 766'
lacks full.ini '^collective_'
lacks full.ini '^reshard'
costs once
has once.ini '^sharded = parameters$'
has once.ini '^reshard_after_forward = no$'
lacks once.ini '^collective_'
costs update
has update.ini '^sharded = gradients$'
lacks update.ini 'param_dtype'
lacks update.ini '^reshard'
has update.ini '^sharded = gradients$'
lacks update.ini '^collective_'
costs ddp
lacks ddp.ini '^sharded'
has ddp.ini '^parameter_bytes = 16000000$'
lacks ddp.ini '^collective_'

# The first command that is suggested reproduces the trace; dlsim shards as the program did.
made_sharded params full 4 8 >full.json
tested=$dlcal expect 0 "--machine 8xa100_80gb --workers 8,1,2,4 --mode allreduce (the trace's own number first" \
    costs full.json --batch 16 -o full.ini
one=(--costs full.ini --machine 8xa100_80gb --workers 8 --notes)
tested=$dlsim expect 0 "states are divided as [costs] sharded = parameters" "${one[@]}" -o own.csv
awk -v s="$(step own.csv)" 'BEGIN { exit !(s > 2.5 && s < 2.75) }' || fail "the own step is $(step own.csv) ms"
"$dlsim" "${one[@]}" -o own.csv | grep -qE ' 49005 +[-+]?[0-9]\.' || fail "not beside the traced step"
tested=$dlsim expect 0 "1 point" "${one[@]}" --set exchange.sharded=parameters -o same.csv
[ "$(step own.csv)" = "$(step same.csv)" ] || fail "named, it takes $(step same.csv) in place of $(step own.csv)"
tested=$dlsim expect 0 "1 point" "${one[@]}" --set exchange.sharded=none -o none.csv
awk -v a="$(step none.csv)" -v b="$(step own.csv)" 'BEGIN { exit !(a > b + 0.5) }' ||
    fail "each rank updates all: $(step none.csv) ms, a part: $(step own.csv) ms"
tested=$dlsim expect 0 "so none does; --mode allreduce --set exchange.sharded=parameters simulates it" \
    "${one[@]}" --mode allreduce,average -o modes.csv
tested=$dlsim expect 1 "[costs] sharded = zero" --costs <(sed 's/^sharded = .*/sharded = zero/' full.ini) \
    --machine 8xa100_80gb --workers 8 --batch-per-worker 16

# A trace with a step twice as long contradicts every row with several workers, its own or not.
sed 's/^step_ns = .*/step_ns = 5224000, n = 2, measured/' full.ini >twice.ini
tested=$dlsim expect 0 "contradicts this: its own step is predicted 50 % too short" --costs twice.ini \
    --machine 8xa100_80gb --workers 1,4 -o twice.csv
tested=$dlsim expect 0 "where a step took 5.22 ms" --costs twice.ini --machine 8xa100_80gb --workers 1,4 -o twice.csv
"$dlsim" --costs twice.ini --machine 8xa100_80gb --workers 1,4 -o twice.csv >twice.txt
[ "$(grep -c ' !$' twice.txt)" = 1 ] || fail "not one row is marked: $(cat twice.txt)"
awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next } { print $c["trace_error_frac"] }' \
    twice.csv | awk '{ ok += $1 > 0.95 && $1 < 1.05 } END { exit ok != 2 }' || fail "the rows lack the error of the trace"

# One all-to-all per layer, of 4 MB from each rank: four before each step; the row includes all of
# them.
costs exchanged
has exchanged.ini '^parameter_bytes = 16000000$'
has exchanged.ini '^collective_1 = AlltoAll, 4, 2000000, 320000, 8$'
made=(--machine 8xa100_80gb --workers 8 --batch-per-worker 16 --notes)
tested=$dlsim expect 0 "without overlap: 4 AlltoAll (2.00 MB" --costs exchanged.ini "${made[@]}" -o with.csv
tested=$dlsim expect 0 "1 point" --costs <(sed '/^collective_/d' exchanged.ini) "${made[@]}" -o without.csv
awk -v a="$(step with.csv)" -v b="$(step without.csv)" 'BEGIN { exit !(a > b + 0.05 && a < b + 0.3) }' ||
    fail "all-to-alls make $(step without.csv) ms $(step with.csv)"
"$dlsim" --costs exchanged.ini "${made[@]}" -o with.csv | grep -q '^+ leaves' && fail "the row has them all"
tested=$dlsim expect 0 "rows with + leave out collectives of the step of rank 0 of 8" --costs exchanged.ini \
    "${made[@]}" --mode allreduce,average -o modes.csv
"$dlsim" --costs exchanged.ini "${made[@]}" --mode average -o modes.csv | grep -qE ' \+$' ||
    fail "averages do not show what they leave out"

# Sums of activations between pairs are not gradients, but those of divided layers: in each pass four
# of 2 MB, 125 kB a sample. Gradients are summed among four ranks.
form=params
made_sharded params split 4 8 >split.json
tested=$dlcal expect 0 "--layout tp=2 --workers 4 --batch-per-worker 16 (the traced job" costs split.json --batch 16 -o split.ini
has split.ini '^parameter_bytes = 16000000$'
has split.ini '^tensor_ranks = 2$'
has split.ini '^tensor_bytes_per_sample = 125000,'
has split.ini '^tensor_collectives_forward = 4,'
has split.ini '^tensor_collectives_backward = 4,'
lacks split.ini '^collective_'
tested=$dlsim expect 0 "1 point" --costs split.ini --machine 8xa100_80gb --layout tp=2 --workers 4 --batch-per-worker 16 -o split.csv
tested=$dlsim expect 1 "these are costs of one of 2 GPUs that divide each layer" --costs split.ini --machine 8xa100_80gb --workers 4 \
    --batch-per-worker 16 -o split.csv

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
