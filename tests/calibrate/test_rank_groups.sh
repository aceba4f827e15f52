#!/usr/bin/env bash
# From the trace of one rank of a job with several process groups to its collectives by group, and
# to costs and predictions of the same job and of others.
# Usage: test_rank_groups.sh DLCAL DLSIM
set -u
dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
# shellcheck source=tests/calibrate/made_groups.sh
source "$(dirname "$0")/made_groups.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
has() { grep -q -- "$2" "$1" || fail "$1 has no '$2': $(grep -v '^note' "$1")"; }
lacks() { grep -q -- "$2" "$1" && fail "$1 has '$2'"; }

# Collectives by group: in a step 2 x 8 gathers of 40 MB in bf16, of which a rank has 5 MB; 8
# reduce-scatters of 80 MB; 8 all-reduces of 10 MB between ranks 0 and 8. One group needs no table.
made_groups fsdp copies=2 >hsdp.json
"$dlcal" info hsdp.json >hsdp.txt
has hsdp.txt '^AllGather     mesh_shard         8 0-7          16 80.0 MB'
has hsdp.txt '^ReduceScatter mesh_shard         8 0-7           8 80.0 MB'
has hsdp.txt '^AllReduce     mesh_replicate     2 0, 8          8 80.0 MB'
made_groups fsdp >fsdp.json
"$dlcal" info fsdp.json >fsdp.txt
lacks fsdp.txt 'process group'
stages() { made_groups stage tp=4 pp=4 dp=2 micro=8 inside=330e3 outside=48e3 "$@"; }
stages stage=1 >stage.json
"$dlcal" info stage.json >stage.txt
has stage.txt '^AllReduce  TENSOR_M..EL_GROUP     4 8-11         256 17.2 GB'
has stage.txt '^AllReduce  MODEL_PA..EL_GROUP    32 0-31           1     4 B'
"$dlcal" info --json stage.json | grep -q '"group":"DATA_PARALLEL_GROUP","ranks":2,"members":"8, 12","per_step":1,"bytes":640000000,' ||
    fail "the group is not in the JSON"

# A row's step in ms: from results in CSV, or that of a made trace, as dlcal costs tells it.
step() {
    awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
        { printf "%.4f\n", 1000 * $c["step_mean_s"] }' "$1"
}
near() { # what, ms, other ms, largest error
    awk -v a="$2" -v b="$3" -v most="$4" 'BEGIN { e = a / b - 1; exit !(e < most && e > -most) }' || fail "$1: $2 ms, not $3"
}
traced() { awk '/^step_ns = / { sub(",", "", $3); print $3 / 1e6 }' "$1"; }
predict() { # costs, options...: ms
    rm -f row.csv
    "$dlsim" --costs "$@" -o row.csv >row.txt 2>&1 || cat row.txt >&2
    step row.csv
}

# FSDP on 8 ranks: its own step within 3 % of the made trace, and, from it, 64 ranks on 8 nodes within
# 5 % of theirs.
tested=$dlcal expect 0 "costs written" costs fsdp.json --batch 4 -o fsdp.ini
has fsdp.ini '^sharded = parameters$'
has fsdp.ini '^param_dtype = bf16$'
has fsdp.ini '^parameter_bytes = 640000000$'
lacks fsdp.ini '^shards'
near "FSDP on 8" "$(predict fsdp.ini --machine dgx_h100 --workers 8)" "$(traced fsdp.ini)" 0.03
made_groups fsdp shards=64 outside=48e3 >wide.json
tested=$dlcal expect 0 "costs written" costs wide.json --batch 4 -o wide.ini
near "FSDP on 64" "$(predict fsdp.ini --machine 8xdgx_h100 --workers 64)" "$(traced wide.ini)" 0.05
near "FSDP on 64 by its own trace" "$(predict wide.ini --machine 8xdgx_h100 --workers 64)" "$(traced wide.ini)" 0.05

# HSDP: two copies of 8 shards are two workers of fsdp=8; the all-reduce of a part is the exchange
# between them.
tested=$dlcal expect 0 "--layout fsdp=8 --workers 2 --batch-per-worker 32 (the traced job" costs hsdp.json --batch 4 -o hsdp.ini
has hsdp.ini '^shards = 8$'
lacks hsdp.ini '^collective_'
hybrid=(hsdp.ini --machine 2xdgx_h100 --layout fsdp=8 --batch-per-worker 32)
near HSDP "$(predict "${hybrid[@]}" --workers 2)" "$(traced hsdp.ini)" 0.03
near "HSDP with the trace's batch" "$(predict hsdp.ini --machine 2xdgx_h100 --layout fsdp=8 --workers 2)" "$(traced hsdp.ini)" 0.03
tested=$dlsim expect 0 "a worker's batch of 32 is 8 times the 4 samples per GPU" \
    --costs hsdp.ini --machine 2xdgx_h100 --layout fsdp=8 --workers 2 --notes -o row.csv
