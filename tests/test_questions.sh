#!/usr/bin/env bash
# Commands in pages of docs: each runs, and prints the lines that the page shows, in the same order.
# Sequences of blanks count as one; a line of the page may be part of a printed line. A block
# "```ini file=NAME" is a file for the commands.
# Usage: test_questions.sh DLSIM DLCAL ROOT
set -u
root=$(realpath "$3")
PATH=$(dirname "$(realpath "$1")"):$(dirname "$(realpath "$2")"):$PATH
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/expect.sh"
ln -s "$root/scenarios" scenarios
ln -s "$root/tests" tests
pages=(../README.md questions.md guide.md from_pytorch.md layouts.md simulating.md local_sgd.md fabric.md advice.md traces.md calibrating.md training.md rl.md studies/one_gpu.md)
# For each command, writes it to 001.command and its expected lines to 001.lines.
awk '/^```/ { inside = $0 == "```console"; more = 0; file = "" }
     /^```[a-z]+ file=/ { file = substr($2, 6); printf "" >file; next }
     /^```/ { next }
     file != "" { print >file }
     !inside { next }
     /^\$ / || more {
         if (!more) count++
         name = sprintf("%03d", count)
         line = $0
         if (!more) sub(/^\$ /, "", line)
         more = sub(/\\$/, "", line)
         printf "%s%s", line, more ? "" : "\n" >(name ".command")
         printf "" >(name ".lines")
         next
     }
     { print >(name ".lines") }' "${pages[@]/#/$root/docs/}"
commands=0
for command in [0-9]*.command; do
    commands=$((commands + 1))
    output=$(bash -c "$(cat "$command")" 2>&1)
    status=$?
    if [ $status -ne 0 ]; then
        echo "FAIL: exit $status: $(cat "$command"): $output"
        failures=$((failures + 1))
        continue
    fi
    [ -s "${command%.command}.lines" ] || continue
    printf '%s\n' "$output" >printed
    awk 'function squeezed(text) { gsub(/[ \t]+/, " ", text); gsub(/^ | $/, "", text); return text }
         NR == FNR { wanted[++count] = squeezed($0); next }
         found < count && index(squeezed($0), wanted[found + 1]) { found++ }
         END { if (found < count) { print wanted[found + 1]; exit 1 } }' \
        "${command%.command}.lines" printed >missing || {
        echo "FAIL: $(cat "$command"): no line '$(cat missing)' in:"
        cat printed
        failures=$((failures + 1))
    }
done
[ "$commands" -ge 20 ] || { echo "FAIL: only $commands commands"; failures=$((failures + 1)); }
questions=$(grep -c '^### ' "$root/docs/questions.md")
[ "$questions" -ge 15 ] || { echo "FAIL: only $questions questions"; failures=$((failures + 1)); }
[ "$failures" -eq 0 ]
