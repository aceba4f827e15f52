#!/usr/bin/env bash
# Compares predictions from data sheets alone (dlsim --workload) with published rates of transformers
# that split the batch only and recompute nothing: a row with error and 95 % interval for each, then
# a line for each set.
#
# Usage: scripts/judge_transformers.sh [--csv FILE] [--set NAME]
#   --csv FILE   the rows as CSV too
#   --set NAME   only nanotron, internevo, foundry or vtrain
# $DL_DATA: folder with llm/*.csv (default ./data); $DLSIM: program in place of build/release/bin/dlsim
# Exit code: 0 done; 1 a row could not be simulated; 2 bad usage, or no data
#
# What the tables do not say is assumed here: norms, rotation and gates in one kernel each
# (fused=yes), no dropout, attention fused but in Megatron; all-reduces and sharding as the program's
# name says. Rows that do not fit by the estimate of memory are said to, and predicted on GPUs with
# eight times as much.
set -euo pipefail
csv="" only=""
while [ $# -gt 0 ]; do
    case "$1" in
        --csv) csv=${2:?--csv needs a file}; shift 2 ;;
        --set) only=${2:?--set needs a name}; shift 2 ;;
        -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "judge_transformers.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
done
data=${DL_DATA:-./data}/llm
[ -d "$data" ] || { echo "judge_transformers.sh: no $data; DL_DATA names the folder of llm/" >&2; exit 2; }
DLSIM=${DLSIM:-$(cd "$(dirname "$0")/.." && pwd)/build/release/bin/dlsim}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# column NAME: $NAME of a table with a header.
read -r -d '' columns <<'AWK' || true
/^#/ { next }
!headed { for (i = 1; i <= NF; i++) at[$i] = i; headed = 1; next }
function c(name) {
    if (!(name in at)) { print FILENAME ": no column " name >"/dev/stderr"; exit 1 }
    return $at[name]
}
# A row: measured tokens a second of a GPU; the rest are dlsim's arguments.
function row(set, name, measured, tokens, gpus, batch, network, machine, arithmetic, sharded, accumulate) {
    printf "%s\t%s\t%s\t%s\t%d\t--workload %s --machine %s --workers %d --batch-per-worker %d --arithmetic %s" \
        " --set exchange.sharded=%s --set sync.accumulate=%d --set scenario.steps=6\n",
        set, name, measured, tokens, gpus, network, machine, gpus, batch, arithmetic, sharded, accumulate
}
AWK

# nanotron: models by the head of the table; Adam's state in parts in ZeRO stage 1; EC2's p5.
nanotron() {
    awk -F, "$columns"'
        c("ok") == 1 && c("tp") == 1 && c("pp") == 1 {
            size = c("params_B")
            shape = size == 1.34 ? "layers=16,width=2048,heads=32,feed_forward=8192,tied=yes" : \
                    size == 3.57 ? "layers=28,width=3072,heads=24,feed_forward=8192,tied=yes" : \
                    "layers=32,width=4096,heads=32,feed_forward=14336"
            row("nanotron", size "B mbs " c("mbs") " x " c("grad_accum") " zero " c("zero"),
                c("tok_per_s_per_gpu"), 4096, c("dp"), c("mbs") * c("grad_accum"),
                "llama:" shape ",sequence=4096,vocabulary=131072,fused=yes",
                c("nodes") > 1 ? c("nodes") "xp5.48xlarge" : "p5.48xlarge", "bf16",
                c("zero") == 1 ? "optimizer" : "none", c("grad_accum"))
        }' "$data"/ultrascale*.csv
}

# InternLM of 7 billion parameters; four ports of 100 Gb/s a node.
internevo() {
    awk -F, "$columns"'
        c("tp") == 1 && c("checkpoint") == 0 {
            row("internevo", "7B packed " c("packed") " zero1 " c("zero1"), c("tok_per_s_per_gpu"), c("sequence"),
                c("gpus"), c("micro_batch") * c("micro_batches"),
                "llama:sequence=" c("sequence") ",vocabulary=103168,fused=yes", "8xa100_80gb@4x100ib",
                "bf16", "optimizer", c("micro_batches"))
        }' "$data"/internevo*.csv
}

# MPT by llm-foundry: learned positions, no biases; FSDP.
foundry() {
    awk -F, "$columns"'
        BEGIN {
            split("125m 768 12 12,350m 1024 16 24,760m 1536 12 24,1b 2048 16 24,3b 2560 20 32,7b 4096 32 32," \
                  "13b 5120 40 40,30b 7168 56 48", all, ",")
            for (i in all) { split(all[i], one, " "); shapes[one[1]] = "width=" one[2] ",heads=" one[3] ",layers=" one[4] }
        }
        c("Activation Checkpointing") == "False" && c("Sharding Strategy") == "FULL_SHARD" {
            tokens = c("SeqLen (T)")
            gpu = c("GPU")
            gpus = c("# GPUs")
            row("foundry", c("Model") " " tokens " " gpu " " c("Precision") " " c("MicroBatchSize") " x " c("GradAccum"),
                c("Throughput (T/s/GPU)"), tokens, gpus, c("MicroBatchSize") * c("GradAccum"),
                "transformer:" shapes[c("Model")] ",sequence=" tokens ",positions=" tokens \
                ",vocabulary=50368,bias=no,fused=yes", "8x" (gpu == "a100_40gb" ? "a100" : gpu) \
                (gpu ~ /^h100/ ? "@8x400ib" : "@8x200ib"), c("Precision") ~ /fp8/ ? "fp8" : "bf16",
                "parameters", c("GradAccum"))
        }' "$data"/foundry*.csv
}

