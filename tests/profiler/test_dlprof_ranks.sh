#!/usr/bin/env bash
# Training over ranks from outside: processes that know one another from their environment only, as
# launchers start them, and by mpirun where there is one. Usage: test_dlprof_ranks.sh DLPROF
set -u
dlprof=$1
tested=$dlprof
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
unset "${!OMPI_@}" "${!PMI@}" "${!SLURM_@}" RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

small=(train --model mlp --data synthetic --steps 20 --wait block)

complain() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# A port at which nobody is, of those that the system gives nobody who does not ask for them by number.
choose_port() {
    local taken
    taken=$(awk 'FNR > 1 { split($2, address, ":"); print address[2] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
    while MASTER_PORT=$((10000 + RANDOM % 22000)) && grep -qix "$(printf %04x $MASTER_PORT)" <<<"$taken"; do :; done
    export MASTER_PORT
}

# start RANKS NAME ARGUMENTS...: a process for each rank, as torchrun starts them; what rank r prints
# is in NAME.r, its process in pids[r].
start() {
    local ranks=$1 name=$2
    shift 2
    pids=()
    choose_port
    for ((r = 0; r < ranks; r++)); do
        RANK=$r WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks "$dlprof" "$@" >"$name.$r" 2>&1 &
        pids[r]=$!
    done
}

# finish STATUS NAME: all have ended with that exit status.
finish() {
    local status=$1 name=$2 actual
    for r in "${!pids[@]}"; do
        wait "${pids[r]}"
        actual=$?
        [ "$actual" -eq "$status" ] || complain "$name: rank $r: exit $actual: $(cat "$name.$r")"
    done
}

# The result is that of one process with as many workers, and only rank 0 tells it.
for ranks in 2 4; do
    for mode in "allreduce" "average --interval 5 --average-state" "average --interval 3"; do
        # shellcheck disable=SC2086 # the mode is several words
        set -- "${small[@]}" --workers 4 --batch 16 --sync $mode
        "$dlprof" "$@" --evaluate --no-trace >one.txt || complain "$*: one process"
        start $ranks many "$@" --evaluate -o "many.dlt"
        finish 0 many
        for word in loss accuracy steps; do
            expected=$(grep "^$word" one.txt | sed 's/ in .*//')
            actual=$(grep "^$word" many.0 | sed 's/ in .*//')
            [ "$expected" = "$actual" ] || complain "$ranks ranks, $mode: '$actual', not '$expected'"
        done
        for ((r = 1; r < ranks; r++)); do
            [ ! -s many.$r ] || complain "rank $r prints: $(cat many.$r)"
        done
    done
done

# Each has its trace, with its workers under their numbers in the whole run.
expect 0 "world_size       4" info many.rank3.dlt
expect 0 "workers          4" info many.rank3.dlt
workers=$("$dlprof" info many.rank3.dlt | sed -n '/^worker  /,/^$/p' | sed -n 2p | cut -d' ' -f1)
[ "$workers" = 3 ] || complain "rank 3's worker is '$workers'"
! "$dlprof" info many.rank3.dlt | grep -q "have steps here" || complain "workers are missed"
[ ! -e many.dlt ] || complain "a trace of no rank"

# --ranks off: each is a run of its own.
RANK=1 WORLD_SIZE=2 expect 0 "workers     1 on" "${small[@]}" --no-trace --ranks off

# What cannot be is told by all, soon.
start 2 wrong "${small[@]}" --workers 3 --batch 12 --sync allreduce --no-trace
finish 2 wrong
grep -q "3 workers cannot be shared equally by 2 ranks" wrong.1 || complain "$(cat wrong.1)"
start 2 wrong "${small[@]}" --workers 2 --batch 12 --sync async --no-trace
finish 2 wrong
grep -q "async needs a server" wrong.0 || complain "$(cat wrong.0)"
# ... by a rank whose others never come.
RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 expect 2 "async needs a server" "${small[@]}" --workers 2 --sync async
RANK=1 WORLD_SIZE=2 expect 1 "give --rendezvous HOST:PORT" "${small[@]}" --workers 2
RANK=1 WORLD_SIZE=2 expect 2 "must be HOST:PORT" "${small[@]}" --workers 2 --rendezvous here
expect 2 "no launcher" "${small[@]}" --rendezvous here:1

# wait_for_steps TRACE: until there are steps in it, for some minutes at most.
wait_for_steps() {
    for _ in $(seq 2000); do
        [ -e "$1" ] && [ "$(stat -c %s "$1")" -gt 5000 ] && return
        sleep 0.1
    done
    return 1
}

# A rank that never comes; one that is killed; one that stands still.
RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 expect 1 "rank 1 of 2 did not come to 127.0.0.1" \
    "${small[@]}" --workers 2 --sync allreduce --rank-limit 0.3
long=(train --model mlp --data synthetic --steps 1000000 --wait block --workers 4 --batch 16
    --sync allreduce)
# Who is killed is missed at once, who stands still after the limit.
declare -A limit=([KILL]=1000 [STOP]=8)
for signal in KILL STOP; do
    start 4 "lost_$signal" "${long[@]}" --rank-limit "${limit[$signal]}" -o "lost_$signal.dlt"
    for r in 0 1 2 3; do
        wait_for_steps "lost_$signal.rank$r.dlt" || complain "$signal: rank $r does not begin"
    done
    kill -s $signal "${pids[2]}"
    [ $signal = STOP ] || wait "${pids[2]}" 2>/dev/null
    stopped=${pids[2]}
    unset "pids[2]"
    finish 1 "lost_$signal"
    [ $signal = KILL ] || kill -s KILL "$stopped"
    for r in 0 1 3; do
        case $signal in
        KILL) grep -q "rank $r: .*rank 2 on .* has gone" lost_KILL.$r || complain "$(cat lost_KILL.$r)" ;;
        STOP) grep -q "it hangs, or waits for one that does\|has gone" lost_STOP.$r || complain "$(cat lost_STOP.$r)" ;;
        esac
    done
done
# Who waits out the limit first says so; another may see only that one's end.
grep -q "it hangs, or waits for one that does" lost_STOP.[013] || complain "nobody says that a rank hangs"

# mpirun tells the same by its own variables, and the port follows from the number of its job.
if command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    "$dlprof" "${small[@]}" --workers 2 --sync allreduce --no-trace | grep "^loss" >one.txt
    for _ in 1 2 3; do
        mpirun --oversubscribe -n 2 "$dlprof" "${small[@]}" --workers 2 --sync allreduce -o mpi.dlt >mpi.txt 2>&1
        status=$?
        grep -q "cannot listen at" mpi.txt || break # another program has it
    done
    [ $status -eq 0 ] || complain "mpirun: $(cat mpi.txt)"
    grep -qF "$(cat one.txt)" mpi.txt || complain "mpirun: $(cat mpi.txt)"
    [ -e mpi.rank1.dlt ] || complain "mpirun: $(ls)"
fi

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
