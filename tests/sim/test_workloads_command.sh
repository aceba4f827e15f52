#!/usr/bin/env bash
# Tests --workload: networks without a cost file. Usage: test_workloads_command.sh DLSIM
set -u
tested=$(realpath "$1")
scenarios=$(cd "$(dirname "$0")/../../scenarios" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
rate() { awk -F, '/^[^#]/ && !n { for (i = 1; i <= NF; i++) if ($i == "throughput_per_s") n = i; next }
                  n { print $n }' "$1" | tail -n 1; }

run=(--workload resnet50 --arithmetic fp32 --machine dgx_a100 --batch-per-worker 64 --mode allreduce --steps 20)
expect 0 "6 points" "${run[@]}" -o all.csv
expect 0 "times of resnet50, fp32, momentum are estimated from 0.5" "${run[@]}" \
    --check
# The throughput's interval is written even with one replicate.
awk -F, '/^[^#]/ && !n { for (i = 1; i <= NF; i++) { if ($i == "throughput_low_per_s") low = i
         if ($i == "throughput_per_s") n = i }; next }
         n && !($low > 0.6 * $n && $low < 0.75 * $n) { bad = 1 } END { exit !n || bad }' all.csv ||
    fail "no interval of 2 standard deviations: $(head -n 20 all.csv)"

# 50260 columns are a multiple of 16 bytes in 32 bits, not in 16.
odd=(--workload gpt2:vocabulary=50260 --machine 8xa100 --batch-per-worker 8 --workers 1 --mode none --steps 5 --notes)
expect 0 "products with 50260" "${odd[@]}" --arithmetic fp16
[[ $("$tested" "${odd[@]}" --arithmetic fp32) != *"products with"* ]] || fail "50260 columns of 4 bytes are slow"

# --fits reports memory by kind without simulating, and suggests settings that fit. It exits with 3 if no point fits.
expect 0 "unknown whether it fits: " --samples-per-s 334 --parameters 25.6M --machine dgx1_v100 \
    --batch-per-worker 32 --workers 8 --fits
[[ $("$tested" --samples-per-s 334 --parameters 25.6M --machine dgx1_v100 --batch-per-worker 32 --fits) != *65536* ]] ||
    fail "a largest micro-batch, though activations are unknown"
fits=(--workload llama3_8b:fused=yes --machine 1xdgx_h100 --mode none --batch 64 --micro-batch 2 --fits)
expect 0 "85.5 GB   no " "${fits[@]}" --layout 'fsdp=8|tp=8'
expect 3 "fits: --micro-batch 1" "${fits[@]}" --layout fsdp=8
expect 3 "in the loss of micro-batch 1" "${fits[@]}" --layout fsdp=8
expect 0 "85.5 GB  yes " "${fits[@]}" --layout 'fsdp=8|tp=8'
# Recomputation is suggested for one GPU, data parallelism and layouts, first alone, then with a smaller batch; a
# run with it needs the memory stated.
xl=(--workload gpt2_xl --machine 1xa100)
for mode in none allreduce fsdp; do
    expect 3 "fits: --batch-per-worker 5, --recompute full (31.2 GB)" "${xl[@]}" --mode $mode --batch-per-worker 8 --fits
done
expect 0 "  yes " "${xl[@]}" --mode none --batch-per-worker 1,8 --fits
# Options that --fits would ignore are refused.
expect 2 "--json cannot be combined with --fits" "${xl[@]}" --mode none --batch-per-worker 8 --fits --json -
expect 0 "batch 8 31.2 GB " "${xl[@]}" --batch-per-worker 8 --recompute full --fits
# Points of several modes are told apart.
expect 3 "batch 8, zero1: parameters " "${xl[@]}" --mode ddp,zero1 --batch-per-worker 8 --fits
expect 3 "fits: --micro-batch 1, --recompute full (53.6 GB)" "${fits[@]}" --layout fsdp=8
one=(--workload llama:layers=12,width=2048,heads=32,kv_heads=8,feed_forward=8192,vocabulary=128256,sequence=2048
    --machine 1xrtx4090)
expect 3 "fits: --batch-per-worker 1, --workload NAME:loss=fused" "${one[@]}" --batch-per-worker 2 --fits
expect 3 "fits: --batch-per-worker 1" "${one[@]}" --batch-per-worker 2 --recompute full --fits
# The baseline is the fastest of the compared layouts, bubble included: eight micro-batches without recomputation
# (1.49 s), not two with it (2.04 s), which compute for a shorter time.
expect 0 "Speedup is over one worker of pp=2 (recompute none)" --workload gpt2_xl --machine 2xrtx4090 --layout pp=2 \
    --batch 16 --micro-batch 2,8 --recompute none,full --steps 2 -o waits.csv
# Adam's two states of 8 bits and their scales take 2.03 bytes a parameter in place of 8.
expect 3 "parameters 4.02 GB, optimizer 2.04 GB" --workload llama3_8b --machine 8xrtx4090 --mode fsdp --workers 8 \
    --batch-per-worker 1 --set workload.optimizer=adamw_8bit --fits
expect 3 "parameters 4.02 GB, optimizer 8.03 GB" --workload llama3_8b --machine 8xrtx4090 --mode fsdp --workers 8 \
    --batch-per-worker 1 --set workload.optimizer=adamw --fits
# A fused loss, and then 4-bit frozen weights, are suggested if recomputation does not suffice; if nothing fits, --fits
# says so.
frozen=(--machine 1xrtx4090 --batch-per-worker 3 --fits --workload)
expect 3 "fits: --workload NAME:loss=fused --recompute full (24.4" --workload llama3_8b --machine 8xrtx4090 \
    --mode fsdp --batch-per-worker 1 --workers 8 --fits
expect 3 "fits: --recompute full with --batch-per-worker 1" "${frozen[@]}" llama3_8b:lora=16,sequence=2048 \
    --batch-per-worker 4
expect 3 "fits: --workload NAME:frozen_bits=4 --recompute full" "${frozen[@]}" \
    llama3_8b:lora=16,sequence=2048,loss=fused --batch-per-worker 5
expect 0 "batch 3 21.6 GB " "${frozen[@]}" llama3_8b:lora=16,sequence=2048,frozen_bits=4 --recompute full
expect 3 "no smaller batch and no recomputation fits: take 8 GPUs" "${frozen[@]}" llama3_8b:sequence=256
expect 3 "(--layout fsdp=8 --recompute full, a sample each: 19.3 GB)" "${frozen[@]}" llama3_8b:sequence=256
expect 0 "  yes " --machine 8xrtx4090 --workload llama3_8b:sequence=256 --layout fsdp=8 --recompute full \
    --batch 8 --micro-batch 1 --fits
