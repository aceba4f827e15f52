#!/usr/bin/env bash
# Scenarios from the command line equal the files that say the same. Usage: test_scenario_command.sh DLSIM
set -u
tested=$(realpath "$1")
scenarios=$(cd "$(dirname "$0")/../../scenarios" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
equal() { cmp -s "$1" "$2" || fail "$3: $(diff "$1" "$2" | head -n 4)"; }

costs=$scenarios/../tests/golden/gpu/costs.ini
cat >whole.ini <<END
; Kept as it is.
[scenario]
name  = from the command line
steps = 20

[machine]
file     = $scenarios/machines/p2.8xlarge.ini
workers  = 1, 2, 4      ; of eight
dispatch = single

[exchange]
bucket_bytes = 250000
overlap      = yes

[workload]
costs = $costs
batch = 128

[sync]
mode = allreduce, average
interval = 1, 10
END
"$tested" -q whole.ini -o whole.csv || fail "whole.ini"

# All of it on the command line.
ln -s "$costs" costs.ini
all=(--costs costs.ini --machine p2.8xlarge --workers 1,2,4 --batch 128 --mode allreduce,average
    --interval 1,10 --steps 20 --set exchange.overlap=yes --set exchange.bucket_bytes=250000
    --set machine.dispatch=single)
expect 0 "points in line.csv" "${all[@]}" -o line.csv
equal whole.csv line.csv "the command line"

# Saved, and run from elsewhere; in the folder itself files stay as they were typed.
mkdir elsewhere
expect 0 "no costs are missing" "${all[@]}" --check --save elsewhere/saved.ini
(cd / && "$tested" -q "$folder/elsewhere/saved.ini" -o "$folder/saved.csv") || fail "saved.ini"
equal whole.csv saved.csv "the saved scenario"
grep -q '^; batch: all workers together' elsewhere/saved.ini || fail "saved without comments"
expect 0 "" "${all[@]}" --check --save here.ini
grep -q '^costs = costs.ini$' here.ini || fail "a name beside the file was changed: $(grep ^costs here.ini)"

# In place of what a file says; the rest of it stays. What is not there yet is put in.
sed -e 's/1, 2, 4  /1, 8/' -e 's/= allreduce, average/= async/' -e '/^interval/d' -e '/^overlap/d' \
    -e 's/steps = 20/steps = 30/' whole.ini >other.ini
expect 0 "points in" other.ini --workers '1, 2, 4' --mode allreduce,average --interval 1,10 --steps 20 \
    --set exchange.overlap=yes -o other.csv --save elsewhere/other.ini
equal whole.csv other.csv "options in place of a file's keys"
grep -q '^; Kept as it is.$' elsewhere/other.ini || fail "a comment was lost"
expect 0 "" elsewhere/other.ini --costs costs.ini -o relative.csv # relative to here, not to the scenario
equal whole.csv relative.csv "a cost file in place of a scenario's in another folder"

# What a new scenario has without being told: all-reduce on 1, 2, 4, ... GPUs of the machine.
expect 0 "4 points" --costs costs.ini --machine p2.8xlarge --batch 128
expect 0 "5 points" --costs costs.ini --machine p2.16xlarge --batch 128
[ "$(awk -F, 'n { print $4 } /^[^#]/ { n = 1 }' results.csv | sort -u)" = allreduce ] ||
    fail "the default mode is not allreduce"
expect 1 "lacks [costs] cores" --costs costs.ini --batch 128

expect 2 "missing argument SCENARIO"
expect 2 "--costs is needed" --workers 4
expect 2 "--batch" --costs costs.ini --machine p2.8xlarge
expect 2 "did you mean 'p2.8xlarge'" --costs costs.ini --machine p2.8xlrge --batch 128
expect 2 "not SECTION.KEY=VALUE" whole.ini --set overlap=yes
expect 2 "neither control characters" whole.ini --set $'sync.mode=async\n[noise]'
expect 1 "did you mean 'overlap'" whole.ini --set exchange.overlp=yes
expect 1 "did you mean 'allreduce'" whole.ini --mode allreduc
expect 2 "did you mean 'allreduce'" --costs costs.ini --machine p2.8xlarge --batch 128 --mode allreduc
expect 2 "--save would overwrite the scenario" whole.ini --workers 2 --save whole.ini
expect 0 "p2.8xlarge " --machines
[ ! -e results.csv.partial ] || fail "a partial file stayed"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
