#!/usr/bin/env python3
"""Compares predictions of transformers on many GPUs (dlsim --workload, --layout) with published step
times: as estimated, then with one sustained factor for each set and GPU from its *own* smallest rows,
judged on the others, and with the factor of the *other* sets on the same GPU. First compares the memory
that --fits estimates with measured memory, and its verdicts with the rows that ran and did not run.
Then prints a line for each set and its kinds of layouts: rows, mean, median and largest error of
tokens/s, bias, rows in the 95 % interval. Last, the regret: among rows of the same model, batch and
number of GPUs, the fastest measured row's rate over that of the row estimated to be the fastest, - 1.
vtrain, which has estimates in place of measured steps, is first shown to consist of sums.

Usage: scripts/judge_layouts.py [--csv FILE] [--rows] [--jobs N] [SET...]
  SET         vtrain, simumax, internevo, megatron, mlperf, mlperf_lora, torchtitan, nanotron, foundry, bridge, bridge_experts
  --csv FILE  write a line for each row
  --rows      also print each row
  --memory    judge memory only
  --left-out  fit A100's two parameters, the fraction of the memory rate and the sustained factor, to
              two of the three measured sets that they come from, and judge them on the third
  --every N   use only every Nth row of a set; with --left-out, only of sets of 100 rows or more
  --jobs N    run N simulations in parallel (default 2)
$DL_DATA: folder with llm/*.csv (default ./data); $DLSIM: the program (default build/release/bin/dlsim)

Assumed where the tables have no data: norms, rotation and gates in one kernel each (fused=yes), fused
attention except in Megatron-LM of 2020 to 2022, whose stages have equal numbers of blocks, the 1F1B
schedule, and the all-reduces and sharding of the named
program. GPUs are given eight times their memory, so that rows that do not fit by the estimate run too;
these are counted.
"""
import argparse
import collections
import concurrent.futures
import csv
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(os.environ.get("DL_DATA", "data"), "llm")
DLSIM = os.environ.get("DLSIM", f"{ROOT}/build/release/bin/dlsim")
MEMORY_TIMES = 8

Row = collections.namedtuple("Row", "set name kind gpu gpus tokens small gigabytes options ran reserved cell",
                             defaults=(True, False, None))


def table(name):
    path = f"{DATA}/{name}"
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def number(text):
    return float(text) if text else 0.0


def kind_of(nodes, tp=1, pp=1, sharded="", cp=1, ep=1):
    axes = [name for name, size in (("tp", tp), ("cp", cp), ("ep", ep), ("pp", pp)) if size > 1] or ["dp"]
    return f"{nodes} node{'s' if nodes > 1 else ''}, {' '.join(axes)}{' ' + sharded if sharded else ''}"


def options(network, machine, arithmetic, dp, batch, accumulate, tp=1, pp=1, sharded="none", more=(), cp=1, ep=1):
    """dlsim's options for steps of `batch` samples by `dp` replicas, in `accumulate` micro-batches."""
    given = ["--workload", network, "--machine", machine, "--arithmetic", arithmetic,
             "--mode", "allreduce", "--batch", str(batch), "--set", f"exchange.sharded={sharded}",
             "--set", "scenario.steps=6", *more]
    if tp * cp * ep * pp == 1:
        return given + ["--workers", str(dp), "--set", f"sync.accumulate={accumulate}"]
    axes = "".join(f"{name}={size}," for name, size in (("tp", tp), ("cp", cp), ("ep", ep), ("pp", pp))
                   if size > 1 or name == "pp")
    axes += f"dp={dp}"
    return given + ["--layout", axes, "--micro-batches", str(accumulate)]


def equal_blocks(layers, pp):
    """Megatron-LM's stages: equal numbers of blocks, plus the head in the last stage."""
    if pp == 1:
        return ()
    firsts = ",".join(f"block{s * layers // pp + 1}" for s in range(1, pp))
    return ("--set", f"pipeline.split={firsts}")


# Megatron-LM broadcasts the sizes of each micro-batch and copies them to the host (broadcast_data), and its
# stages call torch.cuda.synchronize after each exchange.
BATCH_READ = ("--set", "machine.reads=batch")


def vtrain():
    """vTrain's estimates of Megatron-LM on one node of A100."""
    for r in table("vtrain_single.csv"):
        tp, dp, pp = (int(r[f"{axis} parallelism"]) for axis in ("tensor", "data", "pipeline"))
        batch, micro = int(r["global batch"]), int(r["micro batch"])
        tokens = int(r["sequence length"])
        network = (f"gpt2:layers={r['# layers']},width={r['hidden size']},heads={r['attention heads']},"
                   f"sequence={tokens},positions={tokens},vocabulary=51200,fused=yes,attention=plain,sums=within,"
                   "sequence_parallel=no")
        per_s = tokens * batch * 1000 / float(r["iteration time (ms)"]) / int(r["GPUs"])
        kind = f"width {r['hidden size']}, " + ("1 sequence" if micro == 1 else "2 to 8 sequences")
        yield Row("vtrain", f"{r['# layers']}x{r['hidden size']} tp{tp} pp{pp} dp{dp} mbs{micro} of {batch}",
                  f"{kind_of(1, tp, pp)}, {kind}", "a100", int(r["GPUs"]), per_s, False, 0,
                  options(network, "8xa100_80gb", "fp16", dp, batch, batch // (dp * micro), tp, pp,
                          more=(*equal_blocks(int(r["# layers"]), pp), *BATCH_READ, "--set", "exchange.overlap=no")),
                  cell=f"{r['# layers']}x{r['hidden size']} on {r['GPUs']}, batch {batch} of {tokens}")