# A layout of eight GPUs leaves room for one worker of the eight.
whole_box=(--workload llama3_8b:sequence=2048 --machine 8xrtx4090 --batch-per-worker 8 --fits)
expect 3 "what fits: --recompute full with --layout fsdp=8 --workers" "${whole_box[@]}" --workers 8
expect 0 "without cache " "${whole_box[@]}" --recompute full --layout fsdp=8 --workers 1
# More GPUs keep the layout's other axes, or are workers if these share parameters. Beyond 256 shards only stages help.
expect 3 "(--layout tp=2,fsdp=4 --recompute full, a sample each: 24.0 GB)" --workload llama3_8b --machine 2xrtx4090 \
    --layout tp=2 --batch 8 --fits
expect 0 " without cache " --workload llama3_8b --machine 8xrtx4090 --layout tp=2,fsdp=4 --recompute full --batch 4 \
    --micro-batch 1 --fits
expect 3 "take 32 GPUs (--workers 32" --workload llama3_70b --machine 8xh100 \
    --mode fsdp --workers 8 --batch 8 --fits
expect 0 " 1 " --workload llama3_70b --machine 4x8xh100@400ib --mode fsdp --workers 32 --recompute full --batch 32 --fits
expect 3 "GPUs, or more with stages (--layout pp=COUNT)" --workload llama3_70b --machine 1xrtx3090 \
    --batch 1 --fits
# ZeRO 2 of workers of several GPUs has one micro-batch. A total batch is shared by the workers that are left.
expect 3 "what fits: --recompute full (45.5 GB)" --workload llama3_8b --machine 8xh100 --layout tp=2 --mode zero2 \
    --batch 8 --fits
expect 3 "what fits: --layout fsdp=4 --workers 2 (66.8 GB)" --workload llama3_8b:sequence=2048 --machine 8xh100 \
    --batch 16 --workers 4 --fits
expect 0 " 66.8 GB " --workload llama3_8b:sequence=2048 --machine 8xh100 --batch 16 --layout fsdp=4 --workers 2 --fits
# Pipeline stages are tried last, 1F1B replaces GPipe, and recomputation also serves mixed GPU models. A recomputation
# that saves no memory is not suggested; a note names it.
expect 3 "  pipeline stages fit: shorten the samples (NAME:sequence=COUNT), divide the" --workload llama3_70b \
    --machine 8xh100 --layout fsdp=8 --batch 8 --fits
deep=(--workload llama3_70b:fused=yes --machine 4x8xh100@400gbe --fits)
expect 3 "fits: --layout pp=32 --workers 1 --micro-batch 1 (77.1" "${deep[@]}" --batch-per-worker 4 --workers 8
expect 0 " 77.1 GB " "${deep[@]}" --batch 4 --layout pp=32 --micro-batch 1
staged=(--workload llama3_405b --machine 1024x8xh100@400gbe --layout tp=8,pp=16 --batch 16384 --micro-batch 1 --fits)
expect 3 "fits: --recompute full (66.4 GB)" "${staged[@]}"
expect 3 "fits: --recompute full with --set" "${staged[@]}" --set pipeline.schedule=gpipe
mixed=(--workload llama3_8b:fused=yes --machine 4xh100+4xa100 --workers 8 --batch-per-worker 1 --fits)
expect 3 "fits: --recompute full with exchange.sharded=parameters" "${mixed[@]}"
expect 0 "8 32.6 GB " "${mixed[@]}" --recompute full --set exchange.sharded=parameters
vain=(--workload llama3_8b --machine 8xh100 --layout fsdp=8 --batch 8 --fits --recompute)
expect 3 "note: --recompute selective computes attention again and saves no memory" "${vain[@]}" none,selective
expect 3 "needs" "${vain[@]}" none
[[ $("$tested" "${vain[@]}" none) != *selective* ]] || fail "selective without plain attention"

# fp16 on tensor cores is more than twice as fast as fp32.
expect 0 "1 point in" "${run[@]}" --workers 1 -o fp32.csv
expect 0 "1 point in" "${run[@]}" --workers 1 -o fp16.csv --set workload.arithmetic=fp16
awk -v a="$(rate fp32.csv)" -v b="$(rate fp16.csv)" 'BEGIN { exit !(b > 2 * a) }' ||
    fail "fp16: $(rate fp16.csv), fp32: $(rate fp32.csv)"

# MFU of GPT-2, by hand: a token's forward pass has 2 * 12 * 768^2 flop in each of 12 blocks, 2 * 768 * 50257 in
# the head and 2 * 1024 * 768 in each causal attention (half of the scores); the backward pass has twice as many;
# an H100's peak is 989e12 flop/s in bf16. Image networks have no tokens, hence no MFU.
column() { awk -F, -v name="$2" '/^[^#]/ && !n { for (i = 1; i <= NF; i++) if ($i == name) n = i; next } n { print $n }' "$1"; }
expect 0 "MFU %" --workload gpt2 --machine dgx_h100 --workers 1,8 --batch-per-worker 16 --steps 5 -o mfu.csv
column mfu.csv mfu_frac | paste - <(column mfu.csv tokens_per_s) <(column mfu.csv throughput_per_s) \
    <(column mfu.csv workers) | awk '{ flop = 3 * (12 * 24 * 768 * 768 + 2 * 768 * 50257 + 12 * 2 * 1024 * 768)
        mfu = $2 * flop / ($4 * 989e12); n++
        if ($2 != 1024 * $3 || $1 / mfu < 0.999999 || $1 / mfu > 1.000001) bad = 1 } END { exit bad || n != 2 }' ||
    fail "MFU: $(column mfu.csv mfu_frac)"
[ -z "$(column fp32.csv mfu_frac)" ] || fail "MFU of images"

# Notes name the default arithmetic and the effect of the alternative; an arithmetic the GPU lacks is an error.
one=(--workers 1 --batch-per-worker 16 --steps 5)
expect 0 "assumed [workload] arithmetic = bf16 (fp32: samples/s -" --workload gpt2 --machine 1xh100 "${one[@]}"
expect 0 "gradients and the optimizer's state stay fp32" --workload gpt2 --machine 1xmi250 "${one[@]}"
# FSDP's unit size decides how much of the exchange overlaps: a note names the default, unless it is given or unused.
hybrid=(--workload llama3_8b:fused=yes --machine 4x8xh100@400gbe --layout fsdp=8 --batch-per-worker 8 --steps 5 --notes)
expect 0 "assumed [exchange] bucket_bytes = a block each (2GB: samples/s -" "${hybrid[@]}"
[[ $("$tested" "${hybrid[@]}" --set exchange.bucket_bytes=1GB) != *"a block each"* ]] || fail "bucket_bytes assumed beside given"
[[ $("$tested" --workload gpt2 --machine 2xh100 "${one[@]}" --workers 2 --notes) != *"a block each"* ]] ||
    fail "units without sharding"

