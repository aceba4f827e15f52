# For tests of programs that continue from a journal after a kill: sourced after expect.sh, with
# `output` naming their output file.
export DLSCALE_JOURNAL_S=0.02 # makes short runs write journals
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# kill_at BYTES COMMAND...: starts the command, and kills it when its journal has this size
kill_at() {
    local bytes=$1 group children child
    shift
    "$@" >killed.txt 2>&1 &
    group=$!
    while [ "$(stat -c %s "$output.journal" 2>/dev/null || echo 0)" -lt "$bytes" ]; do
        kill -0 $group 2>/dev/null || { fail "$* ended: $(cat killed.txt)"; return 1; }
        sleep 0.01
    done
    children=$(pgrep -P $group) # mpirun's ranks are in separate groups
    # shellcheck disable=SC2086 # several
    kill -KILL $group $children
    wait $group 2>/dev/null
    for child in $children; do while kill -0 "$child" 2>/dev/null; do sleep 0.1; done; done
    [ -e "$output" ] && fail "$* has written $output"
    [ -s "$output.journal" ] || fail "$*: no journal is left"
}

# kill_rank COMMAND...: starts the command on two ranks, and kills the second one when there is a
# journal; needs mpirun.sh
kill_rank() {
    local status
    cat >die.sh <<END
if [ "\$OMPI_COMM_WORLD_RANK" -eq 1 ]; then
    { until [ -s $output.journal ]; do
        [ -e $output ] && exit
        kill -0 \$\$ 2>/dev/null || exit
        sleep 0.01
    done; kill -9 \$\$; } &
fi
exec "\$@"
END
    mpirun -n 2 sh die.sh "$@" >output.txt 2>&1
    status=$?
    [ $status -eq 137 ] || fail "a killed rank: exit $status: $(cat output.txt)"
    [ -e "$output" ] && fail "a killed rank: results were written"
    names_killed 1 "$(cat output.txt)" || fail "a killed rank: $(cat output.txt)"
}
