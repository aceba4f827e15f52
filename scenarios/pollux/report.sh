#!/usr/bin/env bash
# Fits costs to Pollux' measured steps on T4 GPUs (Qiao et al. 2021, OSDI) on one node and on equal
# nodes, by `dlcal table`; predicts all other placements by `dlsim`, beside simpler models that are
# fitted to the same rows; then nodes that no cost was fitted to. Results: build/pollux, above all
# report.txt. Takes some minutes. The tables lie in $DL_DATA/scaling/pollux (default ./data);
# without them it says so and does nothing.
#
# Usage: scenarios/pollux/report.sh [NAME...]     needs bin/dlcal and bin/dlsim in build/release (or
#                                                 $DLCAL, $DLSIM); NAME: imagenet, bert, cifar10, or yolov3, too
# $BUILD: folder for results; $PLACEMENTS: a regular expression of placements, to take only some;
# $BATCHES: one of batches of a GPU; $MOST: fit the rows of at most that many GPUs, and predict the others
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
dlcal=${DLCAL:-build/release/bin/dlcal}
dlsim=${DLSIM:-build/release/bin/dlsim}
data=${DL_DATA:-data}/scaling/pollux
pollux=scenarios/pollux
out=${BUILD:-build/pollux}
[ -d "$data" ] || { echo "report.sh: skipped, there is no $data"; exit 0; }
for program in "$dlcal" "$dlsim"; do
    [ -x "$program" ] || { echo "report.sh: no $program; build it, or name it in DLCAL, DLSIM" >&2; exit 2; }