# AMD GPUs: the basis of the estimate, a wide interval, and a ratio to an H100 near the measured 0.87 (torchao).
llama=(--workload llama3_8b:fused=yes --layout fsdp=8 --batch-per-worker 8 --recompute products --steps 5)
expect 0 "0.51 of the bf16 flop rate and 0.77 of the memory rate of mi300x, assumed from its large products, 620 to 708" \
    "${llama[@]}" --machine 8xmi300x -o mi300x.csv
expect 0 "95 % interval: up to 2 times faster or slower" "${llama[@]}" --machine 8xmi300x -o mi300x.csv
expect 0 "95 % interval: up to 1.4 times" "${llama[@]}" --machine 8xh100 -o h100.csv
awk -v amd="$(rate mi300x.csv)" -v h100="$(rate h100.csv)" 'BEGIN { exit !(amd > 0.82 * h100 && amd < 0.93 * h100) }' ||
    fail "MI300X over H100: $(rate mi300x.csv) $(rate h100.csv)"
expect 0 "the ratio of h200 to h100 rests on an estimate of each, with 1.22 and 1.4 times their kernels' times one by one: up to" \
    "${llama[@]}" --machine 8xh100,8xh200
[[ $("$tested" "${llama[@]}" --machine 8xh100,8xh100@8x400ib) != *"the ratio of"* ]] || fail "ratio of one GPU"
expect 0 "assumed, as no training rate of its architecture was fitted" --workload gpt2 --machine 1xrtx5090 "${one[@]}"
expect 0 "weights have 16 bits, the optimizer keeps them in fp32" --workload gpt2:fused=yes --machine 2xh100 \
    --batch-per-worker 8 --steps 5 --notes
expect 0 "parameters, gradients and the" --workload gpt2:fused=yes --machine 2xh100 --layout fsdp=2 --batch 16 --steps 5 --notes
expect 0 "assumed [workload] arithmetic = tf32 (fp16: samples/s +" --workload resnet50 --machine 1xh100 --workers 1 --batch-per-worker 256 --steps 5
expect 0 "assumed [workload] arithmetic = fp32 (fp16: samples/s +" --workload gpt2 --machine 1xv100_32gb "${one[@]}"
expect 0 "times of resnet50, fp32, momentum" --workload resnet50 --machine 1xrtx3090+1xgtx1080ti "${one[@]}"
"$tested" --workload gpt2 --machine 1xh100 "${one[@]}" --arithmetic bf16 2>&1 | grep -q "assumed .*arithmetic" &&
    fail "what is given is called assumed"
expect 1 "bf16_flop_per_s of v100 is not known: it may have no such arithmetic; known are fp32, fp16" --workload gpt2 --machine dgx1_v100 \
    "${one[@]}" --arithmetic bf16
expect 1 "fp8_flop_per_s of a100 is not known" --workload gpt2 --machine dgx_a100 "${one[@]}" --arithmetic fp8
expect 1 "nvfp4_flop_per_s of h100 is not known" --workload gpt2 --machine 1xh100 "${one[@]}" --arithmetic fp4
expect 1 "resnet50 has convolutions, which frameworks do not train in nvfp4" --workload resnet50 --machine 1xb200 "${one[@]}" --arithmetic nvfp4
for gpu in v100 h100 b200 rtx5090 mi300x; do
    expect 1 "triton: its rate is known with compute capability 8.x only, not on $gpu: take attention = fused" \
        --workload gpt2:attention=triton --machine 1x$gpu "${one[@]}" --arithmetic fp16
done
for gpu in 1xa100 1xrtx4090 regions_2; do
    expect 0 "times of gpt2:attention=triton" --workload gpt2:attention=triton --machine $gpu "${one[@]}"
done
# A machine file without the capability: only names of known architectures count.
for gpu in rtx5090 rtxpro6000 rtx3090; do
    expect 0 "1 point" --workload lenet --machine 1x$gpu "${one[@]}" --save-machine $gpu.ini
    sed -i '/^compute_capability/d' $gpu.ini
done
for gpu in rtx5090 rtxpro6000; do
    expect 1 "not on $gpu, which has no compute_capability: take" --workload gpt2:attention=triton --machine $gpu.ini "${one[@]}"
done
expect 0 "times of gpt2:attention=triton" --workload gpt2:attention=triton --machine rtx3090.ini "${one[@]}"
expect 1 "attention = cudnn_fp8: this needs arithmetic = fp8 or nvfp4, not bf16" --workload gpt2:attention=cudnn_fp8 --machine 1xh100 "${one[@]}"
for arithmetic in bf16 fp8 nvfp4; do
    expect 0 "1 point in" --workload llama:layers=8,fused=yes --machine 1xb200 --workers 1 --batch-per-worker 4 --steps 5 --arithmetic $arithmetic -o $arithmetic.csv
done
awk -v a="$(rate bf16.csv)" -v b="$(rate fp8.csv)" -v c="$(rate nvfp4.csv)" 'BEGIN { exit !(c > 1.1 * b && b > 1.1 * a) }' ||
    fail "B200: bf16 $(rate bf16.csv), fp8 $(rate fp8.csv), nvfp4 $(rate nvfp4.csv)"
for gpu in rtx5090 rtxpro6000; do
    for arithmetic in fp8 nvfp4; do
        expect 0 "1 point in" --workload llama:layers=4,fused=yes --machine 1x$gpu --workers 1 --batch-per-worker 1 --steps 5 \
            --arithmetic $arithmetic -o $arithmetic.csv
    done
    awk -v a="$(rate fp8.csv)" -v b="$(rate nvfp4.csv)" 'BEGIN { exit !(b > 1.05 * a) }' ||
        fail "$gpu: fp8 $(rate fp8.csv), nvfp4 $(rate nvfp4.csv)"
done
for arithmetic in fp16 bf16 fp8; do
    expect 0 "1 point in" --workload llama:layers=8,fused=yes --machine dgx_h100 --workers 1 --batch-per-worker 2 --steps 5 --arithmetic $arithmetic -o $arithmetic.csv
done
[ "$(rate fp16.csv)" = "$(rate bf16.csv)" ] || fail "fp16: $(rate fp16.csv), bf16: $(rate bf16.csv)"
awk -v a="$(rate bf16.csv)" -v b="$(rate fp8.csv)" 'BEGIN { exit !(b > 1.1 * a && b < 2 * a) }' ||
    fail "bf16: $(rate bf16.csv), fp8: $(rate fp8.csv)"

# Other programs' names of arithmetics and keys.
expect 0 "gpt2, bf16" --workload gpt2 --machine 1xh100 "${one[@]}" --arithmetic bfloat16
expect 0 "gpt2, fp16" --workload gpt2 --machine 1xh100 "${one[@]}" --arithmetic HALF
expect 2 "unknown name; here it is called 'bf16' or 'fp16'" --workload gpt2 --machine 1xh100 "${one[@]}" --arithmetic amp
expect 2 "unknown key 'precision' in [workload]; here it is called 'arithmetic'" --workload gpt2 --machine 1xh100 \
    "${one[@]}" --set workload.precision=bf16
