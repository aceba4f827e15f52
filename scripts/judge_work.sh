#!/usr/bin/env bash
# Predicts and measures work that varies between steps and workers on this machine's cores: each worker
# draws its number of samples of each step from a given distribution (dlprof train --work). Costs and
# the distribution come from runs of one worker and from benchmarks; runs of 2 and 4 workers are judged.
# Each round runs every setting once, interleaved with the same setting with equal work, and compares
# the ratio of their step times, as disturbances of the machine affect both.
# Result: a table with mean and largest error, the uncertainty of measured medians, a verdict, and
# build/work.
#
# Usage: scripts/judge_work.sh [--rounds N] [--again] [--docs]
#   --rounds N   rounds of measurements (7); the result is the median over the rounds
#   --again      repeat the predictions for earlier measurements
#   --docs       replace the table in docs/studies/cores.md
#
# Needs dlprof, dlcal and dlsim in build/release/bin (or $BIN). Images are synthetic.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=7 measure=1 docs=
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=${2:?}; shift 2 ;;
        --again) measure=; shift ;;
        --docs) docs=1; shift ;;
        -h | --help) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "judge_work.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    esac
done
bin=${BIN:-build/release/bin} out=build/work batch=256 steps=800
distributions=(uniform:0.5 two-point:0.5 lognormal:0.5)
workers=(2 4)

# Name, mode, interval.
modes() {
    printf '%s\n' "allreduce allreduce 1" "average-10 average 10" "async async 1"
}

train() { # options...
    "$bin/dlprof" train --model mlp --data synthetic "$@" >"$out/last.txt"
}

measure_round() { # round
    local round=$1 of name mode interval n work seed=$((100 + $1))
    if [ "$round" -le 3 ]; then
        "$bin/dlprof" bench --model mlp --batch 64,128 --workers-max 4 --data synthetic --seed "$round" --seconds 2 \
            -o "$out/bench-$round.dlt" >"$out/last.txt"
    fi
    for of in 32 64 128 192; do train --steps 400 --batch $of --seed $seed -o "$out/equal-$of-$round.dlt"; done
    for work in "${distributions[@]}"; do
        train --steps 600 --batch 128 --seed $seed --work "$work" -o "$out/${work%:*}-drawn-$round.dlt"
    done
    "$bin/dlprof" bench --model mlp --batch 64,128 --workers-max 4 --data synthetic --snapshot --seed "$round" \
        -o "$out/snapshot-$round.dlt" >"$out/last.txt"
    while read -r name mode interval; do
        for n in "${workers[@]}"; do
            for work in equal "${distributions[@]}"; do
                local options=(--steps $steps --workers "$n" --batch $batch --sync "$mode" --seed $seed --no-trace)
                [ "$mode" != average ] || options+=(--interval "$interval")
                [ "$work" = equal ] || options+=(--work "$work")
                train "${options[@]}" --csv "$out/$name.$n.${work%:*}.csv"
            done
        done
    done < <(modes)
}

column() { # file, name: cells of the column
    awk -F, -v name="$2" '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$1"
}

predict() { # costs, mode, interval, workers
    cat >"$out/point.ini" <<INI
[scenario]
steps = $steps
replicates = 20
[machine]
cores = measured
workers = $4
[workload]
costs = $1
batch = $batch
[sync]
mode = $2
$([ "$2" != average ] || printf 'interval = %s' "$3")
[noise]
kind = trace
INI
    "$bin/dlsim" --quiet "$out/point.ini" -o "$out/point.csv" 2>"$out/point.txt" || { cat "$out/point.txt" >&2; exit 1; }
    column "$out/point.csv" throughput_per_s
}