"$dlsim" --costs "${hybrid[@]}" --workers 2 --notes -o row.csv >given.txt
has given.txt 'measured/s'
lacks given.txt 'samples per GPU'
tested=$dlsim expect 2 "--batch-per-worker is missing: hsdp.ini has 4 samples per GPU" \
    --costs hsdp.ini --machine 2xdgx_h100 --layout 'fsdp=8 | fsdp=16' -o row.csv
tested=$dlsim expect 0 "measured/s" --costs "${hybrid[@]}" --workers 1,2 -o row.csv
tested=$dlsim expect 0 "1 point" --costs "${hybrid[@]}" --workers 2 --mode average --interval 50 -o row.csv

# Divided layers: 16 sums of 67.1 MB in a pass of 4 samples; with divided sequences as many pairs.
for sequence in 0 1; do
    made_groups stage tp=8 dp=8 inside=330e3 outside=48e3 sequence=$sequence >tp.json
    tested=$dlcal expect 0 "--layout tp=8 --workers 8 --batch-per-worker 4 (the traced job" costs tp.json --batch 4 -o tp.ini
    has tp.ini '^tensor_ranks = 8$'
    has tp.ini '^tensor_bytes_per_sample = 16777216,'
    has tp.ini '^tensor_collectives_forward = 16,'
    has tp.ini '^tensor_collectives_backward = 16,'
    has tp.ini '^parameter_bytes = 640000000$'
    near "tp=8, sequence=$sequence" "$(predict tp.ini --machine 8xdgx_h100 --layout tp=8 --workers 8 --batch-per-worker 4)" \
        "$(traced tp.ini)" 0.03
done

# The update's one kernel starts in 5 us of 3204.65.
has tp.ini '^starts_frac = 0.0015625, assumed$'

# Traces of other layouts have other activations, or other parts of the state.
made_groups stage tp=4 dp=8 >tp4.json
tested=$dlcal expect 1 "traces of different layouts: tp 8, 1 copies of 1 shards (sharded: none); tp 4, " costs tp.json tp4.json --batch 4 -o bad.ini
tested=$dlcal expect 1 "1 copies of 1 shards (sharded: parameters); tp 1, 2 copies of 8 shards" costs fsdp.json hsdp.json --batch 4 -o bad.ini

# A sum of activations that no call describes is not taken for that of the gradients.
made_groups stage tp=8 dp=8 | awk '!(/"Collective name":"allreduce"/ && /TENSOR/ && ++n % 32 == 20)' >unmatched.json
tested=$dlcal expect 0 "costs written" costs unmatched.json --batch 4 -o unmatched.ini
has unmatched.ini '^collective_1 = AllReduce, [0-9]*, 0, '
lacks unmatched.ini '^collective_.*640000000'

# A stage of four: the others are unknown, unless they are alike or traced, too.
tested=$dlcal expect 1 "the times of stages 0, 2, 3 are unknown" costs stage.json --batch 32 -o stage.ini
tested=$dlcal expect 0 "stage 1 of 4 (PIPELINE_MODEL_PARALLEL_GROUP), with 8" costs stage.json --batch 32 --stages alike -o stage.ini
has stage.ini '^accumulate = 8$'
has stage.ini '^tensor_ranks = 4$'
has stage.ini '^output_bytes_per_sample = 16777216,'
has stage.ini '^parameter_bytes = 2560000000$'
has stage.ini '^stages = 4$'
lacks stage.ini '^collective_'
grid=(--machine 4xdgx_h100 --batch-per-worker 32 --workers 2) # with the trace's micro-batches
near "a stage of four" "$(predict stage.ini "${grid[@]}" --layout tp=4,pp=4)" "$(traced stage.ini)" 0.03
has row.txt '(--micro-batches'
[ "$(predict stage.ini "${grid[@]}" --layout tp=4,pp=4)" = "$(predict stage.ini "${grid[@]}" --layout tp=4,pp=4 --micro-batches 8)" ] ||
    fail "the micro-batches are not the trace's"
for s in 0 2 3; do
    stages stage=$s >stage$s.json
    tested=$dlcal expect 0 "stage $s of 4" costs stage$s.json --batch 32 --stages alike -o one.ini
    near "stage $s" "$(predict one.ini "${grid[@]}" --layout tp=4,pp=4)" "$(traced one.ini)" 0.03
done
tested=$dlcal expect 0 "costs written" costs stage0.json stage.json stage2.json stage3.json --batch 32 -o all.ini
near "four stages" "$(predict all.ini "${grid[@]}" --layout tp=4,pp=4)" "$(traced stage.ini)" 0.03
tested=$dlcal expect 1 "the times of stage 2 are unknown" costs stage0.json stage.json stage3.json --batch 32 -o all.ini
tested=$dlcal expect 2 "these are of stages 1 and 0" costs stage.json stage0.json --stages alike --batch 32 -o all.ini
tested=$dlsim expect 1 "8 stages, but the model has 4 layers" --costs stage.ini --machine 8xdgx_h100 --batch-per-worker 32 \
    --micro-batches 8 --workers 1 --layout tp=4,pp=8 -o row.csv