expect 2 "here it is called 'parameters' with reshard_after_forward = 'no'" --workload gpt2 --machine 4xh100 \
    "${one[@]}" --set exchange.sharded=shard_grad_op

# Types in which sharded parameters and gradients are sent.
shards=(--workload gpt2 --machine 4xh100 --workers 4 --batch-per-worker 16 --steps 5)
expect 0 "assumed [exchange] param_dtype = bf16 (fp32: samples/s -" "${shards[@]}" --set exchange.sharded=optimizer
expect 0 "assumed [exchange] reduce_dtype = fp32 (bf16: samples/s +" "${shards[@]}" --set exchange.sharded=optimizer
expect 0 "assumed [exchange] reduce_dtype = bf16 (fp32: samples/s -" "${shards[@]}" --set exchange.sharded=parameters --notes
"$tested" "${shards[@]}" --arithmetic tf32 --set exchange.sharded=parameters 2>&1 | grep -q "dtype" &&
    fail "a type is assumed in tf32"
expect 0 "" "${shards[@]}" --set exchange.sharded=parameters -o kept.csv
expect 0 "" "${shards[@]}" --set exchange.sharded=parameters --set exchange.param_dtype=fp32 \
    --set exchange.reduce_dtype=fp32 -o whole.csv
awk -v a="$(rate kept.csv)" -v b="$(rate whole.csv)" 'BEGIN { exit !(a > b) }' ||
    fail "bf16 $(rate kept.csv), fp32 $(rate whole.csv)"

# Saved costs give equal results.
expect 0 "" "${run[@]}" --workers 4 -o estimated.csv --save-costs resnet50.ini --save scenario.ini
expect 0 "" --costs resnet50.ini "${run[@]:4}" --workers 4 -o saved.csv
[ "$(rate estimated.csv)" = "$(rate saved.csv)" ] ||
    fail "estimated $(rate estimated.csv), saved $(rate saved.csv)"
expect 0 "" scenario.ini -o again.csv
[ "$(rate estimated.csv)" = "$(rate again.csv)" ] || fail "the saved scenario differs"

# --calibrate with a measured step: its factor is reported, and applies to other variants and the advice.
gpt=(--workload gpt2 --batch-per-worker 8 --arithmetic bf16 --steps 20)
expect 0 "compute is 1.15 times the estimate, so that a step of 1 worker with 8 samples each takes the measured 61.0 ms" \
    "${gpt[@]}" --machine 8xh100 --workers 1,8 --calibrate 61ms -o calibrated.csv
expect 0 "" -q "${gpt[@]}" --machine 8xh100 --workers 1 -o plain.csv
own="$(awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
    { print 1000 * $c["step_mean_s"] "ms" }' plain.csv)"
expect 0 "compute is equal to the estimate: a step of 1 worker with 8 samples each takes the measured" \
    "${gpt[@]}" --machine 8xh100 --workers 1 --calibrate "$own" -o plain.csv
"$tested" "${gpt[@]}" --machine 8xh100 --workers 1 --calibrate "$own" --notes -o plain.csv | grep "compute is 1 times" &&
    fail "a factor of 1"
expect 0 "" "${gpt[@]}" --machine 8xh100 --calibrate "61.74 ms@8" --workers 1,8 -o eight.csv
awk -v a="$(rate calibrated.csv)" -v b="$(rate eight.csv)" 'BEGIN { exit !(a > 0.999 * b && a < 1.001 * b) }' ||
    fail "calibrated by 1 worker $(rate calibrated.csv), by 8 $(rate eight.csv)"
# One note on the estimate for all layouts and recomputations.
"$tested" --workload llama2_7b --machine 8xh100 --layout 'tp=2|tp=4' --recompute none,full --batch-per-worker 8 \
    --steps 5 --notes -o layouts.csv 2>&1 | grep "times of" >estimates
[ "$(grep -c "^note: times of llama2_7b, bf16, adam are" estimates)" = 1 ] && [ "$(wc -l <estimates)" = 1 ] ||
    fail "notes on the estimate: $(cat estimates)"
# A rate is that of all workers: 8 samples in 61 ms.
expect 0 "takes the measured 61.0 ms" "${gpt[@]}" --machine 8xh100 --workers 1,8 --calibrate 131.1475/s -o by_rate.csv
expect 0 "takes the measured 61.7" "${gpt[@]}" --machine 8xh100 --calibrate "1036.6 samples/s@8" --workers 1,8 -o by_rate.csv
awk -v a="$(rate eight.csv)" -v b="$(rate by_rate.csv)" 'BEGIN { exit !(a > 0.999 * b && a < 1.001 * b) }' ||
    fail "calibrated by a step $(rate eight.csv), by its rate $(rate by_rate.csv)"
# A rate in tokens is that of samples of 1024 tokens each.
expect 0 "takes the measured 61.0 ms" "${gpt[@]}" --machine 8xh100 --workers 1,8 --calibrate 134295tokens/s -o by_rate.csv
expect 2 "needs a [workload] model whose samples are sequences" --workload resnet50 --machine 1xh100 --workers 1 \
    --batch-per-worker 8 --calibrate 5000tokens/s
expect 0 "takes the measured 61.0 ms" "${gpt[@]}" --machine 8xh100 --workers 1,8 --calibrate 131.1475img/s -o by_rate.csv
expect 2 "unknown unit 'it/s'; known: ns, us, ms, s; rates, of all GPUs together: samples/s, images/s, tokens/s; for it/s" "${gpt[@]}" --machine 8xh100 \
    --workers 1 --calibrate 16.4it/s