# For each setting: predicted and measured factor on the step time, error, quartiles, throughput error if
# equal work is assumed, standard error of the measured median, 90th over 10th percentile - 1, in %.
rows() {
    local name mode interval n work equal drawn
    while read -r name mode interval; do
        for n in "${workers[@]}"; do
            equal=$(predict equal.costs.ini "$mode" "$interval" "$n")
            for work in "${distributions[@]}"; do
                work=${work%:*}
                drawn=$(predict "$work.costs.ini" "$mode" "$interval" "$n")
                paste <(column "$out/$name.$n.equal.csv" throughput_per_s) \
                    <(column "$out/$name.$n.$work.csv" throughput_per_s) |
                    awk -v name="$name" -v n="$n" -v work="$work" -v equal="$equal" -v drawn="$drawn" '
                        function sorted(v, m,    i, j, t) {
                            for (i = 2; i <= m; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
                        }
                        function at(v, m, q,    x) { x = 1 + q * (m - 1); return v[int(x)] + (x - int(x)) * (v[x < m ? int(x) + 1 : m] - v[int(x)]) }
                        { ratio[NR] = $1 / $2; alone[NR] = $1; sum += ratio[NR]; squares += ratio[NR] ^ 2 }
                        END {
                            sorted(ratio, NR); sorted(alone, NR)
                            p = equal / drawn; m = at(ratio, NR, 0.5); mean = sum / NR
                            sd = NR > 1 && squares / NR > mean ^ 2 ? sqrt((squares / NR - mean ^ 2) * NR / (NR - 1)) : 0
                            printf "%s %d %s %.3f %.3f %+.1f %.2f-%.2f %+.1f %.1f %.1f\n", name, n, work, p, m, 100 * (p / m - 1),
                                at(ratio, NR, 0.25), at(ratio, NR, 0.75), 100 * (equal / at(alone, NR, 0.5) - 1),
                                100 * 1.2533 * sd / sqrt(NR) / m, 100 * (at(ratio, NR, 0.9) / at(ratio, NR, 0.1) - 1)
                        }'
            done
        done
    done < <(modes)
}

# Mean share of processor time taken by other programs or stolen by the host, over all measured runs; %.
others() {
    local file
    for file in "$out"/*.[0-9].*.csv; do paste <(column "$file" others_frac) <(column "$file" steal_frac); done |
        awk '{ sum += 100 * ($1 + $2) } END { print sum / NR }'
}

# The verdicts are those of docs/method.md, "Evaluation".
summary() {
    awk '
        function size(x) { return x < 0 ? -x : x }
        BEGIN { printf "%-11s %7s %-10s %10s %9s %8s %9s %11s\n", "mode", "workers", "work", "predicted", "measured", "error %", "quartiles", "equal: err %" }
        {
            printf "%-11s %7d %-10s %10.3f %9.3f %+8.1f %9s %+11.1f\n", $1, $2, $3, $4, $5, $6, $7, $8
            e = size($6); sum += e; if (e > most) most = e
            none += 100 * size(1 - 1 / $5); floor += $9; if ($10 > spread) { spread = $10; where = $1 " " $2 " " $3 }
        }
        END {
            printf "error of %d settings: mean %.1f %%, largest %.1f %%; with equal work assumed mean %.1f %%\n", NR, sum / NR, most, none / NR
            printf "noise floor: %.1f %%, the standard error of a measured median (mean over the settings)\n", floor / NR
            if (rounds < 3) printf "verdict: fewer than three rounds do not judge the predictions\n"
            else if (spread > 30) printf "verdict: this machine varies too much to judge the predictions (%s: 90th over 10th percentile %.0f %%)\n", where, spread
            else if (others > 5) printf "verdict: disturbed, other programs used, or the host took, %.0f %% of the processors\n", others
            else printf "verdict: judged\n"
        }' rounds="$(column "$out/allreduce.2.equal.csv" step_s | wc -l)" others="$(others)" "$out/rows.txt"
}

# Prints the table of docs/studies/cores.md: a line for each setting, then the means.
markdown() {
    echo '| mode | workers | work | predicted: longer by | measured (quartiles) | error % | equal work: error of the throughput % | floor % |'
    echo '|---|---|---|---|---|---|---|---|'
    awk '{
            printf "| %s | %d | %s | %s | %s (%s) | %s | %s | %s |\n", $1, $2, $3, $4, $5, $7, $6, $8, $9
            e = $6 < 0 ? -$6 : $6; sum += e; if (e > most) most = e; n = 100 * (1 - 1 / $5); none += n < 0 ? -n : n; floor += $9
        }
        END { printf "| mean, max | | | | | %.1f, %.1f | | %.1f |\n", sum / NR, most, floor / NR }' "$out/rows.txt"
    echo
    summary | sed -n '$s/^v/V/p' | sed 's/$/./'
}

if [ -n "$measure" ]; then
    mkdir -p "$out"
    rm -f "$out"/*.dlt "$out"/*.csv
    for ((round = 1; round <= rounds; round++)); do measure_round "$round"; done
fi
"$bin/dlcal" fit "$out"/{bench,snapshot,equal}-*.dlt -o "$out/equal.costs.ini" >"$out/equal.txt"
for work in "${distributions[@]}"; do
    work=${work%:*}
    "$bin/dlcal" fit "$out"/{bench,snapshot,equal,"$work-drawn"}-*.dlt -o "$out/$work.costs.ini" >"$out/$work.txt"
done
rows >"$out/rows.txt"
summary | tee "$out/table.txt"
markdown >"$out/accuracy.md"
[ -z "$docs" ] || awk -v table="$out/accuracy.md" '
    /<!-- judge_work.sh/ { print; print ""; while ((getline line < table) > 0) print line; print ""; inside = 1; next }
    /<!-- end of judge_work.sh/ { inside = 0 }
    !inside' docs/studies/cores.md >"$out/docs.md"
[ -z "$docs" ] || cp "$out/docs.md" docs/studies/cores.md
