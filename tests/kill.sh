# For tests of programs that go on from a journal after a kill: sourced after expect.sh, with `output`
# naming the file that they write.
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# kill_at BYTES COMMAND...: starts it, and kills it once its journal has as many bytes
kill_at() {
    local bytes=$1 group children child
    shift
    "$@" >killed.txt 2>&1 &
    group=$!
    while [ "$(stat -c %s "$output.journal" 2>/dev/null || echo 0)" -lt "$bytes" ]; do
        kill -0 $group 2>/dev/null || { fail "$* ended: $(cat killed.txt)"; return 1; }
        sleep 0.1
    done
    children=$(pgrep -P $group) # mpirun's ranks have groups of their own
    # shellcheck disable=SC2086 # several
    kill -KILL $group $children
    wait $group 2>/dev/null
    for child in $children; do while kill -0 "$child" 2>/dev/null; do sleep 0.1; done; done
    [ -e "$output" ] && fail "$* has written $output"
    [ -s "$output.journal" ] || fail "$*: no journal is left"
}