expect 2 "or its rate, as 600samples/s" "${gpt[@]}" --machine 8xh100 --workers 1 --calibrate rate
expect 0 "1.15 times the estimate" "${gpt[@]}" --machine 8xh100,8xa100 --workers 1 --calibrate 61ms -o two.csv
expect 0 "this model of GPU, whose interval stays" "${gpt[@]}" --machine 8xh100,8xa100 --workers 1 --calibrate 61ms -o two.csv
expect 0 "Advice: highest throughput" "${gpt[@]}" --machine 2xh100 --workers 1,2 --calibrate 61ms --advise --max-points 8 -o advice.csv --save advised.ini
# A measured step that is shorter than the assumed launches (457 kernels, 77 us each, 35.2 ms) lowers them to the middle
# of 11.7 and 33.9 ms; derived scenarios keep that. A longer one may be due to launches of up to 106 ms.
megatron=(--workload gpt2:fused=yes,sums=within --batch-per-worker 8 --machine 2xh100 --workers 1 --steps 5)
expect 0 "per_worker_ns = 19.94 ms" "${megatron[@]}" --calibrate 34ms --notes -o shorter.csv --save shorter.ini
expect 0 "" shorter.ini -o again.csv
[ "$(rate shorter.csv)" = "$(rate again.csv)" ] || fail "launches of the saved scenario: $(grep calibrate shorter.ini)"
expect 0 "Advice: highest throughput" "${megatron[@]}" --calibrate 34ms --advise --max-points 2 -o advice.csv --save again.ini
grep -qE '^calibrate = 34000000 ns@[0-9x]*=0\.7[34][0-9]*/33[89][0-9.]* ns' again.ini || fail "no launches in $(grep calibrate again.ini)"
expect 0 "per_worker_ns = 19.94 ms" again.ini --notes -o again.csv
expect 2 "without any computing the step takes" "${megatron[@]}" --calibrate 11ms
# Fused kernels take the host no longer than plain PyTorch's, which are more; torch.compile launches them in less time.
for network in gpt2 vit_b; do
    for fused in no yes compiled; do
        "$tested" --workload "$network:fused=$fused" --batch-per-worker 1 --arithmetic bf16 --machine 1xh100 --workers 1 --steps 5 \
            --notes -o "$network.$fused.csv" >"$network.$fused.txt" || fail "$network:fused=$fused"
        grep -q "30 us each" <(tr -s ' \n' ' ' <"$network.$fused.txt") || fail "launches: $(grep kernels "$network.$fused.txt")"
    done
    awk -v plain="$(rate "$network.no.csv")" -v fused="$(rate "$network.yes.csv")" -v compiled="$(rate "$network.compiled.csv")" \
        'BEGIN { exit !(fused >= plain && compiled > 1.2 * plain) }' || fail "$network: $(rate "$network.yes.csv"), $(rate "$network.compiled.csv")"
done
expect 2 "sums = within has an effect only with fused=yes" --workload gpt2:fused=compiled,sums=within --machine 1xh100 --workers 1 \
    --batch-per-worker 1
short=(--workload vit_b --batch-per-worker 2 --machine 1xrtx4080 --workers 1 --steps 5)
expect 0 "but the host's launches, whose time is assumed, may take as long" "${short[@]}" --calibrate 57ms -o longer.csv
[[ $("$tested" "${gpt[@]}" --machine 8xh100 --workers 1 --calibrate 150ms --notes -o longer.csv) != *"may take as long"* ]] ||
    fail "launches of at most 117 ms in a step of 150 ms"
# Rates of a few samples/s and their intervals keep four digits.
slow=(--workload llama3_8b:sequence=2048 --machine 2xh100 --batch 2 --lora 16 --mode ddp --recompute full --steps 4)
"$tested" "${slow[@]}" --advise --max-points 4 -o advice.csv | grep -qE '^   1 .* [0-9]\.[0-9]{3} +[0-9]\.[0-9]{3} to [0-9]\.[0-9]{3} ' || fail "digits of a rate"
grep -q '^calibrate = 61000000 ns@1x8=1.1483' advised.ini || fail "the advised scenario lacks the factor: $(grep calib advised.ini)"
expect 2 "with its factor a step is written as TIME@WORKERSxSAMPLES=FACTOR" --workload resnet50 --machine 8xv100 \
    --batch-per-worker 32 --calibrate 212ms=1.31
# Notes with a measured effect come first, the largest one (here -29.5 to +31.5 %) at the top with the way to
# measure it; overlap (1.3 %) is behind the arithmetic (12.3 %), and notes without an effect are last.
"$tested" --workload gpt2 --machine 4xrtx3090 --batch-per-worker 4 --workers 4 --mode allreduce,average --interval 50 \
    --notes -o notes.csv | grep "^note: " | cut -c 7- >order
for text in "assumed \[shm" "measure first: \[shm" "assumed \[workload" "assumed \[exchange\] overlap" "arithmetic bf16 is" \
    "default \[noise"; do
    grep -n "^$text" order | cut -d: -f1
done >numbers
[ "$(wc -l <numbers)" = 6 ] && sort -nc numbers && [ "$(head -n 1 numbers)" = 1 ] || fail "order of notes: $(cat order)"
# FSDP's messages in bf16 are compared with DDP's in fp32: the first notes have the effect of equal ones.
expect 0 "compress = none (fp16: samples/s +67.4 %" --workload gpt2_medium --machine 4xrtx4090 --batch-per-worker 1 \
    --workers 4 --mode ddp,fsdp -o both.csv
# What lacks memory is tried with recomputation, unless it is given: of 25.8 GB one sample takes 22.9 GB, with
# recomputed products 18.0 GB, and the allocator's reserve 30 % of it.
tight=(--workload "llama:layers=12,width=1536,sequence=4096" --machine 1xrtx3090 --batch-per-worker 1 --workers 1)
expect 0 "Advised: 1 GPU, batch 1, none, recompute products" "${tight[@]}" --advise -o advice.csv
expect 0 "No point fits with the allocator's reserve" "${tight[@]}" --recompute none --advise -o advice.csv
# The options of the advised point give its throughput: where they do not name the overlap, it is the costs' own.
own=(--workload gpt2 --machine 2xrtx3090 --batch-per-worker 8)
expect 0 "As options: --workers 2" "${own[@]}" --advise --max-points 12 --json own.json
expect 0 "1 point" "${own[@]}" --workers 2 -o own.csv
python3 -c 'import json, sys
row = json.load(open("own.json"))["rows"][0]
sys.exit(row["overlap"] != "yes" or abs(row["throughput_per_s"] / float(sys.argv[1]) - 1) > 1e-6)' "$(rate own.csv)" ||
    fail "advised $(head -c 3000 own.json), with its options $(rate own.csv)"
# A batch that is limited by memory does not reach every speedup.
expect 1 "beyond which it has no value or lacks memory" --workload gpt2 --machine 2x1xrtx4090@1gbe --workers 2 \
    --mode ddp --solve batch_per_worker --target speedup=1.9 -o solved.csv
# The batch that is said to fit is each worker's largest.
two=(--workload resnet50 --machine 2xrtx3090 --workers 2 --mode allreduce --batch-per-worker)
fits=$("$tested" "${two[@]}" 100000 2>&1 | sed -n 's/^dlsim: .*what fits: --batch-per-worker \([0-9]*\).*/\1/p')
expect 0 "2 GPUs" "${two[@]}" "${fits:-0}"
expect 3 "what fits: --batch-per-worker $fits," "${two[@]}" $((fits + 1))
# If nothing fits, the error says what would, and so do the page's answer and rows, which name their points.
expect 3 "383 GB too much; what fits: --workload NAME:loss=fused --recompute full" --workload llama3_8b --machine 8xa100 \
    --batch-per-worker 4 --workers 1,8 --html unfit.html --quiet