def simumax():
    """Megatron on 8 B200; the loss is one kernel."""
    for i, r in enumerate(table("simumax_b200_one_step.csv")):
        tp, pp, dp = int(r["tp"]), int(r["pp"]), int(r["dp"])
        accumulate, tokens = int(r["micro_batches"]), int(r["sequence"])
        per_s = tokens * dp * accumulate * 1000 / float(r["measured_ms"]) / 8
        yield Row("simumax", r["case"], kind_of(1, tp, pp), "b200", 8, per_s, i == 0,
                  float(r["measured_alloc_GiB"]) * 1.073741824,
                  options(f"llama3_70b:layers={r['layers']},sequence={tokens},fused=yes,sums=within,loss=megatron", "8xb200", "bf16",
                          dp, dp * accumulate, accumulate, tp, pp, "optimizer"))


def internevo():
    """InternLM of 7 billion parameters; four ports of 100 Gb/s per node; gradients are reduced in the
    model's type (hybrid_zero_optim.py); norms are of copies in 32 bits (modeling_internlm.py, norm1(_residual.float())),
    and made again in the backward pass (dropout_selective_checkpoint, on unless blocks are recomputed)."""
    for r in table("internevo_8_32.csv"):
        tp, gpus, tokens = int(r["tp"]), int(r["gpus"]), int(r["sequence"])
        accumulate = int(r["micro_batches"])
        batch = gpus // tp * int(r["micro_batch"]) * accumulate
        network = (f"llama:sequence={tokens},vocabulary=103168,fused=yes,sequence_parallel=no,norm_copies=again"
                   + (",recompute=full" if r["checkpoint"] == "1" else ""))
        yield Row("internevo", f"7B tp{tp} zero1 {r['zero1']} packed {r['packed']} recompute {r['checkpoint']}",
                  kind_of(gpus // 8, tp, 1, "recomputed" if r["checkpoint"] == "1" else ""), "a100", gpus,
                  float(r["tok_per_s_per_gpu"]), gpus == 8, 0,
                  options(network, f"{gpus // 8}x8xa100_80gb@4x100ib", "bf16", gpus // tp, batch, accumulate,
                          tp, 1, "optimizer", ("--set", "exchange.reduce_dtype=bf16",
                                               "--set", f"exchange.sharded_among={'all' if r['zero1'] == '-1' else 'node'}")))


def megatron():
    """Sequence parallelism and selective recomputation, or full recomputation without either; three
    chunks of layers per stage for 175B and 530B."""
    shapes = {"megatron-22B": (48, 6144, 64, 4), "gpt3-175B": (96, 12288, 96, 1),
              "turing-530B": (105, 20480, 128, 1), "megatron-1T": (128, 25600, 160, 1)}
    for r in table("megatron_seqpar.csv"):
        layers, width, heads, micro = shapes[r["model"]]
        tp, pp, gpus, batch = int(r["tp"]), int(r["pp"]), int(r["gpus"]), int(r["batch"])
        dp = gpus // (tp * pp)
        how = "recompute=full,sequence_parallel=no" if r["recompute"] == "full" else "recompute=selective"
        network = (f"gpt2:layers={layers},width={width},heads={heads},sequence=2048,positions=2048,"
                   f"vocabulary=51200,fused=yes,attention=plain,sums=within,{how}")
        machine = ("" if gpus == 8 else f"{gpus // 8}x") + "8xa100_80gb@8x200ib"
        yield Row("megatron", f"{r['model']} {r['recompute']}", kind_of(gpus // 8, tp, pp), "a100", gpus,
                  2048 * batch / float(r["step_s"]) / gpus, False, 0,
                  options(network, machine, "fp16", dp, batch, batch // (dp * micro), tp, pp,
                          more=("--set", "exchange.overlap=no",
                                *(equal_blocks(layers, pp) if pp in (1, 64) else
                                  ("--set", "pipeline.schedule=interleaved", "--set", "pipeline.chunks=3")))))


# Systems whose steps of Llama 3.1 8B and 405B are in fp8: by config_common.sh, and no config_common_fp4.sh beside it.
# All others are in NVFP4 by their configurations, or where none is stored (Lenovo, Oracle, Supermicro's B200)
# take as long as those, within 3 %; fp8 takes 20 % longer.
MLPERF_FP8 = ("hpf_n8", "HPE-Cray-XD670-H200-SXM5-141GB_n8_25.09", "nebius_h200_n64", "hpg.dgxb200x8.n1",
              "hpg.dgxb200x8.n32", "1xXE9780x8B300-SXM-270GB", "AS-8126GS-NB3RT")


def mlperf():
    """Llama 3.1 8B and 405B in fp8, or in fp4 (mlperf_fp4), on nodes of eight GPUs, or racks of 72 that NVLink joins.
    8B has one micro-batch per step, with half a sequence per GPU if there are fewer sequences than GPUs. 405B
    follows NVIDIA's configurations for the same number of micro-batches, with eight chunks of two layers per stage.
    8B in fp4, and on HPE's H200, has attention in fp8 (config_common_fp8attn.sh), 405B in 16 bits
    (NVTE_DPA_FP8_RECIPE=F16); the loss of 8B is Transformer Engine's kernel (CE_FUSION_IMPL=te)."""
    given = set()  # (set, GPU) whose smallest row was yielded
    for r in table("mlperf51_1node.csv") + table("mlperf51_smallest.csv"):
        name = re.search(r"(GB300|GB200|B300|B200|H200|H100)", r["gpu"])[1].lower()
        gpus, batch, each = int(r["gpus"]), int(r["global_batch"]), int(r["gpus_per_node"])
        if r["benchmark"] == "llama2_70b_lora":
            continue
        large = r["benchmark"] == "llama31_405b"
        nodes, accumulate = gpus // each, max(1, int(number(r["grad_accum"])))
        of = "mlperf" + ("" if r["system"] in MLPERF_FP8 else "_fp4")
        first = (of, name) not in given and not large
        if first:
            given.add((of, name))
        attention = "cudnn" + ("_fp8" if not large and (of == "mlperf_fp4" or r["org"] == "HPE") else "")
        machine = (f"{gpus}x{name}" if nodes == 1 or gpus <= 8 else
                   f"{-(-gpus // 72)}x{name}_nvl72" if name.startswith("gb") else f"{nodes}x{each}x{name}@8x400ib")
        dp = batch // accumulate if large else min(gpus, batch // accumulate)
        pp, cp = (8, 2) if large else (1, gpus // dp)
        tp = gpus // (dp * pp * cp)
        more = ("--set", "exchange.reduce_dtype=bf16")  # pretrain.py: grad_reduce_in_fp32=False
        if large:
            more += ("--set", "pipeline.schedule=interleaved", "--set", "pipeline.chunks=8")
        yield Row(of, f"{'405B' if large else '8B'} {r['org']} {name}", kind_of(nodes, tp, pp, cp=cp), name, gpus,
                  8192 * batch / float(r["step_s_median"]) / gpus, first, 0,
                  options(f"llama3_{'405b' if large else '8b'}:sequence=8192,fused=yes,sums=within,"
                          f"attention={attention}{'' if large else ',loss=fused'}",
                          machine, "nvfp4" if of == "mlperf_fp4" else "fp8", dp, batch, accumulate, tp, pp, "optimizer", more, cp))


# Systems whose LoRA configurations start in fp4 (config_common_fp4.sh; fp8 after half of the steps).
LORA_FP4 = ("1xXE9680Lx8B200-SXM-180GB", "nebius_b200_n1", "nebius_b300_n1", "theia_ngpu8_ngc25.09_nemo",
            "tyche_ngpu8_ngc25.09_nemo")


def mlperf_lora():
    """Llama 2 70B with adapters of rank 16 on attention's two products, on eight GPUs, in fp8 or in fp4 for the first
    half of the steps, estimated as all in fp4. Attention is in fp8 (FP8_DPA=1). Frozen weights have 8 bits (fp8_model_init), as have the
    gate's kept inputs on B200 and H200 (FP8_ACT). A sequence of 8192 per replica of one GPU, or of several GPUs, which divide the sequence (cp) or,
    on H200, the layers (tp, without sequence parallelism)."""
    given = set()  # (set, GPU) whose first row was yielded
    for r in table("mlperf51_1node.csv") + table("mlperf51_smallest.csv"):
        if r["benchmark"] != "llama2_70b_lora":
            continue
        name = re.search(r"(GB300|GB200|B300|B200|H200|H100)", r["gpu"])[1].lower()
        gpus, batch, accumulate = int(r["gpus"]), int(r["global_batch"]), int(r["grad_accum"])
        dp = batch // accumulate
        tp, cp = (gpus // dp, 1) if name == "h200" else (1, gpus // dp)
        of = "mlperf_lora" + ("_fp4" if r["system"] in LORA_FP4 else "")
        first = (of, name) not in given
        given.add((of, name))
        network = ("llama2_70b:sequence=8192,fused=yes,attention=cudnn_fp8,lora=16,lora_targets=linear_qkv+o_proj,"
                   "frozen_bits=8,sequence_parallel=no" + (",fp8_activation=yes" if name in ("b200", "h200") else ""))
        yield Row(of, f"70B {r['org']} {name}", kind_of(1, tp, cp=cp), name, gpus,
                  8192 * batch / float(r["step_s_median"]) / gpus, first, 0,
                  options(network, f"{gpus}x{name}", "nvfp4" if of == "mlperf_lora_fp4" else "fp8", dp, batch,
                          accumulate, tp, 1, "optimizer", cp=cp))


def torchtitan():
    """Llama 3.1 8B, FSDP on 8 H100 with 2.4 TB/s, activations partly recomputed; gradients are reduced in fp32.
    Only blocks are compiled: the loss is computed in fp32 by plain PyTorch (train.py, loss_fn)."""
    for i, r in enumerate(table("torchtitan_8.csv")):
        found = re.search(r"Techniques=(.*); TPS/GPU=([\d,]+); Memory\(GiB\)=([\d.]+)", r["row"])
        how = found[1]
        network = "llama3_8b:sequence=8192,recompute=products," + ("fused=compiled" if "compile" in how else "autocast=no")
        yield Row("torchtitan", how, kind_of(1, 1, 1, "sharded"), "h100", 8,
                  float(found[2].replace(",", "")), i == 0, float(found[3]) * 1.073741824,
                  options(network, "8xh100_96gb", "fp8" if "Float8" in how else "bf16", 8, 16, 1, 1, 1,
                          "parameters", ("--set", "exchange.reduce_dtype=fp32")), reserved=True)


def nanotron():
    """The ultrascale playbook's rows on EC2's p5; the table's head lists the models."""
    for r in table("ultrascale_1_2nodes.csv"):
        tp, pp, dp, nodes = int(r["tp"]), int(r["pp"]), int(r["dp"]), int(r["nodes"])
        accumulate, micro = int(r["grad_accum"]), int(r["mbs"])
        tied = "yes" if pp == 1 else "no"  # with several stages the last one has a copy
        shape = {"1.34": f"layers=16,width=2048,heads=32,feed_forward=8192,tied={tied}",
                 "3.57": f"layers=28,width=3072,heads=24,feed_forward=8192,tied={tied}",
                 "8.86": "layers=32,width=4096,heads=32,feed_forward=14336",
                 "80.0": "layers=80,width=8192,heads=64,feed_forward=28672"}.get(r["params_B"])
        if shape is None:
            shape = "layers=80,width=8192,heads=64,feed_forward=28672"
        yield Row("nanotron", f"{r['params_B']}B tp{tp} pp{pp} dp{dp} mbs{micro}x{accumulate} zero{r['zero']}",
                  kind_of(nodes, tp, pp), "h100", nodes * 8, number(r["tok_per_s_per_gpu"]), nodes == 1,
                  number(r["gpu_mem_GB"]) * 1.073741824,
                  options(f"llama:{shape},sequence=4096,vocabulary=131072,fused=yes",
                          f"{nodes}xp5.48xlarge" if nodes > 1 else "p5.48xlarge", "bf16", dp,
                          dp * micro * accumulate, accumulate, tp, pp,
                          "optimizer" if r["zero"] == "1" else "none"), r["ok"] == "1", True,
                  f"{r['params_B']}B on {nodes * 8}, batch {dp * micro * accumulate}")


def foundry():
    """MPT in llm-foundry: learned positions, no biases; FSDP; two metrics computed after each micro-batch. Its attention
    is FlashAttention's first kernel in Triton (submit_benchmarks.py, attn_impl), whose rate is known on A100 only."""
    shapes = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24),
              "3b": (2560, 20, 32), "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48)}
    for r in table("foundry_to16.csv"):
        if r["Sharding Strategy"] != "FULL_SHARD" or r["Model"] not in shapes:
            continue
        width, heads, layers = shapes[r["Model"]]
        tokens, gpus, gpu = int(r["SeqLen (T)"]), int(r["# GPUs"]), r["GPU"]
        accumulate, full = int(r["GradAccum"]), r["Activation Checkpointing"] == "True"
        network = (f"transformer:width={width},heads={heads},layers={layers},sequence={tokens},"
                   f"positions={tokens},vocabulary=50368,bias=no,fused=yes,loss=fused,metrics=2"
                   + (",attention=triton" if gpu[0] == "a" else "") + (",recompute=full" if full else ""))
        box = "8x" + ("a100" if gpu == "a100_40gb" else gpu)
        machine = (f"{gpus // 8}x" if gpus > 8 else "") + box + ("@8x400ib" if gpu[0] == "h" else "@8x200ib")
        narrow = width < 2500
        yield Row("foundry", f"{r['Model']} {tokens} {gpu} {r['Precision']} {r['MicroBatchSize']}x{accumulate}"
                  + (" recompute" if full else ""),
                  f"{'narrow' if narrow else '3b and more'}{', recomputed' if full else ''}", gpu[:4], gpus,
                  float(r["Throughput (T/s/GPU)"]), False, 0,
                  options(network, machine, "fp8" if "fp8" in r["Precision"] else "bf16", gpus,
                          gpus * int(r["MicroBatchSize"]) * accumulate, accumulate, 1, 1, "parameters"))


def bridge():
    """Llama 3 8B of Megatron-Bridge on eight GPUs; the loss is Transformer Engine's kernel
    (cross_entropy_fusion_impl)."""
    given = set()  # GPUs whose first row was yielded
    for r in table("bridge_to16.csv"):
        if r["model"] != "LLAMA3_8B" or r["tp"] != "1" or not r["kind"].startswith("Pre"):
            continue
        gpu, gpus = r["system"].removeprefix("DGX-").lower(), int(r["gpus"])
        batch, micro, tokens = int(r["gbs"]), int(r["mbs"]), int(r["sequence"])
        rates = re.findall(r"\d+", r["tok_per_s_per_gpu"])
        first = gpu not in given
        given.add(gpu)
        yield Row("bridge", f"8B {r['release']} {gpu} {r['precision']}", kind_of(1), gpu, gpus,
                  float(rates[0]), first, 0,
                  options(f"llama3_8b:sequence={tokens},fused=yes,sums=within,attention=cudnn,loss=fused", f"{gpus}x{gpu}",
                          "bf16" if "BF16" in r["precision"] else "fp8", gpus, batch, batch // (micro * gpus),
                          1, 1, "parameters" if number(r["fsdp"]) > 1 else "optimizer"))


def bridge_experts():
    """Qwen3-30B-A3B of Megatron-Bridge: all GPUs are one group of experts, or two stages of one each, whose 24
    chunks are simulated as 12. Gradients are summed in 16 bits, nothing is recomputed, tokens are balanced
    (scripts/performance/configs/qwen/qwen3_llm_pretrain.py: grad_reduce_in_fp32, recompute_granularity,
    moe_router_force_load_balancing). HybridEP exchanges tokens (qwen3_workload_base_configs.py), but on B200 and
    H100 only since February 2026 (pull requests 2477, 2499). Transformer Engine launches each expert's products;
    since 26.06 on Blackwell they are one kernel, attention is in fp8, and CUDA graphs replay all (4606). Rows that drop tokens are left out."""
    given = set()  # GPUs whose first row was yielded
    for r in table("bridge_to16.csv"):
        if r["model"] != "Qwen3_30B_a3B" or not r["kind"].startswith("Pre"):
            continue
        gpu, gpus = r["system"].removeprefix("DGX-").lower(), int(r["gpus"])
        batch, micro, ep, pp = int(r["gbs"]), int(r["mbs"]), int(r["ep"]), int(r["pp"])
        nodes = gpus // 8
        more = ("--set", "exchange.reduce_dtype=bf16")
        how = (",attention=cudnn_fp8,graphs=yes" if gpu != "h100" and r["release"] >= "26.06"
               else ",attention=cudnn,grouped=no")
        how += ",dispatch=deepep" if gpu not in ("b200", "h100") or r["release"] > "26.02" else ""
        if pp > 1:
            more += ("--set", "pipeline.schedule=interleaved", "--set", f"pipeline.chunks={min(12, int(r['vp']))}")
        yield Row("bridge_experts", f"30B {r['release']} {gpu} {r['precision']} mbs{micro}", kind_of(nodes, pp=pp, ep=ep), gpu, gpus,
                  float(r["tok_per_s_per_gpu"]), gpu not in given, 0,
                  options(f"qwen3_30b_a3b:sequence={r['sequence']},fused=yes,sums=within,loss=fused{how}",
                          f"{gpus}x{gpu}" if nodes == 1 else f"{nodes}x8x{gpu}@8x400ib", "fp8", 1, batch,
                          batch // (micro * ep), 1, pp, "optimizer", more, ep=ep))
        given.add(gpu)


SETS = (vtrain, simumax, internevo, megatron, mlperf, mlperf_lora, torchtitan, nanotron, foundry, bridge,
        bridge_experts)


def large_memory(folder, memory_rate=1):
    """Makes a copy of scenarios/ for DLSCALE_SHARE with MEMORY_TIMES the GPUs' memory, and A100's memory
    rate times `memory_rate`."""
    machines = f"{folder}/scenarios/machines"
    shutil.copytree(f"{ROOT}/scenarios", f"{folder}/scenarios")
    lines = open(f"{machines}/gpus.csv", encoding="utf-8").read().splitlines()
    heading = next(line for line in lines if not line.startswith("#"))
    at, rate = heading.split(",").index("memory"), heading.split(",").index("memory_rate")
    with open(f"{machines}/gpus.csv", "w", encoding="utf-8") as out:
        for line in lines:
            if not line.startswith("#") and line != heading:
                cells = line.split(",")
                found = re.match(r"([\d.]+)(.*)", cells[at])
                cells[at] = f"{MEMORY_TIMES * float(found[1]):g}{found[2]}"
                if line.startswith("a100"):
                    cells[rate] = f"{memory_rate * float(cells[rate].removesuffix('GB/s')):g}GB/s"
                line = ",".join(cells)
            print(line, file=out)


def simulate(row, factor, folder, number_of):
    """Tokens/s per GPU and their 95 % interval's lower and upper end, or dlsim's message if it refuses."""
    out = f"{folder}/{number_of}.csv"
    more = ["--calibrate", f"{factor:.6g}"] if factor else []
    done = subprocess.run([DLSIM, "-q", *row.options, *more, "-o", out], capture_output=True, text=True,
                          env={**os.environ, "DLSCALE_SHARE": folder}, check=False)
    if done.returncode != 0:
        return (done.stdout + done.stderr).strip().splitlines()[0]
    with open(out, encoding="utf-8") as file:
        cells = next(csv.DictReader(line for line in file if not line.startswith("#")))
    os.remove(out)
    sequence = float(cells["tokens_per_s"]) / float(cells["throughput_per_s"]) / row.gpus
    low = number(cells["throughput_low_per_s"]) or number(cells["throughput_per_s"])
    high = number(cells["throughput_high_per_s"]) or number(cells["throughput_per_s"])
    return float(cells["throughput_per_s"]) * sequence, low * sequence, high * sequence


UNITS = {"B": 1e-9, "kB": 1e-6, "MB": 1e-3, "GB": 1, "TB": 1e3}


def weigh(row):
    """Largest GB allocated on a GPU over the stages, and the worst verdict, by dlsim --fits; None if it
    refuses."""
    done = subprocess.run([DLSIM, *row.options, "--fits"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        return None
    size = r"([\d.]+) ([kMGT]?B)"
    needs = re.findall(rf"{size} +[\d.]+ [kMGT]?B +[\d.]+ [kMGT]?B +(yes|without cache|no) ", done.stdout)
    workspaces = re.findall(rf"workspace\s+{size.replace(' ', chr(92) + 's+')}", done.stdout)
    stages = [(float(n) * UNITS[of] - float(w) * UNITS[w_of], verdict)
              for (n, of, verdict), (w, w_of) in zip(needs, workspaces, strict=True)]
    worst = ("no", "without cache", "yes")
    return max(s[0] for s in stages), min((s[1] for s in stages), key=worst.index)


def judge_memory(rows, jobs):
    """Prints errors of the estimated memory, and the verdicts for rows that ran and that did not."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        weighed = [(r, w) for r, w in zip(rows, pool.map(weigh, rows)) if w]
    for name in dict.fromkeys(r.set for r, _ in weighed):
        mine = [(r, w) for r, w in weighed if r.set == name]
        measured = [(r, w) for r, w in mine if r.gigabytes]
        if measured:
            line(f"{name}, memory {'reserved' if measured[0][0].reserved else 'allocated'}, from allocated",
                 [(w[0], r.gigabytes) for r, w in measured])
        if len(measured) > 1 and measured[0][0].reserved:
            over = sorted(r.gigabytes / w[0] for r, w in measured)
            print(f"   reserved over allocated: median {statistics.median(over):.2f},"
                  f" 5 to 95 % {over[len(over) // 20]:.2f} to {over[-1 - len(over) // 20]:.2f}")
        for kind in ("", " dp") if any(not r.ran for r, _ in mine) else ("",):
            of = [(r, w) for r, w in mine if kind == "" or re.search(" dp$| dp ", r.kind)]
            says = collections.Counter((r.ran, w[1]) for r, w in of)
            right = lambda fits: 100 * sum((w[1] in fits) == r.ran for r, w in of) / len(of)
            print(f"   fits{kind}: {len(of)} rows, " + "; ".join(
                f"{'ran' if ran else 'failed'}: " + ", ".join(f"{v} {says[ran, v]}" for v in ("yes", "without cache", "no"))
                for ran in (True, False) if any(key[0] == ran for key in says))
                + f"; right {right(('yes',)):.1f} % by yes, {right(('yes', 'without cache')):.1f} % by both")


def run(rows, factors, folder, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda i: simulate(rows[i], factors[i], folder, i), range(len(rows))))


def line(name, pairs, inside=None):
    errors = [p / m - 1 for p, m in pairs]
    sizes = [abs(e) for e in errors]
    text = (f"{name:52} {len(pairs):4} {100 * statistics.mean(sizes):6.1f} {100 * statistics.median(sizes):6.1f}"
            f" {100 * max(sizes):6.1f} {100 * statistics.mean(errors):+6.1f}")
    print(text + (f" {100 * sum(inside) / len(inside):6.0f}" if inside else ""))


A100_MEMORY, A100_SUSTAINED = 0.545, 1.09  # sim/workloads/roofline_rates.c
MEMORY_PARTS = (0.40, 0.45, 0.50, 0.55, 0.60, 0.70, 0.85)  # reached fractions of the data sheet's rate
SUSTAINED = (1.0, 1.15, 1.3)  # simulated factors; step times between them are interpolated


def fitted(row):
    """Whether the row is one that A100's parameters were fitted to; Megatron's rows beyond 64 GPUs take
    too long."""
    return row.gpu.startswith("a100") and {
        "internevo": True, "megatron": row.gpus <= 64, "foundry": "recomputed" not in row.kind}.get(row.set, False)


def judge_left_out(rows, jobs):
    """Grid search for the least mean of the sets' mean errors."""
    rows = [row._replace(options=[x.replace("scenario.steps=6", "scenario.steps=2") for x in row.options])
            for row in rows if fitted(row)]
    step_s = {}  # seconds per token, by memory fraction and sustained factor
    for part in MEMORY_PARTS:
        for sustained in SUSTAINED:
            with tempfile.TemporaryDirectory() as folder:
                large_memory(folder, part * sustained / A100_MEMORY)
                done = run(rows, [sustained / A100_SUSTAINED] * len(rows), folder, jobs)
            step_s[part, sustained] = [None if isinstance(d, str) else 1 / d[0] for d in done]
    names = list(dict.fromkeys(row.set for row in rows))

    def errors(name, part, sustained):
        low = SUSTAINED[0] if sustained <= SUSTAINED[1] else SUSTAINED[1]
        high = SUSTAINED[SUSTAINED.index(low) + 1]
        far = (sustained - low) / (high - low)
        return [1 / (row.tokens * (a + far * (b - a))) - 1
                for row, a, b in zip(rows, step_s[part, low], step_s[part, high]) if row.set == name and a and b]

    mean = lambda of: statistics.mean(abs(e) for e in of)
    factors = [SUSTAINED[0] + 0.01 * i for i in range(round(100 * (SUSTAINED[-1] - SUSTAINED[0])) + 1)]
    print(f"{'A100, fitted to':36} {'memory':>6} {'factor':>6}  {'judged on':12} {'rows':>4} {'mean %':>6} {'median':>6}"
          f" {'max %':>6} {'bias %':>6}")
    for out in [None, *names]:
        of = [name for name in names if name != out]
        best = min(((p, s) for p in MEMORY_PARTS for s in factors),
                   key=lambda at: statistics.mean(mean(errors(name, *at)) for name in of))
        for name in [out] if out else names:
            found = errors(name, *best)
            print(f"{', '.join(of):36} {best[0]:6.2f} {best[1]:6.2f}  {name:12} {len(found):4} {100 * mean(found):6.1f}"
                  f" {100 * statistics.median(abs(e) for e in found):6.1f} {100 * max(abs(e) for e in found):6.1f}"
                  f" {100 * statistics.mean(found):+6.1f}")


CELL_LEAST = 5  # rows


def judge_choices(name, choices, details):
    """Prints the regret of (row, estimate) `choices`: best measured rate over that of the row estimated the
    fastest, - 1, by cell."""
    cells = collections.defaultdict(list)
    for row, estimate in choices:
        cells[row.cell].append((estimate, row))
    regrets = []
    for cell, of in sorted(cells.items()):
        if len(of) < CELL_LEAST:
            continue
        fastest, chosen = max(of, key=lambda item: item[0])
        best = max(of, key=lambda item: item[1].tokens)
        regrets.append(best[1].tokens / chosen.tokens - 1)
        if details:
            print(f"   {cell} ({len(of)} rows): {100 * regrets[-1]:.1f} %: {chosen.name} {chosen.tokens:.0f}, estimated"
                  f" {fastest:.0f}; best {best[1].name} {best[1].tokens:.0f}, estimated {best[0]:.0f}")
    if regrets:
        print(f"{name + ', regret of the estimated fastest row, cells':52} {len(regrets):4} {100 * statistics.mean(regrets):6.1f}"
              f" {100 * statistics.median(regrets):6.1f} {100 * max(regrets):6.1f}")


def judge_sums():
    """Prints how many of vTrain's steps are linear, to 1 ns, in the number of micro-batches and, without dp, in that
    of layers, and the time of a layer and micro-batch."""
    steps = collections.defaultdict(dict)  # ns by (micro-batches, layers)
    for r in table("vtrain_single.csv"):
        width, tp, dp, pp, micro = (int(r[name]) for name in (
            "hidden size", "tensor parallelism", "data parallelism", "pipeline parallelism", "micro batch"))
        count = int(r["global batch"]) // (dp * micro)
        steps[width, tp, micro, pp, dp][count, int(r["# layers"])] = 1e6 * float(r["iteration time (ms)"])
    linear, layers = collections.Counter(), collections.defaultdict(set)
    for (width, tp, micro, pp, dp), of in steps.items():
        counts, depths = (sorted({key[axis] for key in of}) for axis in (0, 1))
        for name, lines in (("micro-batches", [[(c, of[c, d]) for c in counts] for d in depths]),
                            ("layers", [[(d, of[c, d]) for d in depths] for c in counts] if dp == 1 else [])):
            for line_of in lines:
                for (x, a), (y, b), (z, c) in zip(line_of, line_of[1:], line_of[2:]):
                    linear[name, abs(b - a - (c - a) * (y - x) / (z - x)) <= 1] += 1
        if len(counts) > 1:
            slope = [(of[counts[1], d] - of[counts[0], d]) / (counts[1] - counts[0]) for d in (depths[0], depths[-1])]
            layers[width, tp, micro].add(round(pp * (slope[1] - slope[0]) / (depths[-1] - depths[0]) / 1e6, 6))
    for name in ("micro-batches", "layers"):
        print(f"vtrain, {linear[name, True]} of {linear[name, True] + linear[name, False]} triples of steps that differ in"
              f" {name} only are linear to 1 ns")
    print("vtrain, ms of a layer and micro-batch, whatever the layers, micro-batches, pp and dp:")
    for width, tp in dict.fromkeys(key[:2] for key in sorted(layers)):
        print(f"   width {width}, tp {tp}, " + "; ".join(
            f"{micro} sequence{'s' if micro > 1 else ''} " + " or ".join(f"{t:.6f}" for t in sorted(of))
            for (w, t_p, micro), of in sorted(layers.items()) if (w, t_p) == (width, tp)))


LARGE_SET = 100  # rows


def every(rows, given):
    rows = list(rows)
    return rows[::1 if given.left_out and len(rows) < LARGE_SET else given.every]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not os.path.isdir(DATA):
        sys.exit(f"judge_layouts.py: no {DATA}; DL_DATA names the folder of llm/")
    unknown = set(given.sets) - {of.__name__ for of in SETS}
    if unknown:
        sys.exit(f"judge_layouts.py: no set '{unknown.pop()}'; sets are {', '.join(of.__name__ for of in SETS)}")
    rows = [row for of in SETS if not given.sets or of.__name__ in given.sets for row in every(of(), given)]
    if given.left_out:
        return judge_left_out(rows, given.jobs)
    judge_memory(rows, given.jobs)
    if given.memory:
        return
    if any(row.set == "vtrain" for row in rows):
        judge_sums()
    rows = [row for row in rows if row.ran]
    with tempfile.TemporaryDirectory() as folder:
        large_memory(folder)
        plain = run(rows, [0] * len(rows), folder, given.jobs)
        refused = [(r, p) for r, p in zip(rows, plain) if isinstance(p, str)]
        kept = [(r, p) for r, p in zip(rows, plain) if not isinstance(p, str)]
        rows, plain = [r for r, _ in kept], [p for _, p in kept]
        own, others = {}, {}
        by = collections.defaultdict(list)
        for r, p in kept:
            by[r.set, r.gpu].append((r, p[0] / r.tokens))
        for (name, gpu), of in by.items():
            small = [ratio for r, ratio in of if r.small]
            own[name, gpu] = statistics.median(small) if small else 0
        for name, gpu in by:
            rest = [statistics.median(x for _, x in of) for key, of in by.items()
                    if key[1] == gpu and key[0] != name and not key[0].endswith("_fp4")]
            others[name, gpu] = statistics.median(rest) if rest else 0
        scaled = {}
        for title, factor in (("own", own), ("others", others)):
            of = [factor[r.set, r.gpu] if not (title == "own" and r.small) else 0 for r in rows]
            some = [i for i, f in enumerate(of) if f]
            done = run([rows[i] for i in some], [of[i] for i in some], folder, given.jobs)
            scaled[title] = dict(zip(some, done))
    print(f"{'set, kind':52} {'rows':>4} {'mean %':>6} {'median':>6} {'max %':>6} {'bias %':>6} {'in 95 %':>6}")
    for name in dict.fromkeys(r.set for r in rows):
        mine = [i for i, r in enumerate(rows) if r.set == name]
        inside = lambda of: [plain[i][1] <= rows[i].tokens <= plain[i][2] for i in of]
        line(f"{name}, as estimated", [(plain[i][0], rows[i].tokens) for i in mine], inside(mine))
        for kind in sorted({(rows[i].gpu, rows[i].kind) for i in mine}):
            of = [i for i in mine if (rows[i].gpu, rows[i].kind) == kind]
            line(f"   {kind[0]} {kind[1]}", [(plain[i][0], rows[i].tokens) for i in of], inside(of))
        for title in scaled:
            of = [i for i in mine if i in scaled[title] and not isinstance(scaled[title][i], str)]
            used = sorted({f"{(own if title == 'own' else others)[name, rows[i].gpu]:.2f}" for i in of})
            if of:
                line(f"  factor of {'its smallest rows' if title == 'own' else 'other sets'} ({', '.join(used)})",
                     [(scaled[title][i][0], rows[i].tokens) for i in of])
        judge_choices(name, [(rows[i], plain[i][0]) for i in mine if rows[i].cell], given.rows)
    for r, why in refused[:5]:
        print(f"refused: {r.set} {r.name}: {why}")
    if refused:
        print(f"{len(refused)} rows refused")
    if given.rows or given.csv:
        out = open(given.csv, "w", encoding="utf-8") if given.csv else None
        for i, r in enumerate(rows):
            cells = [r.set, r.name, r.kind, r.gpu, r.gpus, *(f"{x:.5g}" for x in (r.tokens, *plain[i])),
                     f"{r.gigabytes:g}", f"{100 * (plain[i][0] / r.tokens - 1):+.1f}"]
            if out:
                csv.writer(out).writerow(cells)
            if given.rows:
                print("  ".join(map(str, cells)))


if __name__ == "__main__":
    main()
