#!/usr/bin/env bash
# Predicts published multi-GPU measurements from --workload and --machine alone, without a fit to them
# (sets lambda, dlperf, nvidia: from the rate of one GPU too, --calibrate), and prints the prediction, its
# 95 % interval and the measurement of each row; then, for each set, the number of measurements in the
# interval, and the median of the intervals' upper over lower bounds.
#
# Usage: scripts/judge_intervals.sh [-q] [SET...]    needs bin/dlsim in build/release (or $DLSIM), and
# the data in $DL_DATA; skips sets without data with a message. -q: totals only. Sets: hkbu, horovod,
# ddp, pollux, foundry, internevo, ultrascale, lambda, dlperf, nvidia (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."
quiet=no wanted=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -q | --quiet) quiet=yes ;;
        hkbu | horovod | ddp | pollux | foundry | internevo | ultrascale | lambda | dlperf | nvidia) wanted+=" $1" ;;
        *) echo "judge_intervals.sh: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    esac
    shift
done
dlsim=${DLSIM:-build/release/bin/dlsim}
data=${DL_DATA:-./data}
[ -x "$dlsim" ] || { echo "judge_intervals.sh: no $dlsim; build it, or name it in DLSIM" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/rows"

# judge SET NAME OPTION...: predicts the measured rows "WORKERS BATCH SAMPLES_PER_S" (batch of all workers)
# of standard input.
judge() {
    local set=$1 name=$2
    shift 2
    awk 'BEGIN { print "workers,batch,sync,throughput_per_s" } { print $1 "," $2 ",allreduce," $3 }' >"$work/measured.csv"
    [ "$(wc -l <"$work/measured.csv")" -gt 1 ] || return 0
    if ! "$dlsim" -q --mode allreduce --measured "$work/measured.csv" -o "$work/out.csv" \
        --workers "$(awk -F, 'NR > 1 && !s[$1]++ { printf "%s%s", c++ ? "," : "", $1 }' "$work/measured.csv")" \
        --batch-per-worker "$(awk -F, 'NR > 1 && !s[$2 / $1]++ { printf "%s%s", c++ ? "," : "", $2 / $1 }' "$work/measured.csv")" \
        "$@" >"$work/log" 2>&1; then
        echo "$set $name: $(head -1 "$work/log")" >&2
        return 0
    fi
    awk -F, -v set="$set" -v name="$name" '
        /^#/ { next }
        !n { for (i = 1; i <= NF; i++) at[$i] = i; n = NF; next }
        $at["measured_per_s"] != "" {
            if ($at["throughput_per_s"] == "") {
                print set " " name ": " $at["error"] >"/dev/stderr"
                next
            }
            print set "\t" name "\t" $at["workers"] "\t" $at["batch"] "\t" $at["throughput_per_s"] "\t" \
                $at["throughput_low_per_s"] "\t" $at["throughput_high_per_s"] "\t" $at["measured_per_s"]
        }' "$work/out.csv" >>"$work/rows"
}

# has SET FILE: whether the set is selected and its data exist.
has() {
    case "$wanted " in " " | *" $1 "*) ;; *) return 1 ;; esac
    [ -e "$data/$2" ] && return 0
    echo "$1: skipped, there is no $data/$2"
    return 1
}

# ResNet-50 in PyTorch 1.4, nodes of four RTX 2080 Ti: exchange after the backward pass, and merged.
if has hkbu scaling/hkbu_resnet50.csv; then
    for net in "10GbE with TCP/IP/10gbe" "100GbE with TCP/IP/100gbe" "100GbIB with RDMA/100ib"; do
        for method in BSP-A2A/no MG-WFBP/yes; do
            awk -F, -v net="${net%/*}" -v method="${method%/*}" '$1 == net && $2 == method { print $3, 64 * $3, $4 }' \
                "$data/scaling/hkbu_resnet50.csv" |
                judge hkbu "resnet50 8x4xrtx2080ti@${net##*/} overlap=${method#*/}" --workload resnet50:layout=nchw \
                    --machine "8x4xrtx2080ti@${net##*/}" --arithmetic fp32 --set "exchange.overlap=${method#*/}"
        done
    done
fi