grep -q '<p class="answer">No point fits. workers 1, batch 4, allreduce: does not fit: .*; what fits: ' unfit.html ||
    fail "$(grep 'class="answer"' unfit.html)"
grep -q '<th scope="row" class="number">8</th><td class="number">32</td><td>allreduce</td><td colspan="2">does not fit: .*; what fits: ' \
    unfit.html || fail "$(grep colspan unfit.html)"
expect 3 "9.15 GB too much; what fits: --workload NAME:loss=fused (24.4 GB)" --workload llama3_8b --machine 8xrtx3090 \
    --batch-per-worker 1 --advise -o advice.csv
expect 3 "with a batch of 8 (1 per GPU), what fits: --workload NAME:loss=fused" --workload llama3_8b --machine 8xrtx3090 \
    --batch-per-worker 2 --advise -o advice.csv
# Rows that miss the same, with the same remedy, are explained once, after the last.
"$tested" --workload llama3_8b --machine 8xdgx_h100 --batch-per-worker 8 >unfit.txt 2>unfit.err
[ "$(grep -c '^ *[0-9]* does not fit' unfit.txt)" -eq 7 ] && [ "$(grep -c 'what fits' unfit.txt)" -eq 2 ] &&
    grep -A1 '^ *64 does not fit' unfit.txt | grep -q 'parameters 47.1 GB' || fail "$(cat unfit.txt)"
# A batch of all workers is kept: the remedy is the largest micro-batch that divides it and fits; the next larger one
# does not fit. The message names the row that lacks least, by its settings.
expect 3 "the nearest (workers 8, batch 504) does not fit: a GPU needs 263 GB of 42.9 GB, 220 GB too much; what fits: \
--micro-batch 1" --workload gpt2_xl --machine 8xa100 --workers 1,8 --batch 504 --steps 1 --quiet
# Remedies are of the keys that are given: others would be refused beside them.
given=(--workload gpt2_xl --machine 8xa100 --workers 8 --batch 504 --fits)
expect 3 "what fits: --set sync.accumulate=63," "${given[@]}" --set sync.accumulate=7
expect 3 "what fits: --micro-batches 63," "${given[@]}" --micro-batches 7
expect 0 "largest" "${given[@]}" --set sync.accumulate=7 --set sync.accumulate=63
# Views of buckets save the copy of the gradients that DistributedDataParallel has of more than one worker.
expect 0 "gradients 6.23 GB," "${given[@]}" --set sync.accumulate=21 --set exchange.buckets=views
expect 3 "gradients 12.5 GB," "${given[@]}" --set sync.accumulate=21
expect 0 "gradients 6.23 GB," "${given[@]}" --set sync.accumulate=21 --workers 1 --batch 63
node=(--set exchange.sharded=optimizer --set exchange.sharded_among=node)
given=(--workload llama3_8b:fused=yes --machine 2xdgx_h100 --workers 16 --batch 16 --fits)
expect 3 "what fits: exchange.sharded=gradients (79.0 GB)" "${given[@]}" --set exchange.sharded=optimizer
expect 3 "what fits: exchange.sharded=gradients without" "${given[@]}" "${node[@]}"
given=(--workload llama3_8b:fused=yes,layers=7 --machine 2x8xa100@100gbe --workers 16 --batch 16 --fits)
expect 3 "what fits: exchange.sharded_among=all (41.7 GB)" "${given[@]}" "${node[@]}"
expect 0 "41.7 GB" "${given[@]}" "${node[@]}" --set exchange.sharded_among=all
given=(--workload llama3_70b --machine 16x8xh100@400gbe --workers 1 --batch-per-worker 16 --fits --set sync.accumulate=2)
expect 3 "what fits: --layout pp=16,fsdp=8 --set sync.accumulate=1" "${given[@]}"
expect 0 " 78.9 GB " "${given[@]}" --layout pp=16,fsdp=8 --set sync.accumulate=1 --micro-batch 1
whole=(--workload gpt2_xl --machine 1xa100 --batch 500 --mode none --steps 1)
expect 3 "too much; what fits: --micro-batch 2" "${whole[@]}" --quiet
expect 0 "accumulate 250" "${whole[@]}" --micro-batch 2
expect 3 "does not fit" "${whole[@]}" --micro-batch 4
# With several micro-batches gradients are summed: then one sequence without recomputation does not fit.
divided=(--workload llama3_70b:fused=yes --machine 2xdgx_h100 --batch 64 --mode none --steps 1)
expect 3 "the nearest (tp=8,fsdp=2) does not fit: a GPU needs 834 GB of 85.5 GB, 749 GB too much; what fits: --recompute \
full with --micro-batch 4" "${divided[@]}" --layout 'fsdp=16 | tp=8,fsdp=2' --quiet
expect 3 "does not fit" "${divided[@]}" --layout tp=8,fsdp=2 --micro-batch 1
expect 0 "accumulate" "${divided[@]}" --layout tp=8,fsdp=2 --micro-batch 4 --recompute full
# GPUs that divide sequences can divide the state, too, and the gradients of a single micro-batch.
long=(--workload llama3_8b:sequence=131072,fused=yes --machine 2xdgx_h100 --layout cp=16 --micro-batch 1 --steps 1)
expect 3 "112 GB too much; what fits: exchange.sharded=gradients (79.0 GB)" "${long[@]}" --batch 1 --quiet
expect 0 "79.0 GB" "${long[@]}" --batch 1 --set exchange.sharded=gradients
expect 3 "what fits: --recompute full with exchange.sharded=optimizer (72.6 GB)" "${long[@]}" --batch 16 --quiet
expect 2 "each micro-batch would be exchanged" "${long[@]}" --batch 16 --set exchange.sharded=gradients
# No micro-batch is named with a schedule that permits none.
expect 3 "1.77 TB too much; no smaller batch" --workload gpt2_xl --machine 2xa100 --layout pp=2 --batch 512 --mode none \
    --steps 1 --set pipeline.schedule=pipedream --quiet
# The frozen weights beside adapters are sharded, too.
expect 0 "Advised: 2 GPUs, batch 2, allreduce, sharded parameters, recompute full" \
    --workload llama3_8b:sequence=4096 --machine 2xrtx4090 --batch-per-worker 1 --lora 16 --advise -o advice.csv
expect 2 "a measured step is of one workload" --workload 'gpt2|bert_base' --machine 8xh100 --workers 1 \
    --batch-per-worker 8 --calibrate 61ms
expect 2 "without any computing the step takes" "${gpt[@]}" --machine 2xh100@1gbe --workers 4 --calibrate 61ms
expect 2 "--calibrate 61: a number without a unit is a factor" "${gpt[@]}" --machine 8xh100 --calibrate 61
expect 2 "rates, of all GPUs together: samples/s" "${gpt[@]}" --machine 8xh100 --calibrate 600/sec
expect 2 "rates, of all GPUs together: samples/s" "${gpt[@]}" --machine 8xh100 --calibrate 0.5/-5ms

