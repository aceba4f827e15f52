#!/usr/bin/env bash
# Compares measured runs of data parallel training, local SGD and DiLoCo over shaped ports (4 nodes with one
# L40S each, Adnan082/diloco-measured) with what dlsim predicts: by a ring at the stated rate alone; from
# mechanism alone, where computing is as measured, the ports' rates are the stated ones, and nothing is
# fitted; and calibrated, with the cost of the first average and the rate of averages over unshaped ports fitted
# to the rows, also leaving out each row in turn. The table lies in $DL_DATA/scaling/local_sgd (default ./data); without it this
# script says so and does nothing. A table with more rows of the same kind is compared the same way.
#
# Usage: scenarios/local_sgd/report.sh [TABLE]     needs bin/dlsim in build/release (or $DLSIM)
# $BUILD: folder for scenarios and results (default build/local_sgd)
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

# predict WHAT ROW...: seconds a step, by the machine file OUT/WHAT.ini and the port's factor OUT/WHAT.port.
predict() {
    local what=$1 run=$2 algorithm=$3 interval=$4 rate=$5 shaped=$6 steps=$7 warmup=$8 costs=tensors
    local file=$out/$what.$run.ini port=1
    [ "$algorithm" != ddp ] || costs=ddp
    [ "$shaped" = yes ] || [ "$algorithm" = ddp ] || port=$(cat "$out/$what.port" 2>/dev/null || echo 1)
    {
        printf '[scenario]\nname = %s\nsteps = %s\nwarmup = %s\n' "$run" "$steps" "$warmup"
        printf '[machine]\nfile = %s\nworkers = 4\n' "$(cd "$out" && pwd)/$what.ini"
        printf 'port_bytes_per_s = %s\n' "$(awk -v r="$rate" -v f="$port" 'BEGIN { printf "%.9g", r * f / 8 }')"
        printf '[workload]\ncosts = %s/%s/costs/llama_30m_%s.ini\nbatch_per_worker = 4\n' "$PWD" "$here" "$costs"
        case $algorithm in
            ddp) printf '[sync]\nmode = allreduce\n' ;;
            localsgd) printf '[sync]\nmode = average\nwhere = allreduce\ninterval = %s\n' "$interval" ;;
            diloco) printf '[sync]\nmode = average\nouter = nesterov\nwhere = allreduce\ninterval = %s\n' "$interval" ;;
        esac
        printf '[exchange]\nalgorithm = ring\n'
    } >"$file"
    "$dlsim" --quiet "$file" -o "$out/$what.$run.csv" >/dev/null
    awk -F, '/^#/ { next } !at { for (i = 1; i <= NF; i++) if ($i == "step_mean_s") at = i; next } { print $at }' \
        "$out/$what.$run.csv"
}

# calibrated LEFT_OUT WHAT: a machine file and a port's factor from all rows but LEFT_OUT: the mean of what
# the first averages took more than the others, and the median of measured over predicted rates of averages
# over ports that are not shaped.
calibrated() {
    awk -v without="$1" '$1 != without && $9 != "-" { sum += $9; n++ } END { printf "%.4f", n ? sum / n : 0.5 }' \
        "$out/rows" >"$out/first"
    sed "s/^first_use_ns = .*/first_use_ns = $(cat "$out/first")s, fitted/" "$machine" >"$out/$2.ini"
    awk -v without="$1" 'NR == FNR { predicted[$1] = $2; next }
        $1 != without && $6 == "no" && $2 != "ddp" && $10 > 0 { print predicted[$1] / $10 }' \
        "$out/unshaped" "$out/rows" | sort -g | awk '{ v[NR] = $1 }
        END { print NR ? (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 : 1 }' >"$out/$2.port"
}

: >"$out/all" >"$out/unshaped"
# What an average alone takes over ports that are not shaped, from mechanism: a step with it, less one without.
while read -r run algorithm interval rate step shaped steps warmup first sync; do
    [ "$shaped" = no ] && [ "$algorithm" != ddp ] || continue
    s=$(predict mechanism "$run" "$algorithm" 1 "$rate" "$shaped" 20 5)
    echo "$run $(awk -v s="$s" 'BEGIN { print s - 0.02457 }')" >>"$out/unshaped"
done <"$out/rows"
calibrated - calibrated
while read -r run algorithm interval rate step shaped steps warmup first sync; do
    args=("$run" "$algorithm" "$interval" "$rate" "$shaped" "$steps" "$warmup")
    calibrated "$run" left_out
    echo "$run $algorithm $interval $rate $shaped $step" "$(predict ring "${args[@]}")" \
        "$(predict mechanism "${args[@]}")" "$(predict calibrated "${args[@]}")" "$(predict left_out "${args[@]}")"
done <"$out/rows" >"$out/all"
awk -f "$here/report.awk" "$out/all"
