#!/usr/bin/env bash
# What one trace tells: every trace replayed; collectives taken out, modelled ones put in; all ranks
# of a run together; one GPU's trace predicted to 16 GPUs. Beside each figure the naive answers.
# Results: build/traces, above all report.txt; every number in it is read from a program's output or
# the measured table.
#
# Usage: scenarios/traces/report.sh    needs bin/dlcal and bin/dlsim in build/release (or $DLCAL,
# $DLSIM), and the traces in $DL_DATA/traces. $BUILD: folder for results
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1:-}" in
    '') ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "report.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
dlcal=${DLCAL:-build/release/bin/dlcal}
dlsim=${DLSIM:-build/release/bin/dlsim}
data=${DL_DATA:-./data}
kineto=$data/traces/kineto
out=${BUILD:-build/traces}
for program in "$dlcal" "$dlsim"; do
    [ -x "$program" ] || { echo "report.sh: no $program; build it, or name it in DLCAL, DLSIM" >&2; exit 2; }
done
[ -d "$kineto" ] || { echo "report.sh: no traces in $kineto: skipped"; exit 0; }
rm -rf "$out"
mkdir -p "$out"

section() { printf '\n\n%s\n%s\n\n' "$1" "$(printf '%s' "$1" | sed 's/./-/g')"; }

replay() {
    section "Replay: starts discarded, durations and dependencies kept"
    "$dlcal" replay --brief "$data"/traces/*/* 2>"$out/replay.err" || true
    sed 's#^dlcal replay: .*/#not replayed: #' "$out/replay.err"
    cat <<'EOF'

A step is timed on the device, from its first work to the next step's. mean, maximum: error of a step's
time. unexpl.: gaps before works that no dependency explains, as share of the streams' time. Replay
does not keep them: these works begin that much too early unless something else holds them back, as
the host mostly does.
EOF
}

strip() {
    section "Collectives taken out of one rank's trace, and put back as a model"
    "$dlcal" predict "$kineto"/resnet50_ddp_a100_rank0of2.json.gz "$kineto"/dlrm_a100_rank3of8.json.gz \
        "$kineto"/dlrm_v100_rank1of2.json.gz
    cat <<'EOF'

recorded: mean step on the device. replay: nothing changed. nothing: no collective put back, which is
"linear speedup". added: that and bytes over the fastest rate seen, nothing overlapped. modelled: the
transfer, and the peers' lateness of the trace's other steps.
EOF
    section "All 8 ranks of a step of DLRM together"
    "$dlcal" predict --together "$kineto"/dlrm_v100_all8ranks.tar.gz
    cat <<'EOF'

Each collective ends its modelled time after the last rank comes; its own recorded start and time are
not used, its model is a line through the others of its kind.
EOF
}

# ratios RESULTS KEY=VALUE: "workers ratio" of the rows with that value: step over one worker's.
ratios() {
    awk -F, -v key="${2%%=*}" -v want="${2#*=}" '
        /^#/ { next }
        { gsub(/"[^"]*"/, "") }
        !named { for (i = 1; i <= NF; i++) at[$i] = i; named = 1; next }
        $at[key] == want {
            step[$at["workers"]] = $at["step_mean_s"]
        }
        END { for (n in step) printf "%d %.6f\n", n, step[n] / step[1] }' "$1" | sort -n
}

scale() {
    section "ResNet-50 with DistributedDataParallel on V100: from one GPU's trace to 16 GPUs"
    local trace=$kineto/resnet50_ddp_v100_rank0of1.json.gz
    local published=$data/scaling/pytorch_ddp_v100_dgx1.csv
    "$dlcal" costs "$trace" --batch 32 --workload "ResNet-50" \
        --overlap-trace "$kineto"/dlrm_v100_rank1of2.json.gz --output "$out/resnet50_ddp_v100.ini"
    sed -e "s#^costs .*#costs = $(realpath "$out")/resnet50_ddp_v100.ini#" \
        -e "s#^file .*#file = $PWD/scenarios/machines/dgx1_v100.ini#" \
        scenarios/traces/ddp_v100.ini >"$out/ddp_v100.ini"
    "$dlsim" --quiet "$out/ddp_v100.ini" -o "$out/ddp_v100.csv" >/dev/null
    "$dlsim" --quiet "$out/ddp_v100.ini" -o "$out/ddp_v100_alone.csv" --without overlap >/dev/null
    ratios "$out/ddp_v100.csv" overlap=yes >"$out/predicted"
    ratios "$out/ddp_v100_alone.csv" overlap=yes >"$out/overlapped"
    ratios "$out/ddp_v100_alone.csv" overlap=no >"$out/added"
    printf '\n%s\n%5s %10s %10s %10s %12s %10s %10s\n' "step over that of one GPU, in %; error in points" \
        GPUs published predicted error "no slowdown" added linear
    awk -F'[ ,]' '
        FILENAME ~ /csv$/ { if ($1 == "resnet50" && $4 == 1) { published[$3] = $5 }; next }
        { value[FILENAME, $1] = $2; file[FILENAME] = 1 }
        END {
            n = split("2 4 8 16", workers, " ")
            for (i = 1; i <= n; i++) {
                w = workers[i]
                truth = 100 * (published[w] / published[1] - 1)
                e = 100 * (value[P, w] - 1) - truth
                sum += e < 0 ? -e : e
                if ((e < 0 ? -e : e) > top) top = e < 0 ? -e : e
                printf "%5d %+10.1f %+10.1f %+10.1f %+12.1f %+10.1f %+10.1f\n", w, truth,
                    100 * (value[P, w] - 1), e, 100 * (value[O, w] - 1), 100 * (value[A, w] - 1), 0
            }
            printf "predicted: mean error %.1f points, largest %.1f\n", sum / n, top
        }' P="$out/predicted" O="$out/overlapped" A="$out/added" \
        "$published" "$out/predicted" "$out/overlapped" "$out/added"
    cat <<'EOF'

predicted: the trace's compute and buckets, all-reduced on the machine file's links while the backward
pass runs, which that slows by what the trace of another workload (DLRM) on the same sort of GPU shows.
added: not overlapped, compute + bytes/bandwidth. The published times have three digits: a step in 100.
Published: another version of PyTorch on another host; ratios are compared.
EOF
}

report() {
    echo "What one trace tells, by $("$dlcal" --version)"
    replay
    strip
    scale
}
report | tee "$out/report.txt"