# Megatron-LM on one node.
vtrain() {
    awk -F, "$columns"'
        c("tensor parallelism") == 1 && c("pipeline parallelism") == 1 {
            gpus = c("data parallelism")
            batch = c("global batch") / gpus
            tokens = c("sequence length")
            row("vtrain", c("# layers") " x " c("hidden size") " mbs " c("micro batch") " x " batch / c("micro batch"),
                tokens * batch * 1000 / c("iteration time (ms)"), tokens, gpus, batch,
                "gpt2:layers=" c("# layers") ",width=" c("hidden size") ",heads=" c("attention heads") \
                ",sequence=" tokens ",positions=" tokens ",vocabulary=51200,fused=yes,attention=plain", "8xa100_80gb", "fp16",
                "none", batch / c("micro batch"))
        }' "$data"/vtrain*.csv
}

# Machines whose GPUs hold all.
mkdir -p "$folder/share/scenarios"
cp -r "$(dirname "$0")/../scenarios/machines" "$folder/share/scenarios"
awk -F, -v OFS=, '
    /^#/ { print; next }
    !memory { for (i = 1; i <= NF; i++) if ($i == "memory") memory = i; print; next }
    { number = $memory; sub(/[A-Z].*/, "", number); unit = $memory; sub(/^[0-9.]*/, "", unit)
      $memory = 8 * number unit; print }' "$(dirname "$0")/../scenarios/machines/gpus.csv" \
    >"$folder/share/scenarios/machines/gpus.csv"

# The results' cells of throughput and its interval; "-": it does not fit.
predict() {
    # shellcheck disable=SC2086 # the row's arguments
    if ! "$DLSIM" -q --mode allreduce $1 -o "$folder/row.csv" >"$folder/log" 2>&1; then
        grep -q "does not fit" "$folder/log" || { cat "$folder/log" >&2; return 1; }
        echo "- - -"
        return
    fi
    awk -F, '/^#/ { next }
        !n { for (i = 1; i <= NF; i++) at[$i] = i; n = 1; next }
        { print ($at["throughput_per_s"] == "" ? "- - -" : $at["throughput_per_s"] " " \
                 $at["throughput_low_per_s"] " " $at["throughput_high_per_s"]) }' "$folder/row.csv"
}

for set in nanotron internevo foundry vtrain; do
    [ -z "$only" ] || [ "$only" = "$set" ] || continue
    "$set"
done >"$folder/rows"
[ -s "$folder/rows" ] || { echo "judge_transformers.sh: no rows of '$only' in $data" >&2; exit 2; }
while IFS=$'\t' read -r set name measured tokens gpus arguments; do
    predicted=$(predict "$arguments") fits=1
    if [ "$predicted" = "- - -" ]; then
        fits=0
        predicted=$(DLSCALE_SHARE=$folder/share predict "$arguments")
    fi
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$set" "$name" "$measured" "$tokens" "$gpus" "$predicted" "$fits"
done <"$folder/rows" >"$folder/predicted"
awk -F'\t' -v csv="$csv" '
    BEGIN {
        head = "%-10s %-42s %5s %10s %10s %21s %7s %s\n"
        printf head, "set", "row", "GPUs", "measured", "predicted", "95 % interval", "error %", ""
        if (csv != "") print "set,row,gpus,measured_tokens_per_s_gpu,predicted,low,high,fits" >csv
    }
    {
        split($6, p, " ")
        if (!($1 in order)) { order[$1] = ++sets; names[sets] = $1 }
        for (i = 1; i <= 3; i++) p[i] *= $4 / $5
        error = p[1] / $3 - 1
        holds = p[2] <= $3 && $3 <= p[3]
        printf head, $1, $2, $5, sprintf("%.0f", $3), sprintf("%.0f", p[1]), \
            sprintf("%.0f to %.0f", p[2], p[3]), sprintf("%+.1f", 100 * error), (holds ? "inside" : "outside") ($7 ? "" : ", does not fit")
        if (csv != "") printf "%s,%s,%d,%.2f,%.2f,%.2f,%.2f,%d\n", $1, $2, $5, $3, p[1], p[2], p[3], $7 >csv
        ran[$1]++; fit[$1] += $7; inside[$1] += holds; sum[$1] += error < 0 ? -error : error; bias[$1] += error
        width[$1, ran[$1]] = p[3] / p[2]
    }
    function median(set, n,    i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && width[set, j] < width[set, j - 1]; j--) {
                t = width[set, j]; width[set, j] = width[set, j - 1]; width[set, j - 1] = t
            }
        return width[set, int((n + 1) / 2)]
    }
    END {
        for (s = 1; s <= sets; s++) {
            set = names[s]; n = ran[set]
            printf "%s: %d rows, %d do not fit; error mean %.1f %%, bias %+.1f %%; %d inside, median width %.2f\n", \
                set, n, n - fit[set], 100 * sum[set] / n, 100 * bias[set] / n, inside[set], median(set, n)
        }
    }' "$folder/predicted"
