#!/usr/bin/env bash
# Compares measured runs of data parallel training, local SGD and DiLoCo over shaped ports (4 nodes with one
# L40S each, Adnan082/diloco-measured) with what dlsim predicts: by a ring at the stated rate alone; from
# mechanism alone, where computing is as measured, the ports' rates are the stated ones, and nothing is
# fitted; and calibrated, with three costs fitted to the rows, also leaving out each row in turn: the first average,
# how much longer the slowest node computes than the one that was recorded, and a hop's latency over ports that are
# not shaped. The table lies in $DL_DATA/scaling/local_sgd (default ./data); without it this
# script says so and does nothing. A table with more rows of the same kind is compared the same way.
#
# Usage: scenarios/local_sgd/report.sh [TABLE]     needs bin/dlsim in build/release (or $DLSIM)
# $BUILD: folder for scenarios and results (default build/local_sgd)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlsim=${DLSIM:-build/release/bin/dlsim}
here=scenarios/local_sgd
table=${1:-${DL_DATA:-data}/scaling/local_sgd/diloco_measured_calibration.csv}
out=${BUILD:-build/local_sgd}
[ -f "$table" ] || { echo "report.sh: skipped, there is no $table"; exit 0; }
[ -x "$dlsim" ] || { echo "report.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
mkdir -p "$out"
machine=$PWD/scenarios/machines/g6e_4x_l40s.ini
sed '/^\[tcp\]/,/^$/d' "$machine" >"$out/ring.ini"
cp "$machine" "$out/mechanism.ini"

# One line a run: see rows.awk.
awk -f "$here/rows.awk" "$table" >"$out/rows"

# Where a port is not shaped, its rate is what an all-reduce reached; the wire's, with headers (9,001 bytes a packet, of
# which 52 are headers, in frames of 9,015), is that over what packets carry.
wire=$(awk 'BEGIN { print (9001 - 52) / (9001 + 14) }')
step_s=0.02457 # of the cost file

# predict WHAT ROW...: seconds a step, by the machine file OUT/WHAT.ini, or OUT/WHAT.unshaped.ini where that is there, and
# the slowest node's factor OUT/WHAT.slow.
predict() {
    local what=$1 run=$2 algorithm=$3 interval=$4 rate=$5 shaped=$6 steps=$7 warmup=$8 costs=tensors
    local file=$out/$what.$run.ini carried=1 kind=$1
    [ "$algorithm" != ddp ] || costs=ddp
    [ "$shaped" = yes ] || [ "$what" = ring ] || carried=$wire
    [ "$shaped" = yes ] || [ ! -f "$out/$what.unshaped.ini" ] || kind=$what.unshaped
    {
        printf '[scenario]\nname = %s\nsteps = %s\nwarmup = %s\n' "$run" "$steps" "$warmup"
        printf '[machine]\nfile = %s\nworkers = 4\n' "$(cd "$out" && pwd)/$kind.ini"
        printf 'port_bytes_per_s = %s\n' "$(awk -v r="$rate" -v c="$carried" 'BEGIN { printf "%.9g", r / c / 8 }')"
        printf '[workload]\ncosts = %s/%s/costs/llama_30m_%s.ini\nbatch_per_worker = 4\n' "$PWD" "$here" "$costs"
        case $algorithm in
            ddp) printf '[sync]\nmode = allreduce\n' ;;
            localsgd) printf '[sync]\nmode = average\nwhere = allreduce\ninterval = %s\n' "$interval" ;;
            diloco) printf '[sync]\nmode = average\nouter = nesterov\nwhere = allreduce\ninterval = %s\n' "$interval" ;;
        esac
        printf '[exchange]\nalgorithm = ring\n'
        [ ! -f "$out/$what.slow" ] || printf '[noise]\nslow = 3:%s\n' "$(cat "$out/$what.slow")"
    } >"$file"
    "$dlsim" --quiet "$file" -o "$out/$what.$run.csv" >/dev/null
    awk -F, '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == "step_mean_s") at = i; next } { print $at }' \
        "$out/$what.$run.csv"
}

median() { # of lines of numbers; $1 where there are none
    sort -g | awk -v none="$1" '{ v[NR] = $1 } END { print NR ? (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 : none }'
}
# hop_of US FILE: the machine file with that latency of the network.
hop_of() {
    sed "/^\[link ethernet\]/,/^\$/s/^latency_ns .*/latency_ns  = $1us, fitted/" "$2"
}

# calibrated LEFT_OUT WHAT: machine files and the slowest node's factor from all rows but LEFT_OUT. The first average:
# the mean of what it took more than the others. The slowest node: rows of one algorithm and rate wait longer for the
# average the more steps are between two; the median, over pairs of rows, of the difference for each step. A hop: the
# median over rows on ports that are not shaped of what their averages take beyond the prediction and that wait.
calibrated() {
    awk -v without="$1" '$1 != without && $9 != "-" { sum += $9; n++ } END { printf "%.4f", n ? sum / n : 0.5 }' \
        "$out/rows" >"$out/first"
    awk -v without="$1" '$1 == without || $10 <= 0 || $2 == "ddp" { next }
        { for (i = 1; i <= n; i++)
              if (of[i] == $2 " " $4 && at[i] != $3) print ($10 - took[i]) / ($3 - at[i])
          n++; of[n] = $2 " " $4; at[n] = $3; took[n] = $10 }' "$out/rows" | median 0 >"$out/wait"
    awk -v wait="$(cat "$out/wait")" -v step=$step_s \
        'BEGIN { printf "%.5f", 1 + (wait > 0 ? wait : 0) / step }' >"$out/$2.slow"
    awk -v without="$1" -v wait="$(cat "$out/wait")" 'NR == FNR { near[$1] = $2; far[$1] = $3; next }
        $1 != without && $6 == "no" && $2 != "ddp" && $10 > 0 {
            us = 25 + 50 * ($10 - wait * $3 - near[$1]) / (far[$1] - near[$1]); print (us > 0 ? us : 0) }' \
        "$out/unshaped" "$out/rows" | median 25 >"$out/hop"
    sed "s/^first_use_ns = .*/first_use_ns = $(cat "$out/first")s, fitted/" "$machine" >"$out/$2.ini"
    hop_of "$(cat "$out/hop")" "$out/$2.ini" >"$out/$2.unshaped.ini"
}

: >"$out/all" >"$out/unshaped"
# What an average alone takes over ports that are not shaped, from mechanism, with the machine file's latency of 25 us and
# with 75 us: a step with it, less one without.
hop_of 75 "$machine" >"$out/far.ini"
while read -r run algorithm interval rate step shaped steps warmup first sync; do
    [ "$shaped" = no ] && [ "$algorithm" != ddp ] || continue
    args=("$run" "$algorithm" 1 "$rate" "$shaped" 20 5)
    echo "$run $(predict mechanism "${args[@]}") $(predict far "${args[@]}")" |
        awk -v step=$step_s '{ print $1, $2 - step, $3 - step }' >>"$out/unshaped"
done <"$out/rows"
calibrated - calibrated
while read -r run algorithm interval rate step shaped steps warmup first sync; do
    args=("$run" "$algorithm" "$interval" "$rate" "$shaped" "$steps" "$warmup")
    calibrated "$run" left_out
    echo "$run $algorithm $interval $rate $shaped $step" "$(predict ring "${args[@]}")" \
        "$(predict mechanism "${args[@]}")" "$(predict calibrated "${args[@]}")" "$(predict left_out "${args[@]}")"
done <"$out/rows" >"$out/all"
awk -f "$here/report.awk" "$out/all"
