#!/usr/bin/env bash
# Ranks started by mpirun: sums and training runs have the bits of one process, and if one rank is lost
# for any reason, all end with a message that names it. Usage: test_mpi_ranks.sh PROGRAM
set -u
program=$1
tested=mpirun
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
command -v mpirun >/dev/null || { echo "no mpirun: skipped"; exit 77; }
# shellcheck source=tests/mpirun.sh
source "$(dirname "$0")/../mpirun.sh"
host=$(hostname)

# lose STATUS WHAT RANK TEXT: four ranks, of which RANK is lost, end with STATUS; all others print TEXT
lose() {
    local status=$1 what=$2 rank=$3 text=$4 silent="not run" actual=$1 attempt r
    for ((attempt = 0; attempt < attempts && actual == status; attempt++)); do
        [ -n "$silent" ] || return
        silent=
        each_rank lost 4 "$program" "$what" "$rank" >out.txt 2>&1
        actual=$?
        for r in 0 1 2 3; do
            [ $r -eq "$rank" ] || grep -qF "$r: $text" lost.err.$r || silent+=" $r"
        done
    done
    [ $actual -eq "$status" ] && [ -z "$silent" ] && return
    echo "FAIL: $what $rank: exit $actual, not $status; not from ranks$silent: $text: $(cat out.txt lost.err.*)"
    failures=$((failures + 1))
}

for ranks in 1 2 4; do
    expect 0 "$ranks ranks have talked" -n $ranks "$program" talk
    expect 0 "sums of $ranks ranks are equal" -n $ranks "$program" sums
done
for ranks in 1 2 4; do
    expect 0 "runs of $ranks ranks are equal" -n $ranks "$program" train
done
# Uses TCP, as between machines.
expect 0 "sums of 3 ranks are equal" -n 3 --mca btl tcp,self "$program" sums

for rank in 0 2; do
    [ $rank -eq 0 ] && ways=fails || ways="fails in_sum watch"
    for what in $ways; do lose 1 $what $rank "rank $rank on $host has failed: it has had enough"; done
    lose 137 killed $rank "rank $rank on $host has gone: its process has ended"
    lose 1 stopped $rank "rank $rank on $host kept rank"
done
each_rank differ 3 "$program" differ 1 >out.txt 2>&1
[ $? -eq 1 ] || { echo "FAIL: exit of ranks that differ: $(cat out.txt)"; failures=$((failures + 1)); }
grep -qF "rank 1 on $host was started with other options than rank 0, or is of another version: steps=30, not steps=20" differ.err.? ||
    { echo "FAIL: the difference is not named: $(cat differ.err.*)"; failures=$((failures + 1)); }
! grep -v "rank 1 on $host was started" differ.err.? || failures=$((failures + 1))

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
