#!/usr/bin/env bash
# Predicts and measures parameter averaging on this machine's cores: every step and at intervals, in
# fragments, delayed, with an outer optimizer, with compressed messages, and merged asynchronously. Costs
# come from runs of one worker and benchmarks (as in ./quickstart); the predicted runs with 2 and 4
# workers are interleaved with them, in rounds. Result: a table for each model, with mean and largest
# error, a table of the outcomes of uploads, a verdict, and build/averages.
#
# Usage: scripts/judge_averages.sh [--rounds N] [--models LIST] [--again]
#   --rounds N      rounds of measurements (5); the result is the median of a setting's runs
#   --models LIST   models to measure (mlp,lenet)
#   --again         repeat the predictions for earlier measurements
#
# Needs dlprof, dlcal and dlsim in build/release/bin (or $BIN). Images are synthetic.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=5 models=mlp,lenet measure=1
while [ $# -gt 0 ]; do
    case $1 in
        --rounds | --models) declare "${1#--}=${2:?}"; shift 2 ;;
        --again) measure=; shift ;;
        -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "judge_averages.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    esac
done
bin=${BIN:-build/release/bin} out=build/averages batch=128
declare -A steps=([mlp]=400 [lenet]=30) calibration_steps=([mlp]=300 [lenet]=20) bench_seconds=([mlp]=2 [lenet]=3)

# Prints each setting: its name and the keys that differ from the defaults, which are `workers` and keys
# of [sync], [syncer] and [exchange]; they are also options of dlprof train.
settings() {
    cat <<'TABLE'
every-step interval=1
every-10 interval=10
fragments-5 interval=10 fragments=5
lag-1 interval=2 lag=1
lag-4 interval=10 lag=4
fragments-5-lag-4 interval=10 fragments=5 lag=4
outer-every-step interval=1 outer=nesterov
outer-every-10 interval=10 outer=nesterov
fp16-every-step interval=1 compress=fp16
int8-every-step interval=1 compress=int8
fp4-every-step interval=1 compress=fp4
1bit-every-step interval=1 compress=1bit
topk-every-step interval=1 compress=topk topk_frac=0.01
int8-every-10 interval=10 compress=int8
topk-every-10 interval=10 compress=topk topk_frac=0.01
int8-fragments-5 interval=10 fragments=5 compress=int8
int8-lag-1 interval=2 lag=1 compress=int8
int8-outer interval=1 outer=nesterov compress=int8
merged-every-2 mode=async_average interval=2
merged-every-5 mode=async_average interval=5
merged-bound-1 mode=async_average interval=2 bound=1
merged-by-2 mode=async_average interval=5 quorum=2
merged-of-4 mode=async_average interval=5 workers=4
TABLE
}

train() { # model, options...
    local model=$1
    shift
    "$bin/dlprof" train --model "$model" --data synthetic "$@" >"$out/last.txt"
}

measure_round() { # model, round
    local model=$1 round=$2 name keys key of options
    if [ "$round" -le 2 ]; then
        "$bin/dlprof" bench --model "$model" --batch 32,64 --workers-max 2 --data synthetic --seed "$round" \
            --seconds "${bench_seconds[$model]}" -o "$out/$model-bench-$round.dlt" >"$out/last.txt"
    fi
    for of in 32 64 128; do
        train "$model" --steps "${calibration_steps[$model]}" --batch $of -o "$out/$model-$of-$round.dlt"
    done
    if [ "$round" -le 3 ]; then
        "$bin/dlprof" bench --model "$model" --batch 32,64 --workers-max 2 --data synthetic --snapshot --seed "$round" \
            -o "$out/$model-snapshot-$round.dlt" >"$out/last.txt"
    fi
    while read -r name keys; do
        options=(--workers 2 --sync average)
        for key in $keys; do
            options+=("--$(sed 's/^mode=/sync=/; s/=.*//; s/_/-/g' <<<"$key")" "${key#*=}")
        done
        train "$model" --steps "${steps[$model]}" --batch $batch "${options[@]}" --no-trace --csv "$out/$model.$name.csv"
    done < <(settings)
}

# Prints the cells of a column.
column() { # file, name
    awk -F, -v name="$2" '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print $at }' "$1"
}

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# Prints a section with those of its keys that are given.
section() { # name, keys of the section, keys...
    local name=$1 known=" $2 " key
    echo "[$name]"
    shift 2
    for key in "$@"; do
        case $known in *" ${key%%=*} "*) echo "${key%%=*} = ${key#*=}" ;; esac
    done
}

predict() { # model, keys...
    local model=$1
    shift
    {
        printf '[scenario]\nsteps = %d\nreplicates = 20\n' "${steps[$model]}"
        section machine workers workers=2 "$@" | awk '/^workers/ { last = $0; next } { print } END { print "cores = measured\n" last }'
        printf '[workload]\ncosts = %s.costs.ini\nbatch = %d\n' "$model" $batch
        section sync 'mode interval fragments lag outer bound' mode=average "$@" |
            awk '/^mode/ { last = $0; next } { print } END { print last }'
        case " $* " in *" compress="*) section exchange 'compress topk_frac' "$@" ;; esac
        case " $* " in *" quorum="*) section syncer quorum "$@" ;; esac
        printf '[noise]\nkind = trace\n'
    } >"$out/point.ini"
    "$bin/dlsim" --quiet "$out/point.ini" -o "$out/point.csv" 2>"$out/point.txt"
}