# Several networks and arithmetics in one scenario.
expect 0 "4 points" --workload 'gpt2:sequence=256|bert_base' --machine dgx_a100 --workers 2 \
    --batch-per-worker 8 --steps 5 --set workload.arithmetic=tf32,fp16 -o many.csv
expect 2 "4 cost files" --workload 'gpt2|bert_base' --machine dgx_a100 --workers 2 \
    --batch-per-worker 8 --set workload.arithmetic=tf32,fp16 --save-costs x.ini
# A pipeline splits the network's layers over GPUs.
expect 0 "1 point in" --workload gpt2_xl --machine dgx_a100 --workers 2 --batch-per-worker 8 --steps 5 \
    --set pipeline.stages=4 --set pipeline.micro_batches=4 --set workload.arithmetic=fp16

expect 2 "tp=2 divides layers of transformers only, and the model is resnet50" --workload resnet50 --machine 4xh100 \
    --batch-per-worker 8 --layout tp=2
expect 2 "--recompute full: only activations of transformers are" --workload resnet50 --machine 4xh100 \
    --batch-per-worker 8 --recompute full
expect 0 "25557032        8.178" --workloads
expect 0 "kv_heads       0 to 65536" --workloads
expect 2 "no network is called 'resnt50'; did you mean 'resnet50'" "${run[@]}" --workload resnt50
# What fits: a fused loss, which saves time too, before recomputation, which costs time.
expect 3 "NAME:loss=fused (77.4 GB)" --workload llama3_8b --machine 8xh100@8x400ib --workers 16 --batch-per-worker 1 \
    --set exchange.sharded=fsdp --steps 2
expect 3 "what fits: --recompute full" --workload llama3_8b --machine 8xa100@8x400ib --workers 16 \
    --batch-per-worker 1 --set exchange.sharded=fsdp --steps 2
expect 0 "1 point" --workload llama3_8b:sequence=2048 --machine 8xh100@8x400ib --workers 16 --batch-per-worker 1 \
    --set exchange.sharded=fsdp --steps 2
expect 0 "llama3_70b            70553706496" --workloads
expect 0 "uses 2 of them, 12.9 of the 46.7 billion parameters" --workload mixtral:fused=yes \
    --machine 8xh200 --layout fsdp=8 --batch 8 --mode none --steps 2 --notes
expect 2 "no network is called 'deepseek'; models with experts are mixtral_8x7b" "${run[@]}" --workload deepseek
expect 2 "called 'yolov8' (dlsim --workloads lists them); for another give its config.json, if it is a transformer, its" \
    "${run[@]}" --workload yolov8
for name in unet EfficientNet-B0 convnext_tiny stabilityai/stable-diffusion-2; do
    expect 2 "(dlsim --workloads lists them); for another give" "${run[@]}" --workload "$name"
done
expect 2 "their exchange in each step, are not simulated" "${run[@]}" --workload dlrm
expect 2 "no network is called 'openai/whisper-small'; encoders" "${run[@]}" --workload openai/whisper-small
expect 2 "'torch_compile'; torch.compile is not simulated for them: --calibrate" "${run[@]}" \
    --workload resnet50:torch_compile=yes
expect 2 "have no key 'compile'; write fused=compiled" "${run[@]}" --workload gpt2:compile=yes
expect 2 "--arithmetic fp16: this needs model, a network by --workload" --samples-per-s 334 --parameters 25.6M \
    --machine dgx1_v100 --batch-per-worker 32 --arithmetic fp16
expect 2 "the batch is that of a step, of all its micro-batches" "${run[@]}" --batch-per-worker 4 --set sync.accumulate=8
expect 2 "'sgd' has about its memory" "${run[@]}" --set workload.optimizer=adafactor
expect 2 "the matrix products of its update are not simulated" "${run[@]}" --set workload.optimizer=muon
expect 2 "--gpus has numbers of its GPUs, as 0,1, not 2x4090" --workload gpt2 --gpus 2x4090
"$tested" --workload gpt2 --gpus 0,1 2>&1 | grep -q "not 0,1" && fail "numbers of GPUs are refused"
printf 'world_size,H,step_ms\n1,10,95.6\n4,10,120\n' >local.csv
expect 0 "+25.0" --samples-per-s 334 --parameters 25.6M --machine dgx1_v100 --batch-per-worker 32 --mode average \
    --interval 10 --workers 1,4 --measured local.csv
# Lion has one state of 4 bytes for each of GPT-2's 124 million parameters.
expect 0 "optimizer 498 MB" --workload gpt2 --machine 1xrtx4090 --batch-per-worker 4 --set workload.optimizer=lion --fits
# Words of PyTorch and Hugging Face's transformers for choices.
same=(--machine 2xrtx4090 --batch-per-worker 4 --workers 1 --steps 2)
expect 0 "1 point" "${same[@]}" --workload gpt2:attention=plain,dropout=no -o here.csv
expect 0 "1 point" "${same[@]}" --workload gpt2:attn_implementation=eager,dropout=False -o there.csv
[ "$(rate here.csv)" = "$(rate there.csv)" ] || fail "eager attention: $(rate there.csv), plain $(rate here.csv)"
expect 2 "no network is called 't5'; encoders with decoders are not simulated" "${run[@]}" --workload t5
expect 2 "recompute = half: no such choice" "${run[@]}" --workload gpt2:recompute=half
expect 2 "have no key 'layer'" "${run[@]}" --workload llama:layer=3

# LoRA of rank 8: 8 parameters per input and per output (4096 each) of two matrices per block, 32 blocks.
lora=(--workload llama:fused=yes --machine 2xh100 --batch 8 --micro-batch 1 --mode allreduce --steps 3)
expect 0 "adapters of 4.194 million parameters are trained, the other 6.738 billion" "${lora[@]}" --workers 2 --lora 8 \
    -o option.csv