done
[ $# -gt 0 ] || set -- imagenet bert cifar10
for name; do
    [ -f "$pollux/$name.ini" ] || { echo "report.sh: no scenario $pollux/$name.ini" >&2; exit 2; }
done
mkdir -p "$out"
# Beyond the machine file's four nodes: the same ones, sixteen of them.
sed 's/^nodes  = 4$/nodes  = 16/' scenarios/machines/t4_4x4_ethernet.ini >"$out/t4_16x4.ini"

compute="[op network.backward] fixed_ns, [op network.backward] per_sample_ns, spread.gpu_frac"
network="network.bytes_per_s, network.pair_bytes_per_s, network.slice_ns"

# rows WANT TABLE: see rows.awk; only $PLACEMENTS and $BATCHES.
rows() {
    awk -v want="$1" -v batches="${BATCHES:-}" -v most="${MOST:-0}" -f "$pollux/rows.awk" "$2" |
        awk -F, -v only="${PLACEMENTS:-.}" 'NR == 1 || $1 ~ only'
}

# absolute FILE: from the root of a path that may be.
absolute() { case "$1" in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# predict NAME COSTS MACHINE ROWS: dlsim over the rows' placements, as many at a time as a line of a
# scenario holds; prints "rows median mean max" of |predicted step / measured step - 1| in %.
predict() {
    local part=0 list files=() all
    all=$out/$(basename "$4" .csv)
    rm -f "$all"_part*
    awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' "$4" | awk '
        length(line) + length($1) > 150 { print line; line = "" }
        { line = line (line == "" ? "" : ",") $1 }
        END { print line }' >"${all}_placements"
    while read -r list; do
        part=$((part + 1))
        local stem="${all}_part$part"
        # A single placement is not swept, so that rows tell it by the number of workers.
        awk -F, -v list="$list" '
            BEGIN { count = split(list, one, ","); for (i in one) want[one[i]] = 1 }
            NR == 1 { print count == 1 ? "workers,batch,step_s" : $0; next }
            $1 in want {
                gpus = 0
                for (k = 1; k <= length($1); k++) gpus += substr($1, k, 1)
                print (count == 1 ? gpus : $1) "," $2 "," $3
                if (!seen[$2 / gpus]++) print $2 / gpus >batches
            }' batches="$stem.batches" "$4" >"$stem.measured.csv"
        {
            sed -e '/^workers/d' -e '/^costs/d' -e '/^batch_per_worker/d' -e '/^file/d' \
                -e "s#^\[machine\]#&\nfile = $(absolute "$3")\nplacement = $list#" \
                -e "s#^\[workload\]#&\ncosts = $(absolute "$2")\nbatch_per_worker = $(
                    sort -n "$stem.batches" | paste -sd,)#" "$pollux/$1.ini"
            printf '\n[measured]\nfile = %s\n' "$(absolute "$stem.measured.csv")"
        } >"$stem.ini"
        "$dlsim" --quiet "$stem.ini" -o "$stem.csv" >"$stem.txt"
        files+=("$stem.csv")
    done <"${all}_placements"
    awk -F, '
        /^#/ { next }
        /^cores,/ || /^workers,/ || /,workers,/ { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["measured_per_s"] != "" {
            off = $at["measured_per_s"] / $at["throughput_per_s"] - 1
            print off < 0 ? -100 * off : 100 * off
        }' "${files[@]}" | sort -g | awk '
        { off[NR] = $1; sum += $1 }
        END {
            if (NR == 0) exit 1
            printf "%6d %10.2f %10.2f %10.1f\n", NR, (off[int((NR + 1) / 2)] + off[int(NR / 2) + 1]) / 2, sum / NR, off[NR]
        }'
}

report() {
    local name=$1 compute=$compute
    ! grep -q '^work_frac' "$pollux/costs/$name.ini" || compute=${compute/gpu_frac/work_frac}
    rows equal "$data/$name-placements.csv" >"$out/$name.fitted.csv"
    rows node "$data/$name-placements.csv" >"$out/$name.node.csv"
    rows other "$data/$name-placements.csv" >"$out/$name.other.csv"
    "$dlcal" table "$out/$name.fitted.csv" --near --scenario "$pollux/$name.ini" \
        --fit "$compute, $network" --predict "$out/$name.other.csv" -o "$out/$name.ini" >"$out/$name.txt"
    # One node, and 50 Gb/s as the data sheet has it, of which the pair of nodes takes nothing away.
    mkdir -p "$out/catalogue"
    sed -e 's/^bytes_per_s = .*/bytes_per_s = 6.25e9, catalogue/' -e '/^pair_bytes_per_s/d' \
        -e "/^slice_ns/d" -e "s/^latency_ns = .*/latency_ns = 50000, assumed/" "$pollux/costs/$name.ini" >"$out/catalogue/costs.ini"
    sed -e "s#^costs .*#costs = costs.ini#" -e "s#^file .*#file = $PWD/scenarios/machines/t4_4x4_ethernet.ini#" \
        "$pollux/$name.ini" >"$out/catalogue/$name.ini"
    "$dlcal" table "$out/$name.node.csv" --near --scenario "$out/catalogue/$name.ini" \
        --fit "$compute" --predict "$out/$name.other.csv" -o "$out/$name.node.ini" >"$out/$name.node.txt"

    sed -n 's/^name  = /\n/p' "$pollux/$name.ini"
    awk '/^costs; error/, /^condition/' "$out/$name.txt" | sed -n '3,$p'
    grep -E '^(root mean square .*robust|leave-one-out)' "$out/$name.txt"
    awk '/^notes/ { inside = 1 } /^prediction of/ { inside = 0 } inside' "$out/$name.txt"
    printf 'rows that were not fitted                rows median [%%]   mean [%%]    max [%%]\n'
    local errors
    errors=$(predict "$name" "$out/$name.ini" scenarios/machines/t4_4x4_ethernet.ini "$out/$name.other.csv")
    printf '  dlsim                          %s\n' "$errors"
    awk '/^prediction of/ { inside = 1; next } inside && /^  [^ ]/ { sub(/  [0-9]+$/, ""); print }' "$out/$name.txt" |
        sed 's/^  simulator, costs as above   /  the same by dlcal           /'
    awk '/^  simulator, costs as above/ { sub(/  [0-9]+$/, ""); print }' "$out/$name.node.txt" |
        sed 's/^  simulator, costs as above   /  fit on a node, 50 Gb\/s       /'
    if [ -f "$data/$name-scalability.csv" ] && [ -z "${PLACEMENTS:-}" ]; then
        rows more "$data/$name-scalability.csv" >"$out/$name.more.csv"
        errors=$(predict "$name" "$out/$name.ini" "$out/t4_16x4.ini" "$out/$name.more.csv")
        printf '  dlsim, 6 to 16 nodes           %s\n' "$errors"
    fi
}

for name; do report "$name"; done >"$out/report.txt"
cat "$out/report.txt"
echo
echo "tables, costs and this text: $out"
