#!/usr/bin/env bash
# Work that differs from step to step and worker to worker on this machine's cores, predicted and
# measured: each worker draws its samples of each step from a stated distribution (dlprof train
# --work). Costs and the distribution are those of runs of one worker and of benchmarks; judged are runs
# of 2 and 4 workers. Each round runs all settings once, in turn with the same setting with equal work,
# and what is compared is by how much the first takes longer: what disturbs the machine meets both.
# Result: a table with mean and largest error, and build/work.
#
# Usage: scripts/judge_work.sh [--rounds N] [--again]
#   --rounds N   of measurements (7); the median over the rounds counts
#   --again      predict again what was measured before
#
# Needs dlprof, dlcal and dlsim in build/release/bin (or $BIN). Images are synthetic.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=7 measure=1
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=${2:?}; shift 2 ;;
        --again) measure=; shift ;;
        -h | --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

column() { # file, name: of a table's rows
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

table() {
    local name mode interval n work equal drawn
    printf '%-11s %7s %-10s %10s %9s %8s %8s %11s\n' mode workers work predicted measured "error %" quartiles "equal: err %"
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
                        { ratio[NR] = $1 / $2; alone[NR] = $1 }
                        END {
                            sorted(ratio, NR); sorted(alone, NR)
                            p = equal / drawn; m = at(ratio, NR, 0.5)
                            printf "%-11s %7d %-10s %10.3f %9.3f %+8.1f %4.2f-%4.2f %+11.1f\n", name, n, work, p, m, 100 * (p / m - 1),
                                at(ratio, NR, 0.25), at(ratio, NR, 0.75), 100 * (equal / at(alone, NR, 0.5) - 1)
                        }'
            done
        done
    done < <(modes)
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
table | tee "$out/table.txt" |
    awk '{ print }
        NR > 1 { e = $6 < 0 ? -$6 : $6; m = $5 - 1; m = m < 0 ? -m : m; sum += e; none += 100 * m / (1 + m); n++; if (e > most) most = e }
        END { printf "error of %d settings: mean %.1f %%, largest %.1f %%; with equal work assumed mean %.1f %%\n", n, sum / n, most, none / n }'
