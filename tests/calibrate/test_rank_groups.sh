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
made_groups stage tp=4 pp=4 dp=2 stage=1 micro=8 >stage.json
"$dlcal" info stage.json >stage.txt
has stage.txt '^AllReduce  TENSOR_M..EL_GROUP     4 8-11         256 17.2 GB'
has stage.txt '^Send       PIPELINE..EL_GROUP     4 0-24 by 8     16 1.07 GB'
"$dlcal" info --json stage.json | grep -q '"group":"DATA_PARALLEL_GROUP","ranks":2,"members":"8, 12","per_step":1,"bytes":640000000,' ||
    fail "the group is not in the JSON"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
