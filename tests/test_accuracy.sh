#!/usr/bin/env bash
# scenarios/accuracy/run.sh on synthetic images with a few settings of one epoch: its tables and
# figures.
# Usage: test_accuracy.sh DLSIM DLPROF
set -u
export DLSIM=$1 DLPROF=$2
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/test_accuracy.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
run() {
    "$root/scenarios/accuracy/run.sh" --data synthetic --seeds 2 --epochs 1 --groups mlp,mlp30 \
        --only '^(one|average-2-10|async-2-rate|s1-one|s30-hardsync)$' \
        --work "$folder/work" --output "$folder/out" >"$folder/words" 2>&1
}
run || fail "run.sh: $(cat "$folder/words")"
for table in runs accuracy curves; do
    grep -q '^# date: ....-..-..; processor: ..*; seeds 1 to 2; 1 epochs$' "$folder/out/$table.csv" ||
        fail "$table.csv says not where it is from: $(head -n 3 "$folder/out/$table.csv")"
done
[ "$(grep -vc '^#' "$folder/out/runs.csv")" -eq 11 ] || fail "runs.csv: $(cat "$folder/out/runs.csv")"
[ "$(grep -vc '^#' "$folder/out/accuracy.csv")" -eq 6 ] || fail "accuracy.csv: $(cat "$folder/out/accuracy.csv")"
[ "$(grep -vc '^#' "$folder/out/curves.csv")" -eq 6 ] || fail "curves.csv: $(cat "$folder/out/curves.csv")"

# Of two runs, the mean is half the sum, and the standard error half the difference.
awk -F, 'NR == FNR { if ($2 == "one") { a[$9] = $13 } next }
    $2 == "one" { found = 1; mean = (a[1] + a[2]) / 2; error = (a[1] - a[2]) / 2; if (error < 0) error = -error
        if ($10 - mean > 1e-6 || mean - $10 > 1e-6 || $11 - error > 1e-6 || error - $11 > 1e-6) exit 1 }
    END { exit !found }' "$folder/out/runs.csv" "$folder/out/accuracy.csv" ||
    fail "mean or standard error: $(cat "$folder/out/accuracy.csv")"

# A second call repeats no run, and adds a missing one.
before=$(stat -c %Y.%s "$folder"/work/*.csv)
rm "$folder/work/mlp-one-2.csv"
touch -d '2000-01-01' "$folder/work/mlp-one-1.csv"
run || fail "second call: $(cat "$folder/words")"
[ "$(stat -c %Y "$folder/work/mlp-one-1.csv")" -lt 1000000000 ] || fail "a finished run was run again"
[ "$(stat -c %Y.%s "$folder"/work/*.csv | wc -l)" -eq "$(echo "$before" | wc -l)" ] || fail "a run is missing"
"$root/scenarios/accuracy/run.sh" --groups lanet >"$folder/words" 2>&1 && fail "group lanet is taken"
"$root/scenarios/accuracy/run.sh" --sedes 3 >"$folder/words" 2>&1
[ $? -eq 2 ] || fail "--sedes is taken"

if command -v gnuplot >/dev/null; then
    draw() { gnuplot -e "results='$folder/out/$2.csv'; output='$folder/$1.svg'" "$root/plots/$1.gp" 2>&1; }
    words=$(draw accuracy accuracy) && [ -z "$words" ] || fail "accuracy.gp: $words"
    words=$(draw time_to_accuracy curves) && [ -z "$words" ] || fail "time_to_accuracy.gp: $words"
    for text in "test error (%)" "mini-batches between two averages" "mean staleness" \
        "mlp, average, 2 workers" "mlp, rate / staleness" "1 worker"; do
        grep -q -F ">$text" "$folder/accuracy.svg" || fail "accuracy.svg lacks '$text'"
    done
    for text in "simulated time (s)" "30 workers, hardsync" "1 worker"; do
        grep -q -F ">$text" "$folder/time_to_accuracy.svg" || fail "time_to_accuracy.svg lacks '$text'"
    done
    draw accuracy curves | grep -q "lacks the column" || fail "accuracy.gp takes another table"
fi
[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
