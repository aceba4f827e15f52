#!/usr/bin/env bash
# dlsim --advise layout from outside: the advised layout is no slower than others that are run one by one, its
# options make its row again, and what it does not search is refused.
# Usage: test_dlsim_layouts.sh DLSIM
set -u
tested=$(realpath "$1")
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
model=(--workload gpt2:fused=yes --machine 8xh100 --batch 64 --mode allreduce --steps 2)
column() { # file, name of the column: its value in the first row
    python3 -c 'import csv, sys
rows = csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith("#"))
print(next(iter(rows))[sys.argv[2]])' "$1" "$2"
}

"$tested" "${model[@]}" --advise layout -o advice.csv --save best.ini >advice.txt 2>&1 || fail "exit $?: $(cat advice.txt)"
[ "$(grep -c '^[^#]' advice.csv)" -ge 21 ] || fail "fewer than 20 rows: $(cat advice.txt)"
best=$(column advice.csv step_mean_s)
# The saved scenario is the first row.
"$tested" best.ini -q -o again.csv || fail "best.ini: exit $?"
python3 -c "import sys; sys.exit(abs($(column again.csv step_mean_s) / $best - 1) > 1e-3)" ||
    fail "best.ini takes $(column again.csv step_mean_s) s, not $best"
# So are its options (without those of two lines, "  --set ...").
options=$(awk '/^Advised: / { on = 1 } on && !/^(Advised:| )/ { exit } on { sub(/^Advised:/, ""); printf "%s", $0 }' advice.txt)
# shellcheck disable=SC2086 # several words
"$tested" "${model[@]}" $options -q -o again.csv || fail "$options: exit $?"
python3 -c "import sys; sys.exit(abs($(column again.csv step_mean_s) / $best - 1) > 1e-3)" ||
    fail "$options takes $(column again.csv step_mean_s) s, not $best"
# Others, one by one.
for layout in dp=8 fsdp=8 tp=2,dp=4 tp=2,fsdp=4 tp=8 pp=2,dp=4 pp=2,fsdp=4 pp=4,dp=2 tp=2,pp=2,dp=2; do
    for size in 1 2 4 8; do
        "$tested" "${model[@]}" --layout "$layout" --micro-batch $size --set pipeline.schedule=1f1b -q -o other.csv \
            >/dev/null 2>&1 || continue
        step=$(column other.csv step_mean_s)
        python3 -c "import sys; sys.exit(float('${step:-inf}') < $best * 0.999)" ||
            fail "$layout, micro-batch $size takes $step s, less than the advised $best s"
    done
done
expect 3 "--advise layout: none of " --workload llama3_405b --machine 8xh100 --batch 8 --advise layout
expect 2 "--batch, of all workers" --workload gpt2 --machine 8xh100 --batch-per-worker 8 --advise layout
expect 2 "did you mean 'layout'?" --workload gpt2 --machine 8xh100 --batch 64 --advise=layuot
expect 2 "lays the model out on all GPUs itself" --workload gpt2 --machine 8xh100 --batch 64 --set machine.gpus=0,1 --advise layout
expect 2 "--advise layout has no --max-staleness" --workload gpt2 --machine 8xh100 --batch 64 --advise layout --max-staleness 1
expect 2 "--advise has no --explain" --workload gpt2 --machine 8xh100 --batch 64 --advise layout --explain
[ "$failures" -eq 0 ]
