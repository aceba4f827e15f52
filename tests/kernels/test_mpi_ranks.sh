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

# each_says RANKS RANK TEXT: all ranks of the last command except RANK printed TEXT on standard error
each_says() {
    local r
    for ((r = 0; r < $1; r++)); do
        [ $r -eq "$2" ] || grep -qF "$r: $3" out.txt || { cat out.txt; echo "FAIL: rank $r does not say: $3"; failures=$((failures + 1)); }
    done
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
    for what in $ways; do
        mpirun -n 4 "$program" $what $rank >out.txt 2>&1
        [ $? -eq 1 ] || { cat out.txt; echo "FAIL: exit of $what"; failures=$((failures + 1)); }
        each_says 4 $rank "rank $rank on $host has failed: it has had enough"
    done
    mpirun -n 4 "$program" killed $rank >out.txt 2>&1
    [ $? -eq 137 ] || { cat out.txt; echo "FAIL: exit of a killed rank"; failures=$((failures + 1)); }
    each_says 4 $rank "rank $rank on $host has gone: its process has ended"
    mpirun -n 4 "$program" stopped $rank >out.txt 2>&1
    [ $? -eq 1 ] || { cat out.txt; echo "FAIL: exit of a stopped rank"; failures=$((failures + 1)); }
    each_says 4 $rank "rank $rank on $host kept rank"
done
expect 1 "rank 1 on $host was started with other options than rank 0, or is of another version: steps=30, not steps=20" \
    -n 3 "$program" differ 1

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