# Prints for each setting predicted and measured samples/s, error, spread (largest over smallest run),
# standard error of the measured median, and 90th over 10th percentile minus 1, in %; or the reason why it
# cannot be predicted. Writes the outcomes of uploads to MODEL.uploads.txt.
rows() { # model
    local name keys file
    : >"$out/$1.uploads.txt"
    while read -r name keys; do
        file=$out/$1.$name.csv
        # shellcheck disable=SC2086
        if ! predict "$1" $keys; then
            printf '%s - %.0f %s\n' "$name" "$(column "$file" throughput_per_s | median)" "$(head -n 1 "$out/point.txt")"
            continue
        fi
        column "$file" throughput_per_s | sort -g | awk -v name="$name" -v p="$(column "$out/point.csv" throughput_per_s)" '
            function at(q,    x) { x = 1 + q * (NR - 1); return v[int(x)] + (x - int(x)) * (v[x < NR ? int(x) + 1 : NR] - v[int(x)]) }
            { v[NR] = $1; sum += $1; squares += $1 ^ 2 }
            END {
                m = at(0.5); variance = squares / NR - (sum / NR) ^ 2
                sd = NR > 1 && variance > 0 ? sqrt(variance * NR / (NR - 1)) : 0
                printf "%s %.0f %.0f %.1f %.1f %.1f %.1f\n", name, p, m, 100 * (p / m - 1), 100 * (v[NR] / v[1] - 1),
                    100 * 1.2533 * sd / sqrt(NR) / m, 100 * (at(0.9) / at(0.1) - 1)
            }'
        case $keys in mode=async_average*) uploads "$name" "$file" >>"$out/$1.uploads.txt" ;; esac
    done < <(settings)
}

# Prints the shares of uploads that were applied, too stale and superseded, and the mean staleness:
# predicted, and measured over all runs.
uploads() { # name, table of the runs
    local name=$1 file=$2 fate
    fates() { for fate in applied too_stale superseded unmerged; do column "$1" uploads_$fate | awk '{ sum += $1 } END { printf "%s ", sum }'; done; }
    echo "$name $(fates "$out/point.csv") $(column "$out/point.csv" staleness_mean) $(fates "$file")" \
        "$(column "$file" staleness_mean | awk '{ sum += $1 } END { print sum / NR }')" |
        awk '{
            p = $2 + $3 + $4 + $5; m = $7 + $8 + $9 + $10
            printf "%s %.1f %.1f %.1f %.1f %.1f %.1f %.2f %.2f\n", $1, 100 * $2 / p, 100 * $7 / m, 100 * $3 / p, 100 * $8 / m, 100 * $4 / p, 100 * $9 / m, $6, $11
        }'
}

table() { # model
    awk -v model="$1" 'BEGIN { printf "%-20s %14s %14s %9s %9s\n", model, "predicted/s", "measured/s", "error %", "spread %" }
        $2 == "-" { name = $1; m = $3; $1 = $2 = $3 = ""; printf "%-20s %14s %14s   %s\n", name, "-", m, $0; next }
        {
            printf "%-20s %14s %14s %+9.1f %9.1f\n", $1, $2, $3, $4, $5
            e = $4 < 0 ? -$4 : $4; sum += e; floor += $6; n++
            if (e > most) { most = e; where = $1 }
        }
        END { if (n) printf "error of %d settings: mean %.1f %%, largest %.1f %% (%s); noise floor %.1f %%\n\n", n, sum / n, most, where, floor / n }' \
        "$out/$1.rows.txt"
    awk 'NR == 1 { printf "%-20s %20s %20s %20s %17s\n", "of uploads, %", "applied", "too stale", "superseded", "mean staleness" }
        { printf "%-20s %9s, %9s %9s, %9s %9s, %9s %8s, %7s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }
        END { if (NR) print "" }' "$out/$1.uploads.txt"
}

# Mean share of processor time taken by other programs or stolen by the host, over all measured runs; %.
others() {
    local file
    for file in "$out"/*.csv; do
        [ "$file" = "$out/point.csv" ] || paste <(column "$file" others_frac) <(column "$file" steal_frac)
    done | awk '{ sum += 100 * ($1 + $2) } END { print sum / NR }'
}

# The verdicts are those of docs/method.md, "Evaluation".
verdict() {
    for model in ${models//,/ }; do sed "s/^/$model /" "$out/$model.rows.txt"; done |
        awk -v others="$(others)" -v rounds="$(column "$out/${models%%,*}.every-step.csv" step_s | wc -l)" '
        $3 == "-" { next }
        { e = $5 < 0 ? -$5 : $5; sum += e; n++; if (e > most) most = e; if ($8 > spread) { spread = $8; where = $1 ", " $2 } }
        END {
            if (rounds < 3) why = "fewer than three rounds do not judge the predictions"
            else if (spread > 30) why = sprintf("this machine varies too much to judge the predictions (%s: 90th over 10th percentile %.0f %%)", where, spread)
            if (others > 5) why = why (why == "" ? "" : "; ") sprintf("disturbed, other programs used, or the host took, %.0f %% of the processors", others)
            printf "verdict: %s; %d settings, error %.1f %% on average, %.1f %% at most\n", why == "" ? "judged" : why, n, sum / n, most
        }'
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
    rows "$model" >"$out/$model.rows.txt"
    table "$model" | tee "$out/$model.txt"
done
verdict
