#!/usr/bin/env bash
# Fits costs to Pollux' measured steps on T4 GPUs (Qiao et al. 2021, OSDI) on one node and on equal
# nodes, by `dlcal table`; predicts all other placements by `dlsim`, beside simpler models that are
# fitted to the same rows; then nodes that no cost was fitted to. Results: build/pollux, above all
# report.txt. Takes some minutes. The tables lie in $DL_DATA/scaling/pollux (default ./data);
# without them it says so and does nothing.
#
# Usage: scenarios/pollux/report.sh [--joint] [NAME...]
# needs bin/dlcal and bin/dlsim in build/release (or $DLCAL, $DLSIM); NAME: imagenet, bert, cifar10, or yolov3,
# too. --joint: one fit to all of them, in which the network's costs are the same
# $BUILD: folder for results; $PLACEMENTS: a regular expression of placements, to take only some;
# $BATCHES: one of batches of a GPU; $MOST: fit the rows of at most that many GPUs, and predict the others;
# $REPLICATES: runs of each row (16), to count the rows inside of their 95 % intervals; takes as many times as long
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    -h | --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
joint=
[ "${1:-}" != --joint ] || { joint=yes; shift; }
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

network="network.pair_bytes_per_s, network.slice_ns"

# rows WANT TABLE: see rows.awk; only $PLACEMENTS and $BATCHES.
rows() {
    awk -v want="$1" -v batches="${BATCHES:-}" -v most="${MOST:-0}" -f "$pollux/rows.awk" "$2" |
        awk -F, -v only="${PLACEMENTS:-.}" 'NR == 1 || $1 ~ only'
}

# compute NAME: the costs of a model itself.
compute() {
    local spread=gpu_frac
    ! grep -q '^work_frac' "$pollux/costs/$1.ini" || spread=work_frac
    echo "[op network.backward] fixed_ns, [op network.backward] per_sample_ns, spread.$spread"
}

