#!/usr/bin/env bash
# Ranks started by mpirun reach one another. A failure on any rank is reported once, with the usual
# exit status, and a dead rank ends the job with a message that names it.
# Usage: test_cluster.sh PROGRAM
set -u
program=$1
tested=mpirun
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
command -v mpirun >/dev/null || { echo "no mpirun: skipped"; exit 77; }
# shellcheck source=tests/mpirun.sh
source "$(dirname "$0")/../mpirun.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

expect 0 "1 ranks of talk" -n 1 "$program" talk
cores=$(nproc)
for ranks in 2 4; do
    each=$((cores / ranks > 0 ? cores / ranks : 1))
    expect 0 "$ranks ranks of talk, $ranks on this host with $each cores each" \
        -n $ranks --bind-to none "$program" talk
done
[ "$(mpirun -n 3 "$program" talk | wc -l)" -eq 1 ] || fail "not only rank 0 prints"

for rank in 0 2; do
    where=
    [ $rank -eq 0 ] || where="rank $rank on $(hostname): "
    expect 2 "ranks: file.ini:7: ${where}no such thing" -n 3 "$program" fail $rank
    each_rank failing 3 "$program" fail $rank >/dev/null 2>&1
    [ "$(cat failing.err.* | grep -c 'no such thing')" -eq 1 ] ||
        fail "the error of rank $rank is not reported once: $(cat failing.err.*)"
done
expect 1 "ranks: the file of rank 1 on $(hostname) differs from that of rank 0" -n 3 "$program" differ 1

output=$(mpirun -n 2 "$program" die 1 2>&1)
status=$?
[ $status -eq 137 ] && names_killed 1 "$output" || fail "a killed rank: exit $status: $output"

# Without MPI, each process is a job by itself.
[ "$(DLSCALE_MPI=off mpirun -x DLSCALE_MPI -n 3 "$program" talk | grep -c '^1 ranks')" -eq 3 ] ||
    fail "DLSCALE_MPI=off"

[ "$failures" -eq 0 ]
