#!/usr/bin/env bash
# Sums up the runs that run.sh has left in a folder: runs.csv, a row a run; accuracy.csv, mean and standard
# error over the seeds; curves.csv, accuracy against epochs and simulated time, mean over the seeds.
#
# Usage: tables.sh WORK OUTPUT VERSION SEEDS EPOCHS          (run.sh calls it)
set -euo pipefail
work=$1 output=$2 version=$3 seeds=$4 epochs=$5
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
head_lines() { # what
    echo "# $1; $version"
    echo "# date: $(date -u +%Y-%m-%d); processor: ${cpu:-unknown}, $(nproc) cores; seeds 1 to $seeds; $epochs epochs"
    echo "# settings: scenarios/accuracy/run.sh; test accuracy behind the last epoch"
}
columns="model,setting,sync,workers,interval,n,staleness_rate,simulated"

# The settings of a run from its name: GROUP-SETTING-SEED.
describe() { # name without seed
    awk -v name="$1" 'BEGIN {
        split(name, part, "-"); model = part[1]; simulated = sub(/30$/, "", model)
        setting = substr(name, length(part[1]) + 2); rate = sub(/-rate$/, "", setting)
        count = split(setting, part, "-"); first = simulated ? 2 : 1
        sync = part[first]; if (sync == "one" || sync == "batch") sync = "none"
        if (sync == "hardsync") sync = "ps"
        workers = sync == "none" ? 1 : simulated ? 30 : part[2]
        last = count > (simulated ? 2 : 2) ? part[count] : ""
        if (sync == "softsync" && last == "") last = part[count]
        interval = sync == "average" ? part[3] : ""; n = sync == "softsync" ? last : ""
        print model "," setting (rate ? "-rate" : "") "," sync "," workers "," interval "," n "," rate "," simulated
    }'
}
{
    head_lines "single runs"
    echo "$columns,seed,updates,simulated_s,staleness_mean,accuracy"
    for curve in "$work"/*.csv; do
        name=$(basename "$curve" .csv)
        staleness=$(sed -n 's/^staleness *mean \([0-9.]*\).*/\1/p' "${curve%.csv}.txt")
        awk -F, -v OFS=, -v what="$(describe "${name%-*}")" -v seed="${name##*-}" -v stale="$staleness" '
            /^#/ || $1 == "update" { next } { row = $0 }
            END { split(row, c, ","); print what, seed, c[1], c[3], stale, c[4] }' "$curve"
    done
} >"$output/runs.csv.part"
mv "$output/runs.csv.part" "$output/runs.csv"

# Mean and standard error (sample deviation / sqrt(runs)) of columns 12 and 13 over rows that agree in the
# first eight.
{
    head_lines "accuracy over the seeds"
    echo "$columns,runs,accuracy,accuracy_se,accuracy_low,accuracy_high,staleness_mean,staleness_se,simulated_s"
    awk -F, -v OFS=, '
        /^#/ || $1 == "model" { next }
        {
            key = $1 OFS $2 OFS $3 OFS $4 OFS $5 OFS $6 OFS $7 OFS $8
            if (!(key in runs)) order[++keys] = key
            runs[key]++; a[key] += $13; aa[key] += $13 * $13
            if ($12 != "") { stales[key]++; s[key] += $12; ss[key] += $12 * $12 }
            if ($11 != "") { times[key]++; t[key] += $11 }
        }
        function error_of(sum, squares, n, v) {
            if (n < 2) return ""
            v = (squares - sum * sum / n) / (n - 1)
            return sprintf("%.6f", sqrt(v > 0 ? v / n : 0))
        }
        END {
            for (k = 1; k <= keys; k++) {
                key = order[k]; n = runs[key]; mean = a[key] / n; e = error_of(a[key], aa[key], n)
                print key, n, sprintf("%.6f", mean), e, sprintf("%.6f", mean - e),
                    sprintf("%.6f", mean + e),
                    stales[key] ? sprintf("%.3f", s[key] / stales[key]) : "",
                    stales[key] ? error_of(s[key], ss[key], stales[key]) : "",
                    times[key] ? sprintf("%.3f", t[key] / times[key]) : ""
            }
        }' "$output/runs.csv"
} >"$output/accuracy.csv.part"
mv "$output/accuracy.csv.part" "$output/accuracy.csv"

# Points of the runs of a setting belong together by their number.
{
    head_lines "accuracy during the runs, mean over the seeds"
    echo "$columns,point,runs,epoch,simulated_s,accuracy,accuracy_se,loss"
    for curve in "$work"/*-1.csv; do
        name=$(basename "$curve" -1.csv)
        awk -F, -v OFS=, -v what="$(describe "$name")" '
            FNR == 1 { point = 0 }
            /^#/ || $1 == "update" { next }
            {
                p = ++point; if (p > points) points = p
                n[p]++; e[p] += $2; t[p] += $3; timed[p] += $3 != ""; a[p] += $4; aa[p] += $4 * $4
                l[p] += $5; lost[p] += $5 != ""
            }
            END {
                for (p = 1; p <= points; p++) {
                    v = (n[p] > 1) ? (aa[p] - a[p] * a[p] / n[p]) / (n[p] - 1) / n[p] : 0
                    print what, p, n[p], sprintf("%.4f", e[p] / n[p]),
                        (timed[p] ? sprintf("%.4f", t[p] / timed[p]) : ""), sprintf("%.6f", a[p] / n[p]),
                        ((n[p] > 1) ? sprintf("%.6f", sqrt((v > 0) ? v : 0)) : ""),
                        (lost[p] ? sprintf("%.5f", l[p] / lost[p]) : "")
                }
            }' "$work/$name"-[0-9]*.csv
    done
} >"$output/curves.csv.part"
mv "$output/curves.csv.part" "$output/curves.csv"