# absolute FILE: from the root of a path that may be.
absolute() { case "$1" in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# predict NAME COSTS MACHINE ROWS: dlsim over the rows' placements, as many at a time as a line of a
# scenario holds; prints "rows median mean max" of |predicted step / measured step - 1| in %. What is
# between these bars, and the placement, of each row: ROWS without .csv, and .errors.
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
        "$dlsim" --quiet "$stem.ini" ${REPLICATES:+--replicates "$REPLICATES" --steps 20} -o "$stem.csv" >"$stem.txt"
        files+=("$stem.csv")
    done <"${all}_placements"
    awk -F, '
        /^#/ { next }
        /^cores,/ || /^workers,/ || /,workers,/ { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["measured_per_s"] != "" {
            print 100 * ($at["measured_per_s"] / $at["throughput_per_s"] - 1), $at["placement"]
            if (!($at["throughput_high_per_s"] > $at["throughput_low_per_s"])) next
            low = log($at["throughput_low_per_s"]); high = log($at["throughput_high_per_s"])
            print 2 * 1.96 * (log($at["measured_per_s"]) - (low + high) / 2) / (high - low) >within
        }' within="$all.within" "${files[@]}" >"$all.errors"
    awk '{ print $1 < 0 ? -$1 : $1 }' "$all.errors" | sort -g | awk '
        { off[NR] = $1; sum += $1 }
        END {
            if (NR == 0) exit 1
            printf "%6d %10.2f %10.2f %10.1f\n", NR, (off[int((NR + 1) / 2)] + off[int(NR / 2) + 1]) / 2, sum / NR, off[NR]
        }'
}

# intervals ROWS: how many rows are inside of their 95 % intervals, and the Kolmogorov-Smirnov distance of where they are,
# in standard deviations, from a normal distribution (its probabilities: Abramowitz and Stegun, 26.2.17).
intervals() {
    [ -n "${REPLICATES:-}" ] || return 0
    sort -g "${1%.csv}.within" | awk '
        function below(z,    t, p) {
            if (z < 0) return 1 - below(-z)
            t = 1 / (1 + 0.2316419 * z)
            p = t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
            p = t * (0.319381530 + t * (-0.356563782 + p))
            return 1 - exp(-z * z / 2) / sqrt(2 * atan2(0, -1)) * p
        }
        { place[NR] = below($1); inside += $1 * $1 <= 1.96 * 1.96 }
        END {
            for (i = 1; i <= NR; i++) {
                if (i / NR - place[i] > most) most = i / NR - place[i]
                if (place[i] - (i - 1) / NR > most) most = place[i] - (i - 1) / NR
            }
            if (NR == 0) exit
            printf "    inside of 95 %% intervals: %.0f %%; Kolmogorov-Smirnov distance %.0f %%\n", 100 * inside / NR,
                100 * most
        }'
}

# signs ROWS: mean signed error of the rows that predict left there, by nodes and by the most GPUs of a node.
signs() {
    awk '
        $2 != "" {
            most = 0
            for (k = 1; k <= length($2); k++) if (substr($2, k, 1) > most) most = substr($2, k, 1)
            nodes = length($2)
            sum[nodes, most] += $1; count[nodes, most]++
            is_nodes[nodes] = is_most[most] = 1
        }
        function cell(nodes, most) {
            if (count[nodes, most] == 0) return sprintf("%8s", "-")
            return sprintf("%+8.1f", sum[nodes, most] / count[nodes, most])
        }
        END {
            printf "    signed, by nodes    GPUs a node:"
            for (m = 1; m <= 4; m++) if (m in is_most) printf "%8d", m
            print ""
            for (n = 1; n <= 16; n++) {
                if (!(n in is_nodes)) continue
                printf "    %28d    ", n
                for (m = 1; m <= 4; m++) if (m in is_most) printf "%s", cell(n, m)
                print ""
            }
        }' "${1%.csv}.errors"
}

# prediction TEXT ROWS: what dlcal printed of them, beside simpler models.
prediction() {
    awk -v of="prediction of $2;" '
        /^prediction of/ { inside = index($0, of) == 1; next }
        inside && /^  [^ ]/ { sub(/  [0-9]+$/, ""); print }' "$1"
}

# fit_node NAME: one node, and 50 Gb/s as the data sheet has it, of which the pair of nodes takes nothing away.
fit_node() {
    mkdir -p "$out/catalogue"
    sed -e 's/^bytes_per_s = .*/bytes_per_s = 6.25e9, catalogue/' -e '/^pair_bytes_per_s/d' \
        -e "/^slice_ns/d" -e "s/^latency_ns = .*/latency_ns = 50000, assumed/" "$pollux/costs/$1.ini" >"$out/catalogue/costs.ini"
    sed -e "s#^costs .*#costs = costs.ini#" -e "s#^file .*#file = $PWD/scenarios/machines/t4_4x4_ethernet.ini#" \
        "$pollux/$1.ini" >"$out/catalogue/$1.ini"
    "$dlcal" table "$out/$1.node.csv" --near --scenario "$out/catalogue/$1.ini" \
        --fit "$(compute "$1")" --predict "$out/$1.other.csv" -o "$out/$1.node.ini" >"$out/$1.node.txt"
}

# report_fit TEXT: costs, how well they fit, and the notes.
report_fit() {
    awk '/^(shared )?costs; error/, /^condition/' "$1" | sed -n '3,$p'
    grep -E '^(all rows: )?(root mean square .*(robust|leave)|leave-one-out)' "$1"
    awk '/^notes/ { inside = 1 } /^prediction of/ { inside = 0 } inside' "$1"
}

report() {
    local name=$1 text=$2 errors
    fit_node "$name"
    sed -n 's/^name  = /\n/p' "$pollux/$name.ini"
    [ -n "$joint" ] || report_fit "$text"
    printf 'rows that were not fitted                rows median [%%]   mean [%%]    max [%%]\n'
    errors=$(predict "$name" "$out/$name.ini" scenarios/machines/t4_4x4_ethernet.ini "$out/$name.other.csv")
    printf '  dlsim                          %s\n' "$errors"
    prediction "$text" "$out/$name.other.csv" |
        sed 's/^  simulator, costs as above   /  the same by dlcal           /'
    awk '/^  simulator, costs as above/ { sub(/  [0-9]+$/, ""); print }' "$out/$name.node.txt" |
        sed 's/^  simulator, costs as above   /  fit on a node, 50 Gb\/s       /'
    intervals "$out/$name.other.csv"
    signs "$out/$name.other.csv"
    if [ -f "$data/$name-scalability.csv" ] && [ -z "${PLACEMENTS:-}" ]; then
        rows more "$data/$name-scalability.csv" >"$out/$name.more.csv"
        errors=$(predict "$name" "$out/$name.ini" "$out/t4_16x4.ini" "$out/$name.more.csv")
        printf '  dlsim, 6 to 16 nodes           %s\n' "$errors"
        intervals "$out/$name.more.csv"
        signs "$out/$name.more.csv"
    fi
}

pairs=()
for name; do
    rows equal "$data/$name-placements.csv" >"$out/$name.fitted.csv"
    rows node "$data/$name-placements.csv" >"$out/$name.node.csv"
    rows other "$data/$name-placements.csv" >"$out/$name.other.csv"
    pair=("$out/$name.fitted.csv" --scenario "$pollux/$name.ini" --predict "$out/$name.other.csv" -o "$out/$name.ini")
    if [ -n "$joint" ]; then
        pairs+=("${pair[@]}" --fit "$(compute "$name")")
    else
        "$dlcal" table "${pair[@]}" --near --fit "$(compute "$name"), $network" >"$out/$name.txt"
    fi
done
[ -z "$joint" ] || "$dlcal" table "${pairs[@]}" --near --share "$network" >"$out/joint.txt"
{
    [ -z "$joint" ] || report_fit "$out/joint.txt"
    for name; do if [ -n "$joint" ]; then report "$name" "$out/joint.txt"; else report "$name" "$out/$name.txt"; fi; done
} >"$out/report.txt"
cat "$out/report.txt"
echo
echo "tables, costs and this text: $out"