expect 0 "1 point" "${lora[@]}" --workers 2 --workload llama:fused=yes,lora=8,lora_targets=q_proj+v_proj -o key.csv
[ "$(rate option.csv)" = "$(rate key.csv)" ] || fail "--lora $(rate option.csv), the key $(rate key.csv)"
expect 0 "2 points" "${lora[@]}" --workers 2 --lora 8,16 --lora-targets 'q_proj, v_proj' -o both.csv
[ "$(column both.csv throughput_per_s | head -n 1)" = "$(rate key.csv)" ] || fail "--lora-targets: $(cat both.csv)"
# Memory: all 16-bit weights, or half of them with FSDP, which gathers two of 32 blocks. Per adapter parameter: gradient
# 4 bytes, fp32 copy 4 and optimizer state 8 bytes; with FSDP, gradient 4 and state 8 bytes.
expect 0 "parameters 13.5 GB, gradients 17.0 MB, optimizer 50.3 MB" "${lora[@]}" --layout fsdp=1,dp=2 --lora 8 --fits
expect 0 "parameters 6.75 GB, gradients 8.39 MB, optimizer 16.8 MB" "${lora[@]}" --layout fsdp=2 --lora 8 --fits
expect 0 "1 point" "${lora[@]}" --workers 1 --lora 8 --save-costs lora.ini
grep -q '^frozen_bytes = 13476831232$' lora.ini || fail "costs: $(head -n 20 lora.ini)"
expect 2 "have no key 'lora'" "${run[@]}" --lora 8
expect 2 "lora_targets = c_attn: no such choice" "${lora[@]}" --lora 8 --lora-targets c_attn
expect 2 "lora_targets = q_proj: blocks have one matrix: linear_qkv" "${lora[@]}" --workload gpt2 --lora 8 \
    --lora-targets q_proj
expect 2 "this needs lora" "${lora[@]}" --lora-targets q_proj
expect 2 "this needs lora, the rank" "${lora[@]}" --workload llama:frozen_bits=4
expect 2 "frozen_bits = 3: 4 (bitsandbytes' NF4), 8" "${lora[@]}" --workload llama:lora=8,frozen_bits=3
expect 2 "double_quant = yes: this needs frozen_bits = 4" "${lora[@]}" --workload llama:lora=8,double_quant=yes
# Layers divided by tp: the note counts a GPU's part of them.
expect 0 "the other 3.369 billion of a GPU's part" "${lora[@]}" --layout tp=2 --lora 8
# A network's key that takes effect only with a value of another key is an error without that value.
expect 0 "gpt2:attention=plain,fused=yes,dropout=no" --workload gpt2:attention=plain,fused=yes,dropout=no --machine 2xh100 \
    --workers 2 --batch 8
expect 2 "sums = within has an effect only with fused=yes" "${lora[@]}" --workload gpt2:sums=within
expect 2 "dropout = yes has an effect only with attention=plain or fused=no" "${lora[@]}" --workload gpt2:fused=yes,dropout=yes
for with in fused=no attention=plain,fused=yes; do
    expect 0 "1 point" "${lora[@]}" --workers 1 --workload gpt2:layers=1,dropout=yes,$with -o dropout.csv
done
expect 1 "recompute = products: with lora none, selective, full" "${lora[@]}" --workers 1 --lora 8 --recompute products
expect 2 "this needs model" --costs "$scenarios/costs/resnet50_t4.ini" --machine 1xt4 --batch-per-worker 32 --lora 8
expect 2 "write --lora RANK" "${lora[@]}" --qlora 8

# A note names a vocabulary whose rows are no multiple of 16 bytes. They do no harm in fp32 without tensor cores, if tp
# pads them, and in times of kernels measured one by one.
one=(--batch-per-worker 2 --steps 2 --workload)
expect 0 "vocabulary=50304 if padded" --machine 1xa100 --workers 1 "${one[@]}" gpt2:layers=2,fused=yes
expect 0 "1 point" --machine 1xa100 --workers 1 "${one[@]}" lenet --save-machine measured.ini
{
    printf '[kernels a100 bf16]\nmove_bytes_per_s = 1.2TB/s\nmove_ns = 3us\n'
    for product in forward data weight; do
        printf '%s_flop_per_s = 250Tflop/s\n%s_bytes_per_s = 1.2TB/s\n%s_ns = 5us\n' $product $product $product
    done
} >>measured.ini
while read -r machine workload; do
    # shellcheck disable=SC2086 # several words
    "$tested" --machine $machine "${one[@]}" $workload >few.txt 2>&1 || fail "$machine, $workload: exit $?: $(cat few.txt)"
    grep -q "are estimated from" few.txt || fail "no note on estimates for $machine, $workload: $(cat few.txt)"
    grep -q "if padded" few.txt && fail "a padded vocabulary for $machine, $workload"
done <<'END'
1xa100 gpt2:layers=2,vocabulary=50304
1xa100 gpt2:layers=2 --arithmetic fp32
2xa100 gpt2:layers=2 --layout tp=2
measured.ini gpt2:layers=2 --arithmetic bf16
END

# A note says how transformers are assumed to run (fused or not); fused= changes it.
small=llama:layers=2,width=256,heads=4,sequence=128,vocabulary=1000
expect 0 "fused=compiled, or yes" --workload $small --machine 1xh200 --workers 1 --batch-per-worker 2 --steps 2
"$tested" --workload $small,fused=yes --machine 1xh200 --workers 1 --batch-per-worker 2 --steps 2 2>&1 |
    grep -q 'operation by operation' && fail "a fused network is called plain"
expect 2 "--workload needs --machine" --workload lenet --batch 64
expect 1 "this one has others: omit it or these options" "${run[@]}" --costs "$scenarios/costs/resnet50_t4.ini"
expect 1 "tf32_flop_per_s of v100 is not known" "${run[@]:0:2}" --machine dgx1_v100 \
    --batch-per-worker 64 --set workload.arithmetic=tf32

# Only sums join the GPUs of a node: the server of async applies each gradient.
for sum in yes no; do
    "$tested" --workload resnet50 --machine 2x4xtitanx@10gbe --workers 8 --batch-per-worker 32 --mode ps,async \
        --set exchange.overlap=yes --set exchange.node_sum=$sum --quiet -o $sum.csv || fail "node_sum = $sum"
done
paste <(column yes.csv throughput_per_s) <(column no.csv throughput_per_s) |
    awk '{ as[NR] = $1 / $2 } END { exit !(as[1] > 2 && as[2] == 1) }' ||
    fail "node_sum: $(column yes.csv throughput_per_s), without: $(column no.csv throughput_per_s)"

# Copies to a server on GPU 0 stop one of a worker's GPUs more: its shards are not folded, as noise, for
# which each is simulated, does not change the step.
for noise in none lognormal; do
    sigma=()
    [ $noise = none ] || sigma=(--set noise.sigma=1e-6)
    "$tested" --workload gpt2 --machine 1x8xrtx4090 --layout fsdp=2 --workers 2 --batch-per-worker 2 --mode ps \
        --set sync.where=gpu:0 --set exchange.staged=alone --set exchange.overlap=yes \
        --set noise.kind=$noise "${sigma[@]}" --quiet -o $noise.csv ||
        fail "staged = alone"
done
paste <(column none.csv throughput_per_s) <(column lognormal.csv throughput_per_s) |
    awk '{ exit !($1 / $2 > 0.9999 && $1 / $2 < 1.0001) }' ||
    fail "folded: $(column none.csv throughput_per_s), whole: $(column lognormal.csv throughput_per_s)"
exit $((failures > 0))
