#!/usr/bin/env bash
# From traces of ranks that shard their states to costs that name it, and a prediction beside the
# traced step. Usage: test_traced_collectives.sh DLCAL DLSIM
set -u
dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/made_sharded.sh
source "$(dirname "$0")/made_sharded.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
has() { grep -q -- "$2" "$1" || fail "$1 has no '$2': $(grep -v '^note' "$1")"; }
lacks() { grep -q -- "$2" "$1" && fail "$1 has '$2'"; }
costs() { # KIND: the costs of both forms of the trace, which are the same
    for form in params ranges; do
        made_sharded $form "$1" 4 8 >$form.json
        tested=$dlcal expect 0 "costs written" costs $form.json --batch 16 -o $form.ini
        sed -e '1d' -e '/^file = /d' -e '/^\[notes\]/,$d' -e '/_ns = /d' $form.ini >$form.same
    done
    diff params.same ranges.same >/dev/null || fail "$1: $(diff params.same ranges.same)"
    mv params.ini "$1.ini"
}
step() { # of the only row
    awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
        { printf "%.4f\n", 1000 * $c["step_mean_s"] }' "$1"
}

# Four layers of 4 MB on eight ranks: the step is 2.6 ms traced, of which 2.5 ms are computing; the
# update of a part of 0.1 ms, 5 us of which starts it, is 5 + 8 x 95 = 765 us of all parameters.
costs full
has full.ini '^sharded = parameters$'
has full.ini '^parameter_bytes = 16000000$'
has full.ini '^ready_1 = 0.25, 4000000$'
has full.ini '^ready_4 = 1, 16000000$'
has full.ini '^fixed_ns = 766'
lacks full.ini '^collective_'
costs once
has once.ini '^sharded = gradients$'
lacks once.ini '^collective_'
costs update
has update.ini '^sharded = gradients$'
lacks update.ini 'mixed precision'
lacks update.ini '^collective_'
costs ddp
lacks ddp.ini '^sharded'
has ddp.ini '^parameter_bytes = 16000000$'
lacks ddp.ini '^collective_'

# The first thing to try is the trace's own, which dlsim shards as the program did.
made_sharded params full 4 8 >full.json
tested=$dlcal expect 0 "--machine 8xa100_80gb --workers 8,1,2,4 --mode allreduce (the trace's own number first" \
    costs full.json --batch 16 -o full.ini
one=(--costs full.ini --machine 8xa100_80gb --workers 8)
tested=$dlsim expect 0 "states are divided as [costs] sharded = parameters" "${one[@]}" -o own.csv
awk -v s="$(step own.csv)" 'BEGIN { exit !(s > 2.5 && s < 2.75) }' || fail "the own step is $(step own.csv) ms"
"$dlsim" "${one[@]}" -o own.csv | grep -qE '49004\.6 +-?[0-9]\.' || fail "not beside the traced step"
tested=$dlsim expect 0 "1 points" "${one[@]}" --set exchange.sharded=parameters -o same.csv
[ "$(step own.csv)" = "$(step same.csv)" ] || fail "named, it takes $(step same.csv) in place of $(step own.csv)"
tested=$dlsim expect 0 "1 points" "${one[@]}" --set exchange.sharded=none -o none.csv
awk -v a="$(step none.csv)" -v b="$(step own.csv)" 'BEGIN { exit !(a > b + 0.5) }' ||
    fail "each rank updates all: $(step none.csv) ms, a part: $(step own.csv) ms"
tested=$dlsim expect 0 "so none does; --mode allreduce --set exchange.sharded=parameters simulates it" \
    "${one[@]}" --mode allreduce,average -o modes.csv
tested=$dlsim expect 1 "[costs] sharded = zero" --costs <(sed 's/^sharded = .*/sharded = zero/' full.ini) \
    --machine 8xa100_80gb --workers 8 --batch-per-worker 16

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
