#!/usr/bin/env bash
# Training over ranks started by mpirun: results equal to those of one process, traces, settings that
# are refused, ranks that die during a run. Usage: test_dlprof_ranks.sh DLPROF
set -u
dlprof=$1
tested=$dlprof
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
unset "${!OMPI_@}" "${!PMI@}" "${!SLURM_@}" RANK WORLD_SIZE TORCHELASTIC_RUN_ID
# shellcheck source=tests/mpirun.sh
source "$(dirname "$0")/../mpirun.sh"

small=(train --model mlp --data synthetic --steps 20 --wait block)

complain() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# Without MPI, the message names it.
mkdir alone
cp "$dlprof" alone/dlprof
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 tested=alone/dlprof
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 expect 1 \
    "mpirun (Open MPI) has started 2 processes, but this build has no MPI" \
    "${small[@]}" --workers 2 --sync allreduce --no-trace
expect 0 "workers     1 on" "${small[@]}" --no-trace
tested=$dlprof
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 expect 0 "workers     1 on" "${small[@]}" --no-trace --ranks off
TORCHELASTIC_RUN_ID=1 WORLD_SIZE=2 expect 2 "start them with mpirun" "${small[@]}" --workers 2
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 expect 2 "async needs a server" "${small[@]}" --workers 2 --sync async

[ -e "$(dirname "$dlprof")/libdlscale_mpi.so" ] && command -v mpirun >/dev/null ||
    { echo "no MPI: the rest is skipped"; [ $failures -eq 0 ]; exit; }

# start RANKS NAME ARGUMENTS...: runs mpirun in the background; rank r's output goes to NAME.out.r, its
# errors to NAME.err.r
start() {
    local ranks=$1 name=$2
    shift 2
    each_rank "$name" "$ranks" "$dlprof" "$@" >/dev/null 2>"$name.mpirun" &
    job=$!
}

# finish STATUS NAME: waits for mpirun, which must exit with that status.
finish() {
    local status=$1 name=$2 actual
    wait $job
    actual=$?
    [ $actual -eq "$status" ] || complain "$name: exit $actual: $(cat "$name".{mpirun,err.*})"
}

# The results equal those of one process with as many workers, and only rank 0 prints them.
for ranks in 2 4; do
    for mode in "allreduce" "average --interval 5 --average-state" "average --interval 3 --outer nesterov"; do
        # shellcheck disable=SC2086 # the mode is several words
        set -- "${small[@]}" --workers 4 --batch 16 --sync $mode
        "$dlprof" "$@" --evaluate --no-trace >one.txt || complain "$*: one process"
        rm -f many.*
        start $ranks many "$@" --evaluate -o many.dlt
        finish 0 many
        for word in loss accuracy steps; do
            expected=$(grep "^$word" one.txt | sed 's/ in .*//')
            actual=$(grep "^$word" many.out.0 | sed 's/ in .*//')
            [ "$expected" = "$actual" ] || complain "$ranks ranks, $mode: '$actual', not '$expected'"
        done
        for ((r = 1; r < ranks; r++)); do
            [ ! -s many.out.$r ] || complain "rank $r prints: $(cat many.out.$r)"
        done
    done
done
grep -q "^ranks       4, with 1 workers each, which exchange through MPI" many.out.0 ||
    complain "$(cat many.out.0)"

# Each rank has a trace, with its workers' numbers in the whole run.
expect 0 "world_size       4" info many.rank3.dlt
expect 0 "rank_exchange    mpi" info many.rank3.dlt
expect 0 "workers          4" info many.rank3.dlt
workers=$("$dlprof" info many.rank3.dlt | sed -n '/^worker /,/^$/p' | sed -n 2p | cut -d' ' -f1)
[ "$workers" = 3 ] || complain "rank 3's worker is '$workers'"
! "$dlprof" info many.rank3.dlt | grep -q "have steps here" || complain "workers are missed"
[ ! -e many.dlt ] || complain "a trace of no rank"

# All ranks report a setting that is refused; if only one rank has an error, the others report that rank.
start 2 wrong "${small[@]}" --workers 3 --batch 12 --sync allreduce --no-trace
finish 2 wrong
grep -q "3 workers cannot be shared equally by 2 ranks" wrong.err.1 || complain "$(cat wrong.err.1)"
mkdir -p full.rank1.dlt
start 2 full "${small[@]}" --workers 2 --sync allreduce -o full.dlt
finish 1 full
grep -q "rank 1 on $(hostname) has failed: .*full.rank1.dlt" full.err.0 || complain "$(cat full.err.*)"

# wait_for_steps TRACE: waits until the trace has steps, at most some minutes.
wait_for_steps() {
    for _ in $(seq 2000); do
        kill -0 $job || return
        [ -e "$1" ] && [ "$(stat -c %s "$1")" -gt 5000 ] && return
        sleep 0.1
    done
    return 1
}

# A killed rank is detected immediately, a stopped one after the limit; the other ranks' traces are
# complete and have the reason why the run ended.
long=(train --model mlp --data synthetic --steps 1000000 --wait block --workers 4 --batch 16
    --sync allreduce)
declare -A limit=([KILL]=1000 [STOP]=4) status=([KILL]=137 [STOP]=1)
declare -A reason=([KILL]="rank 2 on $(hostname) has gone: its process has ended"
    [STOP]="rank 2 on $(hostname) kept rank")
for signal in KILL STOP; do
    name=lost_$signal
    for ((attempt = 0; attempt < attempts; attempt++)); do
        rm -f $name.*
        start 4 $name "${long[@]}" --rank-limit "${limit[$signal]}" -o $name.dlt
        for r in 0 1 2 3; do
            wait_for_steps $name.rank$r.dlt || complain "$signal: rank $r does not begin"
        done
        kill -s $signal "$("$dlprof" info $name.rank2.dlt | awk '$1 == "pid" { print $2 }')"
        finish "${status[$signal]}" $name
        missed=
        for r in 0 1 3; do
            grep -q "rank $r: ${reason[$signal]}" $name.err.$r || missed+=" rank $r: $(cat $name.err.$r)"
            info=$("$dlprof" info $name.rank$r.dlt)
            [[ ${info//$'\n      '/ } == *"the run failed: ${reason[$signal]}"* ]] || missed+=" trace $r: $info"
        done
        [ -n "$missed" ] || break
    done
    [ -z "$missed" ] || complain "$signal:$missed"
done
expect 0 "the trace is incomplete" info lost_KILL.rank2.dlt

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