# TensorFlow 1 with Horovod.
if has horovod scaling/horovod_p100_16.csv; then
    for model in VGG16/vgg16 ResNet-101/resnet101; do
        awk -F, -v model="${model%/*}" '$1 == model { print 1, 64, $2; print 16, 1024, $3 }' \
            "$data/scaling/horovod_p100_16.csv" |
            judge horovod "${model#*/} 4x4xp100@25gbe" --workload "${model#*/}" --machine 4x4xp100@25gbe \
                --arithmetic fp32
    done
fi

# PyTorch 1.4, fp32.
if has ddp scaling/pytorch_ddp_v100_dgx1.csv; then
    for model in resnet50 resnet101; do
        awk -F, -v model=$model '$1 == model && $4 == 1 { print $3, 32 * $3, 32 * $3 / $5 }' \
            "$data/scaling/pytorch_ddp_v100_dgx1.csv" |
            judge ddp "$model dgx1_v100" --workload "$model:layout=nchw" --machine dgx1_v100 --arithmetic fp32
    done
fi

# AdaptDL on EC2 g4dn.12xlarge: a placement has a digit for each node, its number of GPUs. The programs
# (petuum/adaptdl, benchmark/models) train ResNet-50 in apex' mixed precision and BERT in fp32, in
# NVIDIA's container pytorch:20.10, which has NCCL 2.7.
if has pollux scaling/pollux/imagenet-placements.csv; then
    for model in imagenet/resnet50:layout=nchw/fp16 bert/bert_base:sequence=384/fp32; do
        arithmetic=${model##*/} model=${model%/*}
        file=$data/scaling/pollux/${model%%/*}-placements.csv
        for placement in $(awk -F, 'NR > 1 && !s[$1]++ { print $1 }' "$file"); do
            gpus=$(fold -w1 <<<"$placement" | awk '{ for (g = 0; g < $1; g++) printf "%s%d", c++ ? "," : "", 4 * (NR - 1) + g }')
            awk -F, -v placement="$placement" '$1 == placement {
                    for (i = n = 0; i < length($1); i++) n += substr($1, i + 1, 1)
                    print n, n * $2, n * $2 / $3
                }' "$file" |
                judge "pollux-${model%%/*}" "${model#*/} $placement" --workload "${model#*/}" \
                    --machine "t4_4x4_ethernet" --arithmetic "$arithmetic" --set exchange.nccl=2.7 --gpus "$gpus"
        done
    done
fi

# Prints a table's lines without comments; a quoted cell "A,B" becomes "A B".
plain() { sed -e '/^#/d' -e ':a;s/"\([^",]*\),\([^"]*\)"/"\1 \2"/;ta' "$1"; }

# MPT with FSDP, no recomputation, on A100 with attention by Triton. FSDP gathers for each micro-batch, so a step here is one micro-batch.
if has foundry llm/foundry_to16.csv; then
    while IFS=, read -r size sequence gpus gpu micro accumulate per_s; do
        case $size in # layers, width, heads: llm-foundry's scripts/train/yamls/pretrain
            125m) shape=12,768,12 ;; 350m) shape=24,1024,16 ;; 760m) shape=24,1536,12 ;; 1b) shape=24,2048,16 ;;
            3b) shape=32,2560,20 ;; 7b) shape=32,4096,32 ;; 13b) shape=40,5120,40 ;; *) continue ;;
        esac
        IFS=, read -r layers width heads <<<"$shape"
        attention=fused
        [ "${gpu#a100}" = "$gpu" ] || attention=triton
        echo "$gpus $((gpus * micro)) $per_s" |
            judge foundry "$size, $sequence words, $gpus $gpu, $accumulate x $micro" --machine \
                "$((gpus / 8))x8x$gpu@8x400ib" --set exchange.sharded=parameters \
                --workload "transformer:layers=$layers,width=$width,heads=$heads,sequence=$sequence,vocabulary=50368,positions=$sequence,bias=no,fused=yes,attention=$attention,loss=fused,metrics=2"
    done < <(plain "$data/llm/foundry_to16.csv" | awk -F, '
        $19 == "False" && $16 == "amp_bf16" { gpu = $5 ~ /h100/ ? "h100" : $5 ~ /80/ ? "a100_80gb" : "a100"
            printf "%s,%d,%d,%s,%d,%d,%.6g\n", $2, $3, $4, gpu, $9, $10, $13 / $3 }')
fi

# Llama of 7 B, ZeRO 1 over all or 8 GPUs.
if has internevo llm/internevo_8_32.csv; then
    plain "$data/llm/internevo_8_32.csv" | awk -F, '$2 == 1 && $3 == -1 && $5 == 0 { print $6, 8 * $6, $6 * $10 / 2048 }' |
        judge internevo "llama 7 B, 4 x 2" --machine 4x8xa100_80gb@4x100ib --set exchange.sharded=optimizer \
            --set sync.accumulate=4 --workload "llama:sequence=2048,vocabulary=103168,fused=yes"
fi

# Llama in nanotron, ZeRO 0 and 1.
if has ultrascale llm/ultrascale_1_2nodes.csv; then
    while IFS=, read -r params nodes micro accumulate dp zero per_s; do
        case $params in 1.34) shape=layers=16,width=2048,heads=32,kv_heads=32,tied=yes ;;
            3.57) shape=layers=28,width=3072,heads=24,kv_heads=24,tied=yes ;; *) continue ;; esac
        sharded=none
        [ "$zero" = 0 ] || sharded=optimizer
        echo "$dp $((dp * micro * accumulate)) $per_s" |
            judge ultrascale "llama $params B, ZeRO $zero, $nodes nodes, $accumulate x $micro" --machine \
                "${nodes}x8xh100@8x400ib" --set "exchange.sharded=$sharded" --set "sync.accumulate=$accumulate" \
                --workload "llama:$shape,feed_forward=8192,sequence=4096,vocabulary=131072,fused=yes"
    done < <(plain "$data/llm/ultrascale_1_2nodes.csv" | awk -F, '
        $1 == 1 && $7 == 1 && $8 == 1 { printf "%s,%d,%d,%d,%d,%d,%.6g\n", $2, $3, $4, $5, $6, $9, $12 / 4096 }')
fi

# More GPUs from the rate of one: PCIe and NVLink boxes, nodes on InfiniBand.
while IFS=, read -r source machine arithmetic batch rates gradients overlap network; do
    case "$wanted " in " " | *" ${source%%-*} "*) ;; *) continue ;; esac
    one=${rates%%;*} network=${network//\"/}
    tr ';:' '\n ' <<<"$rates" | awk -v batch="$batch" '$1 > 1 { print $1, batch * $1, $2 }' |
        judge "${source%%-*}" "${source#*-} $network $machine $arithmetic" --workload "$network" --machine "$machine" \
            --arithmetic "$arithmetic" --calibrate "${one#1:}samples/s@1x$batch" ${gradients:+--parameter-bytes "$gradients"} \
            ${overlap:+--set "exchange.overlap=$overlap"}
done < <(sed '/^#/d; /^source,/d' scenarios/scaling/boxes.csv)

[ "$quiet" = yes ] || awk -F'\t' '
    { inside = $8 >= $6 && $8 <= $7
      printf "%-12s %-46s %4d %6d %10.4g  %9.4g to %-9.4g %10.4g  %s %6.2f %+6.1f %%\n", $1, $2, $3, $4, $5, $6, $7, $8,
          inside ? "in " : "OUT", $7 / $6, 100 * ($5 / $8 - 1) }' "$work/rows"
echo
printf '%-16s %6s %8s %8s %14s %12s\n' set rows "inside %" "width" "mean error %" "bias %"
for set in $(cut -f1 "$work/rows" | awk '!s[$1]++') all; do
    awk -F'\t' -v set="$set" '(set == "all" || $1 == set) { print $7 / $6 "\t" ($8 >= $6 && $8 <= $7) "\t" log($5 / $8) }' "$work/rows" |
        sort -g | awk -F'\t' -v set="$set" '
            { width[NR] = $1; inside += $2; error += $3 < 0 ? -(exp($3) - 1) : exp($3) - 1; bias += $3 }
            END { if (NR > 0) printf "%-16s %6d %8.1f %8.2f %14.1f %+12.1f\n", set, NR, 100 * inside / NR,
                      (width[int((NR + 1) / 2)] + width[int(NR / 2) + 1]) / 2, 100 * error / NR, 100 * (exp(bias / NR) - 1) }'
done
