#!/usr/bin/env bash
# Faults: kills, full disks, limits, closed pipes (ranks that die: test_dlprof_ranks.sh, recorded
# programs: test_dlprof_run.sh and test_inject.c). In each case the exit code is not 0, the message
# gives the reason, and old result files are unchanged.
# Usage: test_faults.sh DLSIM DLPROF DLCAL
set -u
dlsim=$1 dlprof=$2 dlcal=$3
golden=$(cd "$(dirname "$0")/golden" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# unchanged FILE...: fails unless each still contains "old"
unchanged() {
    local file
    for file; do [ "$(cat "$file")" = old ] || fail "$file was replaced"; done
}

# leftovers WHAT: fails if there are temporary files
leftovers() {
    [ -z "$(find . -name '.*.partial*')" ] || fail "$1 left $(find . -name '.*.partial*')"
}

for batch in 4 8; do
    "$dlprof" train --model mlp --batch $batch --data synthetic --steps 10 -o $batch.dlt >/dev/null || exit 1
done

# If one of several outputs cannot be written, none is replaced.
echo old >results.csv
echo old >timeline.json
tested=$dlsim
expect 1 "/dev/full: cannot write: No space left on device" "$golden/modes.ini" -q -o results.csv \
    --timeline timeline.json --histogram /dev/full
unchanged results.csv timeline.json

# A limit on file sizes. It would also truncate the counts of executed lines (./check --coverage),
# so these are written to another folder.
export GCOV_PREFIX=$PWD/counts
tested=prlimit
expect 1 "results.csv: cannot write: File too large" --fsize=1000 "$dlsim" "$golden/modes.ini" -q -o results.csv
expect 1 "cut.dlt: cannot write: File too large" --fsize=1000 "$dlprof" train --model mlp --batch 4 \
    --data synthetic --steps 400 -o cut.dlt
expect 1 "trace.json: cannot write: File too large" --fsize=500 "$dlprof" export 4.dlt -o trace.json
# Neither an empty file or folder stays where nothing fits, nor a part of a row behind others.
small=(train --model mlp --batch 4 --data synthetic --steps 4)
expect 1 "none.dlt: cannot write: File too large" --fsize=0 "$dlprof" "${small[@]}" -o none.dlt
expect 1 "none.csv: cannot write: File too large" --fsize=0 "$dlprof" "${small[@]}" --no-trace --csv none.csv
expect 1 "none: cannot write into it: File too large" --fsize=0 "$dlprof" run -o none -- touch none.run
expect 1 ": cannot write into it: File too large" --fsize=0 "$dlprof" run -- touch none.run
[ -z "$(find . -name 'none*' -o -name 'dlprof.*')" ] || fail "left: $(find . -name 'none*' -o -name 'dlprof.*')"
"$dlprof" "${small[@]}" --no-trace --csv rows.csv >/dev/null && cp rows.csv rows.before
expect 1 "rows.csv: cannot write: File too large" --fsize=$(($(stat -c %s rows.csv) + 10)) "$dlprof" "${small[@]}" \
    --no-trace --csv rows.csv
cmp rows.before rows.csv || fail "a part of a row stays: $(cat rows.csv)"
unchanged results.csv
leftovers "a limit on files"
unset GCOV_PREFIX

# Killed during a simulation.
sed -e 's/^steps.*/steps = 4000000/' -e "s|^costs.*|costs = $golden/costs.ini|" \
    -e '/^\[measured\]/,/^$/d' "$golden/modes.ini" >long.ini
for signal in TERM KILL; do
    "$dlsim" long.ini -q -o results.csv 2>/dev/null &
    simulator=$!
    sleep 0.3
    kill -$signal $simulator || fail "dlsim ended before SIG$signal"
    wait $simulator 2>/dev/null
    status=$?
    [ $status -eq $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit $status"
    unchanged results.csv
done

# If no process reads the output, the program ends by SIGPIPE or with an error, not with 0 or a core
# dump.
for command in "$dlprof info 4.dlt" "$dlcal fit 4.dlt 8.dlt -o fitted.ini" "$dlsim --help"; do
    rm -f status.txt
    { $command 2>/dev/null; echo $? >status.txt; } | true
    until [ -s status.txt ]; do sleep 0.1; done
    case $(cat status.txt) in
        0 | 1 | 141) ;;
        *) fail "$command: exit $(cat status.txt) with a closed pipe" ;;
    esac
done
tested=sh
expect 1 "standard output: cannot write" -c "'$dlprof' info 4.dlt >/dev/full"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