# GPipe with as many micro-batches as stages: to the first stage, both schedules are the same.
for s in 0 1 2 3; do
    stages stage=$s micro=4 gpipe=1 >gpipe$s.json
    stages stage=$s micro=4 >few$s.json
done
tested=$dlcal expect 0 "--micro-batches 4 --set pipeline.schedule=gpipe" costs gpipe?.json --batch 16 -o gpipe.ini
has gpipe.ini '^schedule = gpipe$'
has gpipe.ini 'stage 0 of 4 .* in schedule 1f1b or gpipe'
short=(--machine 4xdgx_h100 --batch-per-worker 16 --workers 2 --layout tp=4,pp=4)
near GPipe "$(predict gpipe.ini "${short[@]}" --set pipeline.schedule=gpipe)" "$(traced gpipe.ini)" 0.03
tested=$dlcal expect 0 "--micro-batches 4 (the traced job" costs few?.json --batch 16 -o few.ini
has few.ini '^schedule = 1f1b$'
tested=$dlcal expect 1 "in schedule gpipe, 4 micro-batches, tp 4" costs few0.json gpipe1.json few2.json few3.json --batch 16 -o bad.ini

# Given parameters are those of the layers, too: in proportion to the gradients, or evenly.
tested=$dlcal expect 0 "costs written" costs tp.json --batch 4 --parameters 320e6 -o given.ini
[ "$(grep -c '^parameter_bytes = 1280000000' given.ini)" = 2 ] || fail "the layer has other parameters"
predict given.ini --machine 8xdgx_h100 --layout tp=8 --workers 8 --batch-per-worker 4 >ms || fail "given.ini"
[ -s ms ] || fail "dlsim refuses given parameters"
tested=$dlcal expect 0 "divided among the stages in proportion" costs stage.json --batch 32 --stages alike --parameter-bytes 4e9 -o given.ini
[ "$(grep -c '^parameter_bytes = 1000000000' given.ini)" = 4 ] || fail "stages have other parameters: $(grep ^param given.ini)"
for s in 0 1; do # without all-reduces but those of activations
    made_groups stage tp=4 pp=2 micro=4 stage=$s |
        grep -Ev '"Process Group Description":"(DATA|MODEL)_PARALLEL_GROUP"|"stream":(24|36)' >alone$s.json
done
tested=$dlcal expect 0 "parameter_bytes is unknown" costs alone?.json --batch 16 --external remove -o alone.ini
tested=$dlcal expect 0 "among the stages evenly" costs alone?.json --batch 16 --external remove --parameter-bytes 4e9 -o given.ini
[ "$(grep -c '^parameter_bytes = 2000000000, assumed' given.ini)" = 2 ] || fail "stages have other parameters: $(grep ^param given.ini)"
predict given.ini --machine dgx_h100 --layout tp=4,pp=2 --workers 1 --batch-per-worker 16 >ms
[ -s ms ] || fail "dlsim refuses given parameters of stages"
tested=$dlcal expect 2 "not of a pipeline's stage" costs tp.json --batch 4 --stages alike -o bad.ini

# A recorded step has gradients of one group only.
tested=$dlcal expect 1 "several process groups reduce in a step" replay stage.json --step step.csv --batch 32

# Sends that skip a stage, and more sends than passes, are refused.
sed 's/"Dst Rank":16/"Dst Rank":24/' stage.json >skips.json
tested=$dlcal expect 1 "to others than the neighbouring ranks" costs skips.json --batch 32 --stages alike -o bad.ini
sed '/"Collective name":"send"/{p;}' stage.json >twice.json
tested=$dlcal expect 1 "not those of pipeline stages" costs twice.json --batch 32 --stages alike -o bad.ini

# Collectives on cores do not name their group: in a job of several, costs are refused.
cat >cores.json <<'END'
{"distributedInfo": {"rank": 1, "world_size": 4, "pg_config":
 [{"pg_name": "2", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": [0, 1]}]}, "traceEvents": [
 {"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":9,"tid":9,"ts":10,"dur":9,
  "args":{"Input Dims":[[8]],"Input type":["float"]}},
 {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":30,"dur":9,"args":{}}]}
END
tested=$dlcal expect 1 "several (mesh_tp of 2 ranks)" costs --batch 32 -o bad.ini cores.json
sed 's/\[{"pg_name": "2"/[{"pg_name": "3"},{"pg_name": "4"},{"pg_name": "5"},{"pg_name": "6"},\
{"pg_name": "7"},{"pg_name": "8"},{"pg_name": "9"},{"pg_name": "10"},{"pg_name": "2"/' cores.json >unsized.json
tested=$dlcal expect 1 "several (mesh_tp of 2 ranks)" costs --batch 32 -o bad.ini unsized.json

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
