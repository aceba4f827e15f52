#!/usr/bin/env bash
# scripts/freeze.sh: two runs of a scenario give equal folders; a number, row, text or file that
# differs is reported. Usage: test_freeze.sh DLSIM
set -euo pipefail
DLSIM=$(realpath "$1")
export DLSIM JOBS=1
script=$(cd "$(dirname "$0")/../scripts" && pwd)/freeze.sh
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_freeze.sh: $*" >&2; exit 1; }

# compared STATUS TEXT: compares base with new.
compared() {
    local code=0 text
    text=$("$script" --compare base new) || code=$?
    [ "$code" = "$1" ] || fail "exit $code, not $1: $text"
    grep -qF -e "$2" <<<"$text" || fail "no '$2' in: $text"
    rm -rf new
    cp -r base new
}

# Two scenarios, one of them rejected, replace the full set; the first run has no results to compare
# with.
mkdir -p none/{plain,noisy,scenarios/golden}
echo 'limit_s=30' >none/about.txt
cp "$root"/tests/golden/{modes,costs}.ini none/scenarios/golden
sed 's/^costs *=.*/costs = absent.ini/' none/scenarios/golden/modes.ini >none/scenarios/refused.ini
code=0
text=$("$script" base none) || code=$?
[ "$code" = 1 ] || fail "exit $code against nothing: $text"
grep -q 'extra file plain/golden_modes.csv' <<<"$text" || fail "no extra file in: $text"
text=$("$script" new base) || fail "two runs differ: $text"
grep -q '^2 of 2 scenarios equal, 0 differ' <<<"$text" || fail "not all equal: $text"
grep -q 'absent.ini: cannot open' base/plain/refused.txt || fail "no message of the refused one"

compared 0 '2 of 2 scenarios equal'
# Numbers may differ in their last digits, by a relative 1e-12.
sed -i 's/,0\.0055274,/,0.0055274000000000001,/' new/noisy/golden_modes.csv new/plain/golden_modes.csv
cmp -s base/plain/golden_modes.csv new/plain/golden_modes.csv && fail "nothing was changed"
compared 0 '2 of 2 scenarios equal'
sed -i 's/,0\.0055274,/,0.00552740000001,/' new/plain/golden_modes.csv
compared 1 'the largest difference 1.8e-12: row 2,1,32,none,,,,,,,,: step_'
sed -i '/^2,1,32,async,/d' new/noisy/golden_modes.csv
compared 1 'noisy: missing row 2,1,32,async,'
echo '2,1,31,none,,,,,,,,,1' >>new/noisy/golden_modes.csv
compared 1 'noisy: extra row 2,1,31,none,'
sed -i 's/,core 0,/,core 1,/' new/noisy/golden_modes.csv
compared 1 'busiest was "core 0", is "core 1"'
sed -i 's/,busiest,/,slowest,/' new/noisy/golden_modes.csv
compared 1 'noisy: missing column busiest'
sed -i 's/cannot open/closed/' new/noisy/refused.txt
compared 1 'noisy: missing text: dlsim'
rm new/noisy/golden_modes.histogram.csv
compared 1 'missing file noisy/golden_modes.histogram.csv'

# A difference that only exists without noise is reported, and may be accepted; skipped runs are not
# compared.
sed -i '/^2,1,32,async,/d' new/plain/golden_modes.csv
TIES=accept compared 0 'golden_modes: differs only without noise'
echo skipped >new/plain/golden_modes.txt
rm new/plain/golden_modes.csv
compared 0 'plain/golden_modes: skipped, not compared'

code=0
"$script" --compare base nowhere 2>/dev/null || code=$?
[ "$code" = 2 ] || fail "a folder without results gives $code"
