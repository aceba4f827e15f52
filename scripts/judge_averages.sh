#!/usr/bin/env bash
# Averages of parameters on this machine's cores, predicted and measured: every step and rarely, in
# fragments, late, with an outer optimizer, as smaller messages. Costs are those of one worker and of
# benchmarks (as in ./quickstart); the runs with 2 workers that are predicted are measured in turn with
# them, in rounds. Result: a table of each model, with mean and largest error, and build/averages.
#
# Usage: scripts/judge_averages.sh [--rounds N] [--models LIST] [--again]
#   --rounds N      of measurements (5); the median of a setting's runs counts
#   --models LIST   of: mlp,lenet (both)
#   --again         predict again what was measured before
#
# Needs dlprof, dlcal and dlsim in build/release/bin (or $BIN). Images are synthetic.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=5 models=mlp,lenet measure=1
while [ $# -gt 0 ]; do
    case $1 in
        --rounds | --models) declare "${1#--}=${2:?}"; shift 2 ;;
        --again) measure=; shift ;;
        -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "judge_averages.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    esac
done
bin=${BIN:-build/release/bin} out=build/averages batch=128
declare -A steps=([mlp]=600 [lenet]=30) calibration_steps=([mlp]=300 [lenet]=20) bench_seconds=([mlp]=2 [lenet]=3)

# Name, interval, fragments, lag, outer optimizer, messages.
settings() {
    cat <<'TABLE'
every-step 1 1 0 none none
every-10 10 1 0 none none
fragments-5 10 5 0 none none
lag-1 2 1 1 none none
lag-4 10 1 4 none none
fragments-5-lag-4 10 5 4 none none
outer-every-step 1 1 0 nesterov none
outer-every-10 10 1 0 nesterov none
fp16-every-step 1 1 0 none fp16
int8-every-step 1 1 0 none int8
fp4-every-step 1 1 0 none fp4
1bit-every-step 1 1 0 none 1bit
topk-every-step 1 1 0 none topk
int8-every-10 10 1 0 none int8
topk-every-10 10 1 0 none topk
int8-fragments-5 10 5 0 none int8
int8-lag-1 2 1 1 none int8
int8-outer 1 1 0 nesterov int8
TABLE
}

train() { # model, options...
    local model=$1
    shift
    "$bin/dlprof" train --model "$model" --data synthetic "$@" >"$out/last.txt"
}

measure_round() { # model, round
    local model=$1 round=$2 name interval fragments lag outer message of
    if [ "$round" -le 2 ]; then
        "$bin/dlprof" bench --model "$model" --batch 32,64 --workers-max 2 --data synthetic --seed "$round" \
            --seconds "${bench_seconds[$model]}" -o "$out/$model-bench-$round.dlt" >"$out/last.txt"
    fi
    for of in 32 64 128; do
        train "$model" --steps "${calibration_steps[$model]}" --batch $of -o "$out/$model-$of-$round.dlt"
    done
    "$bin/dlprof" bench --model "$model" --batch 32,64 --workers-max 2 --data synthetic --snapshot --seed "$round" \
        -o "$out/$model-snapshot-$round.dlt" >"$out/last.txt"
    while read -r name interval fragments lag outer message; do
        train "$model" --steps "${steps[$model]}" --workers 2 --batch $batch --sync average --interval "$interval" \
            --fragments "$fragments" --lag "$lag" --outer "$outer" --compress "$message" \
            $([ "$message" = topk ] && echo --topk-frac 0.01) --no-trace \
            --csv "$out/$model.$name.csv"
    done < <(settings)
}

# The column of a table's rows.
column() { # file, name
    awk -F, -v name="$2" '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$1"
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

predict() { # model, interval, fragments, lag, outer, messages
    cat >"$out/point.ini" <<INI
[scenario]
steps = ${steps[$1]}
replicates = 20
[machine]
cores = measured
workers = 2
[workload]
costs = $1.costs.ini
batch = $batch
[sync]
mode = average
interval = $2
fragments = $3
lag = $4
outer = $5
$([ "$6" = none ] || printf '[exchange]\ncompress = %s' "$6")
$([ "$6" != topk ] || echo 'topk_frac = 0.01')
[noise]
kind = trace
INI
    "$bin/dlsim" --quiet "$out/point.ini" -o "$out/point.csv" 2>"$out/point.txt" && column "$out/point.csv" throughput_per_s
}

# A row of each setting: spread is the largest over the smallest of its runs.
table() { # model
    local name interval fragments lag outer message measured predicted
    printf '%-20s %14s %14s %9s %9s\n' "$1" "predicted/s" "measured/s" "error %" "spread %"
    while read -r name interval fragments lag outer message; do
        measured=$(column "$out/$1.$name.csv" throughput_per_s | median)
        if predicted=$(predict "$1" "$interval" "$fragments" "$lag" "$outer" "$message"); then
            column "$out/$1.$name.csv" throughput_per_s | sort -g | awk -v name="$name" -v p="$predicted" -v m="$measured" '
                NR == 1 { low = $1 } { high = $1 }
                END { printf "%-20s %14.0f %14.0f %9.1f %9.1f\n", name, p, m, 100 * (p / m - 1), 100 * (high / low - 1) }'
        else
            printf '%-20s %14s %14.0f   %s\n' "$name" - "$measured" "$(head -n 1 "$out/point.txt")"
        fi
    done < <(settings)
}

if [ -n "$measure" ]; then
    mkdir -p "$out"
    for model in ${models//,/ }; do rm -f "$out/$model"[-.]*; done
    for ((round = 1; round <= rounds; round++)); do
        for model in ${models//,/ }; do measure_round "$model" "$round"; done
    done
fi
for model in ${models//,/ }; do
    "$bin/dlcal" fit "$out/$model"-*.dlt -o "$out/$model.costs.ini" >"$out/$model.fit.txt"
    table "$model" | tee "$out/$model.txt" |
        awk '{ print } $4 ~ /^-?[0-9.]+$/ { e = $4 < 0 ? -$4 : $4; sum += e; n++; if (e > most) most = e }
            END { printf "error of %d settings: mean %.1f %%, largest %.1f %%\n\n", n, sum / n, most }'
done
