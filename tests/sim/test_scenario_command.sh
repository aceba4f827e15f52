#!/usr/bin/env bash
# Scenarios given by options equal scenario files with the same settings. Usage: test_scenario_command.sh DLSIM
set -u
tested=$(realpath "$1")
scenarios=$(cd "$(dirname "$0")/../../scenarios" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
equal() { cmp -s "$1" "$2" || fail "$3: $(diff "$1" "$2" | head -n 4)"; }

costs=$scenarios/../tests/golden/gpu/costs.ini
cat >whole.ini <<END
; Kept as it is.
[scenario]
name  = costs on p2.8xlarge
steps = 20

[machine]
file     = $scenarios/machines/p2.8xlarge.ini
workers  = 1, 2, 4      ; of eight
dispatch = single

[exchange]
bucket_bytes = 250000
overlap      = yes

[workload]
costs = $costs
batch = 128

[sync]
mode = allreduce, average
interval = 1, 10
END
"$tested" -q whole.ini -o whole.csv || fail "whole.ini"

# The same scenario by options only.
ln -s "$costs" costs.ini
all=(--costs costs.ini --machine p2.8xlarge --workers 1,2,4 --batch 128 --mode allreduce,average
    --interval 1,10 --steps 20 --set exchange.overlap=yes --set exchange.bucket_bytes=250000
    --set machine.dispatch=single)
expect 0 "points in line.csv" "${all[@]}" -o line.csv
equal whole.csv line.csv "the command line"

# A saved scenario runs from any folder; saved in the current folder, it keeps file names as typed.
mkdir elsewhere
expect 0 "no costs are missing" "${all[@]}" --check --save elsewhere/saved.ini
(cd / && "$tested" -q "$folder/elsewhere/saved.ini" -o "$folder/saved.csv") || fail "saved.ini"
equal whole.csv saved.csv "the saved scenario"
grep -q '^; batch: samples of a step of all workers' elsewhere/saved.ini || fail "saved without comments"
expect 0 "" "${all[@]}" --check --save here.ini
grep -q '^costs = costs.ini$' here.ini || fail "a name beside the file was changed: $(grep ^costs here.ini)"

# Options replace keys of the file or add missing ones; the rest of the file stays.
sed -e 's/1, 2, 4  /1, 8/' -e 's/= allreduce, average/= async/' -e '/^interval/d' -e '/^overlap/d' \
    -e 's/steps = 20/steps = 30/' whole.ini >other.ini
expect 0 "points in" other.ini --workers '1, 2, 4' --mode allreduce,average --interval 1,10 --steps 20 \
    --set exchange.overlap=yes -o other.csv --save elsewhere/other.ini
equal whole.csv other.csv "options in place of a file's keys"
grep -q '^; Kept as it is.$' elsewhere/other.ini || fail "a comment was lost"
expect 0 "" elsewhere/other.ini --costs costs.ini -o relative.csv # relative to here, not to the scenario
equal whole.csv relative.csv "a cost file in place of a scenario's in another folder"

# Defaults of a new scenario: all-reduce on 1, 2, 4, ... GPUs of the machine.
expect 0 "4 points" --costs costs.ini --machine p2.8xlarge --batch 128
expect 0 "5 points" --costs costs.ini --machine p2.16xlarge --batch 128
[ "$(awk -F, 'n { print $4 } /^[^#]/ { n = 1 }' results.csv | sort -u)" = allreduce ] ||
    fail "the default mode is not allreduce"
expect 2 "is of a GPU (" --costs costs.ini --batch 128

# Costs measured on a K80 are scaled to the V100 by data sheets, unless --no-scale is given.
sed 's/^device.*/device = K80/' "$costs" >k80.ini
other=(--costs k80.ini --machine dgx1_v100 --workers 2 --batch 128)
expect 0 "scaled from" "${other[@]}" -o scaled.csv
expect 0 "" "${other[@]}" --no-scale -o left.csv
expect 0 "" "${other[@]}" --set workload.scale=no -o no.csv
equal left.csv no.csv "--no-scale"
cmp -s left.csv scaled.csv && fail "--no-scale changes nothing"

# Parameters by count equal parameters by bytes; the default batch is the measured one.
sed -e '/^\[costs\]/a batch_max = 16' -e '/^parameter_bytes/d' "$costs" >bare.ini
expect 0 "4 points" --costs bare.ini --machine p2.8xlarge --parameters 25.6e6 -o count.csv
expect 0 "4 points" --costs bare.ini --machine p2.8xlarge --parameter-bytes 102.4MB -o bytes.csv \
    --batch-per-worker 16
equal count.csv bytes.csv "parameters by count, the measured batch"
expect 2 "--parameter-type bf16 needs --parameters COUNT" --costs bare.ini --machine p2.8xlarge \
    --parameter-type bf16
# The default batch of a worker is not named as the costs' if --solve replaces it.
divided=(--costs bare.ini --machine p2.8xlarge --parameters 25.6e6 --layout fsdp=2 --workers 2 --notes --check)
named="a worker's batch of 32 is 2 times the 16 samples per GPU"
expect 0 "$named" "${divided[@]}"
"$tested" "${divided[@]}" --solve batch_per_worker --target throughput_per_s=100 >solved.txt 2>&1 || fail "--solve: $(cat solved.txt)"
[[ $(tr -s '\n ' '  ' <solved.txt) != *"$named"* ]] || fail "the batch that --solve replaces is named: $(cat solved.txt)"
expect 0 "4 points" --costs bare.ini --machine p2.8xlarge --parameters 51.2e6 --parameter-type bf16 -o half.csv
equal count.csv half.csv "twice as many parameters of half the size"
expect 1 "[costs] parameter_bytes (--parameter-bytes BYTES or --parameters COUNT gives them)" \
    --costs bare.ini --machine p2.8xlarge --set workload.missing=refuse
expect 2 "give only one of them" --costs bare.ini --machine p2.8xlarge --parameters 4 --parameter-bytes 4
expect 2 "--parameters: " --costs bare.ini --machine p2.8xlarge --parameters many

# One measured rate replaces a cost file; the saved scenario gives equal results from another folder.
number=(--samples-per-s 334 --parameters 25.6e6 --batch 32 --machine p2.8xlarge --mode allreduce,average,async)
expect 0 "12 points" "${number[@]}" -o number.csv --save elsewhere/number.ini
expect 0 "334 samples/s by one worker at any batch size: assumed, a third of it forward" "${number[@]}" --notes
expect 0 "[dispatch] per_worker_ns = 5 ms" "${number[@]}" --notes
(cd / && "$tested" -q "$folder/elsewhere/number.ini" -o "$folder/again.csv") || fail "number.ini"
equal number.csv again.csv "the saved scenario of one number"
awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
    $c["workers"] == 1 && $c["sync"] == "allreduce" { ok = $c["throughput_per_s"] > 330 && $c["throughput_per_s"] < 335 }
    END { exit !ok }' number.csv || fail "one worker does not have the throughput that was given"
expect 0 "scaled from v100 to k80" "${number[@]}" --set workload.device=V100
expect 1 "lacks:" --samples-per-s 334 --batch 32 --machine p2.8xlarge
# An option that sets the source of times replaces the file's source; two such options are an error.
expect 0 "9 points" whole.ini --workload resnet50 --check
expect 0 "" -q whole.ini --samples-per-s 334 --parameters 25.6e6 --check
expect 1 "costs.ini:4: [costs] workload" whole.ini --samples-per-s 334 --costs costs.ini
expect 2 "needs samples_per_s" whole.ini --set workload.device=V100
expect 2 "--batch-per-worker (samples of a step, as --batch-per-worker 8) or --batch" --samples-per-s 334 --machine p2.8xlarge

# Costs of exchange combine with any source of compute times, each given by option or file: per step, 8 GPUs
# exchange in 5 s as the cost file says, and 4 GPUs at the machine's rates.
printf '[costs]\nschema = 1\n[collective allreduce 8]\nbytes_0 = 5e9\nbytes_1 = 5e9\n' >links.ini
net=(--machine p2.8xlarge --workers 4,8 --batch-per-worker 16 --set exchange.overlap=no
    --set exchange.bucket_bytes=1e15 --replicates 1)
step() { awk -F, -v of="$1" '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
    $c["workers"] == of { print $c["step_mean_s"] }' "$2"; }
adds() { # FILE BASE: FILE's step takes as long as BASE's on 4 GPUs, and 5 s more on 8
    awk -v a="$(step 4 "$1")" -v b="$(step 4 "$2")" -v c="$(step 8 "$1")" 'BEGIN {
        exit !(a == b && c > a + 4.9 && c < a + 5.1) }' ||
        fail "$1: $(step 4 "$1") $(step 8 "$1"), $2: $(step 4 "$2")"
}
expect 0 "resnet50 on p2.8xlarge" --workload resnet50 "${net[@]}" -o plain.csv
expect 0 "measured collectives" --workload resnet50 --costs links.ini "${net[@]}" -o with.csv \
    --save both.ini
adds with.csv plain.csv
expect 0 "" -q both.ini -o again.csv
equal with.csv again.csv "the saved scenario of a network and links"
expect 0 "" -q --workload resnet50 "${net[@]}" -o plain.csv --save net.ini
expect 0 "" -q net.ini --costs links.ini -o beside.csv
adds beside.csv plain.csv
expect 0 "" -q both.ini --workload resnet18 -o other.csv
expect 0 "" -q net.ini --workload resnet18 -o plain.csv
adds other.csv plain.csv
expect 0 "" -q --samples-per-s 334 --parameters 25.6M "${net[@]}" -o plain.csv
expect 0 "" -q --samples-per-s 334 --parameters 25.6M --costs links.ini "${net[@]}" -o with.csv
adds with.csv plain.csv
expect 0 "no row has a collective that was measured (allreduce of 8 ranks" --workload resnet50 --costs links.ini \
    "${net[@]}" --workers 2 --notes

# Beside a network's name a file may give the time of making a batch: 16 samples of 10 ms on one core, for each of two.
printf '[costs]\nschema = 1\n[op input]\nfixed_ns = 0\nper_sample_ns = 10ms\n[input]\nbytes_per_sample = 602112\n' >loader.ini
for model in "--workload resnet50" "--samples-per-s 1000 --parameters 25.6M"; do
    # shellcheck disable=SC2086 # several words
    expect 0 "bound by" $model --costs loader.ini --machine 2xa100 --workers 2 --batch-per-worker 16 -o loaded.csv
    # shellcheck disable=SC2086
    rate=$("$tested" $model --costs loader.ini --machine 2xa100 --workers 2 --batch-per-worker 16 --set input.cores=1 -o loaded.csv |
        sed -n 's/.*: \([0-9.]*\) samples.*/\1/p;T;q')
    awk -v r="$rate" 'BEGIN { exit !(r > 99 && r < 101) }' || fail "$model: $rate samples/s, not 100"
done
expect 1 "a cost file may have costs of exchange, as dlcal links writes them, and of input only" --workload resnet50 --costs costs.ini "${net[@]}"
expect 1 "[op NAME] (--workload NAME or --samples-per-s RATE gives them beside this file)" --costs links.ini "${net[@]}"

# --workers all uses all GPUs of all the scenario's nodes.
expect 0 "1 point in" "${number[@]}" --workers all --mode allreduce -o all.csv
expect 0 "1 point in" "${number[@]}" --workers 8 --mode allreduce -o eight.csv
equal all.csv eight.csv "all GPUs of a p2.8xlarge"
expect 0 "batch 1024" "${number[@]}" --batch 1024 --workers 1,all --mode allreduce --set machine.nodes=4
expect 2 "all are 8 GPUs, which are given too" "${number[@]}" --workers 8,all
expect 2 "12 workers, but p2.8xlarge.ini has 8 GPUs: [machine] nodes = 2 adds nodes; gpus lists those that workers share" \
    whole.ini --workers 12
# Without a scenario file, nodes are added until all workers have a GPU, if the machine has a network.
expect 0 "334 samples/s on p2.8xlarge, 4 nodes" "${number[@]}" --workers 1,8,32 --mode allreduce
expect 0 "batch 1024" "${number[@]}" --batch 1024 --workers 1,32 --mode allreduce
expect 0 "334 samples/s on p2.8xlarge
" "${number[@]}" --workers 1,8 --mode allreduce
expect 2 "4 workers, but z10pe_2x1080ti.ini has 2 GPUs: gpus lists those that workers share" \
    --samples-per-s 334 --parameters 25.6M --batch-per-worker 32 --machine z10pe_2x1080ti --workers 4

# Without --workers each of several unlike machines is shown with all its GPUs, not only with as many as the smallest.
"$tested" -q --samples-per-s 334 --parameters 25.6M --batch-per-worker 32 --machine 4xrtx4090,8xa100,2xh100 -o unlike.csv
awk -F, '/^[^#]/ && !n { for (i = 1; i <= NF; i++) at[$i] = i; n = 1; next }
    n { printf "%s %s;", $at["machine"], $at["workers"] }' unlike.csv >unlike
[ "$(cat unlike)" = "4xrtx4090 1;4xrtx4090 4;8xa100 1;8xa100 8;2xh100 1;2xh100 2;" ] || fail "unlike machines: $(cat unlike)"
# --set gives the keys of options as these do, also where defaults follow from them.
expect 0 "tp=2" --workload gpt2 --machine 8xh100 --set workload.batch=64 --set machine.layout="tp=2|tp=4" -o set.csv
"$tested" -q --workload gpt2 --machine 8xh100 --batch 64 --layout "tp=2|tp=4" -o option.csv
equal option.csv set.csv "--set of options"

# Averages use an all-reduce unless keys of a server are given; a note names the default where averages take time.
expect 0 "default [sync] where = auto: averages are an all-reduce of the GPUs" "${number[@]}" \
    --workers 32 --mode average --interval 10
for server in sync.server_threads=2 exchange.shards=2; do
    expect 0 "default [sync] where = auto: averages go through the memory of the first node's host" \
        "${number[@]}" --workers 32 --mode average --interval 10 --set $server
done
averaged=$("$tested" "${number[@]}" --workers 32 --mode average --set sync.where=allreduce)
[[ $averaged == *"[sync] where"* ]] && { echo "FAIL: a default that is given: $averaged"; failures=$((failures + 1)); }

# Times measured on a CPU are rejected for a GPU, unless --no-scale is given.
sed 's/^device = .*/device = AMD EPYC/' "$costs" >epyc.ini
expect 1 "epyc.ini: times of a processor, AMD EPYC, say nothing about those of a GPU, k80" \
    --costs epyc.ini --machine p2.8xlarge --workers 2 --batch 128
expect 0 "Settings: batch 128, allreduce." --costs epyc.ini --machine p2.8xlarge --workers 2 --batch 128 --no-scale

# --parameters accepts thousands (k), millions (M) and billions (B).
expect 0 "" "${number[@]}" --parameters 25600k -o thousands.csv
expect 0 "" "${number[@]}" --parameters 25.6M -o millions.csv
expect 0 "" "${number[@]}" --parameters 0.0256B -o billions.csv
expect 0 "" "${number[@]}" --parameters 25.6e6 -o plain.csv
for file in thousands millions billions; do equal plain.csv $file.csv "$file"; done
expect 2 "--parameters: 'xM' is not a count, such as" "${number[@]}" --parameters xM
expect 2 "--parameters: '25.6MB' is not a count, such as 25600000, 25.6e6 or 25.6M, but bytes" \
    "${number[@]}" --parameters 25.6MB
expect 2 "--parameters: 25.6 is not a whole number; 25.6M are as many millions" \
    "${number[@]}" --parameters 25.6
expect 1 "resnet50: there is no such scenario, but a network of this name: give it with --workload" resnet50
expect 1 "dgx1_v100: there is no such scenario, but a machine of this name" dgx1_v100
echo 'import torch' >train.py
expect 1 "train.py: it is not a scenario but a program, which dlprof run python3 records" train.py
expect 1 "nosuch: cannot open: No such file" nosuch
expect 1 "2: there is no such scenario; a list has commas and no spaces" --workload gpt2 --machine 2xrtx3090 --workers 1 2
expect 1 "1 cost that the scenario needs is missing" --samples-per-s 334 --batch 32 --machine p2.8xlarge
expect 2 "all means the GPUs of [machine] file" --costs costs.ini --cores 2 --batch 128 --workers all
expect 2 "are not connected: it has no [nics ..]" "$scenarios/z10pe/allreduce.ini" --set machine.nodes=2

expect 2 "nothing to simulate: give a SCENARIO, or --costs"
expect 2 "--costs, --workload or --samples-per-s is needed" --workers 4
expect 2 "does not say which batch was measured" --costs costs.ini --machine p2.8xlarge
expect 2 "did you mean 'p2.8xlarge'" --costs costs.ini --machine p2.8xlrge --batch 128
expect 2 "expected SECTION.KEY=VALUE" whole.ini --set exchange.=yes
expect 2 "cannot contain control characters" whole.ini --set $'sync.mode=async\n[noise]'
expect 2 "did you mean 'overlap'" whole.ini --set exchange.overlp=yes
expect 2 "dlsim: --mode allreduc: unknown mode 'allreduc'; did you mean 'allreduce'" whole.ini --mode allreduc
# A faulty value is the command line's or the file's.
expect 2 "dlsim: --steps 0: 0 is not in 1..10000000" whole.ini --steps 0
expect 2 "dlsim: --set scenario.seed=x: 'x' is not a whole number" whole.ini --set seed=x
sed 's/^steps = 20/steps = 0/' whole.ini >faulty.ini
expect 1 "faulty.ini:4: [scenario] steps = 0: 0 is not in" faulty.ini --mode average
for option in costs measured left-out save output save-machine; do
    expect 2 "dlsim: --$option: the name of the file is empty" whole.ini --$option=
done
expect 2 "dlsim: --seed: '-1' is out of range" whole.ini --seed -1
# A key without an option, the network, and other programs' names as options.
expect 2 "--bound: write --set sync.bound=VALUE" whole.ini --bound 3
expect 2 "--overlap: write --set exchange.overlap=VALUE" whole.ini --overlap no
expect 2 "--servers: write --set exchange.shards=VALUE" whole.ini --servers 2
expect 2 "--batch-tokens: write --batch SAMPLES: its tokens divided by a sample's sequence" whole.ini --batch-tokens 4e6
expect 2 "--checkpoint-steps: write --set failures.checkpoint_steps=VALUE" whole.ini --checkpoint-steps 9
expect 2 "--set machine.port_bytes_per_s=1Gb/s" whole.ini --network 1gbe
expect 0 "an outer step after each local one; DiLoCo's" --workload gpt2 --machine 2xh100 --batch-per-worker 8 --workers 2 --mode diloco --check
# A batch replaces the file's, whoever counts it.
expect 0 "batch 64" whole.ini --workers 2 --batch 64 -o b.csv
expect 0 "batch 16" whole.ini --workers 2 --batch-per-worker 8 -o b.csv
expect 2 "did you mean 'allreduce'" --costs costs.ini --machine p2.8xlarge --batch 128 --mode allreduc
# Errors name the option, not a line of the generated scenario. A file that is no scenario is identified by its kind.
one=(--costs costs.ini --machine p2.8xlarge --batch 128)
expect 2 "dlsim: --workers 0: 0 is not in 1..10000000" "${one[@]}" --workers 0
expect 2 "dlsim: --workers 1,two: 'two' is not a whole number" "${one[@]}" --workers 1,two
expect 2 "dlsim: --interval 10: it is for mode average, easgd, bmuf, async_average, not for allreduce" \
    "${one[@]}" --interval 10
# --mode leaves out the options that only the file's modes take; one of the command line is refused.
printf '[machine]\nfile = p2.8xlarge\nworkers = 2\n[workload]\ncosts = costs.ini\nbatch = 128\n[sync]\nmode = ps\nlag = 1\n' >lag.ini
expect 0 "async" lag.ini --mode async -o other.csv
sed 's/= ps/= average/; s/lag = 1/interval = 4/' lag.ini >every.ini
expect 0 "zero1" every.ini --mode zero1,ssp --set sync.bound=2 -o other.csv
expect 0 "lag 1" lag.ini --mode async,ps -o other.csv
expect 2 "--set sync.lag=1: it is for mode allreduce, ps, average, not for async" lag.ini --mode async --set sync.lag=1
printf '[exchange]\nbucket_bytes = 1e6\noverlap = yes\n' | sed '/^lag/d' lag.ini - >buckets.ini
expect 0 "softsync" buckets.ini --mode softsync --save without.ini -o other.csv
grep -q "bucket_bytes\|overlap" without.ini && fail "keys that mode softsync does not take are saved"
expect 0 "average" buckets.ini --mode average,softsync --interval 4 --save without.ini -o other.csv
grep -q "bucket_bytes" without.ini || fail "mode average takes bucket_bytes"
expect 2 "has no use for it" buckets.ini --mode softsync --set exchange.bucket_bytes=2e6
expect 2 "has no use for it" lag.ini --mode softsync --set exchange.bucket_bytes=1e6
printf '[exchange]\nsharded = optimizer\nparam_dtype = bf16\n' | sed '/^lag/d; s/= ps/= allreduce/' lag.ini - >shards.ini
expect 0 "async" shards.ini --mode async -o other.csv
expect 2 "dlsim: --set exchange.overlap=maybe: unknown name" "${one[@]}" --set exchange.overlap=maybe
expect 2 "dlsim: unknown key 'overlp' in [exchange]; did you mean" "${one[@]}" --set exchange.overlp=yes
expect 0 "allreduce" "${one[@]}" --mode DDP -o ddp.csv
expect 0 "average" "${one[@]}" --mode local_sgd --interval 10 -o local.csv
# A name for a mode plus a key (fsdp) stays in the results, alone and in a list; another value of that key is an error.
expect 0 "batch 128, fsdp" "${one[@]}" --mode FSDP --workers 4 --save fsdp.ini -o fsdp.csv
expect 0 "allreduce" "${one[@]}" --mode allreduce --set exchange.sharded=parameters --workers 4 -o sharded.csv
grep -q ',fsdp,' fsdp.csv || fail "no fsdp in: $(cat fsdp.csv)"
cmp <(sed 's/,fsdp,/,allreduce,/' fsdp.csv) sharded.csv || fail "--mode FSDP is not sharded = parameters"
expect 0 "2 points" "${one[@]}" --mode ddp,fsdp --workers 4 --json list.json
python3 -c 'import json, sys
rows = json.load(open("list.json"))["rows"]
sys.exit([row["sync"] for row in rows] != ["allreduce", "fsdp"])' || fail "--mode ddp,fsdp: $(cat list.json)"
expect 2 "--set exchange.sharded=none: [sync] mode = fsdp is allreduce with sharded = parameters: give only one" \
    "${one[@]}" --mode fsdp --set exchange.sharded=none
expect 2 "'fsdp' is given twice" "${one[@]}" --mode fsdp,ddp,fsdp
for option in max-seq-len=2048 sequence=2048 block-size=1024; do
    expect 2 "write --workload NAME:sequence=COUNT" "${one[@]}" "--$option"
done
expect 2 "offload to host memory is not simulated" "${one[@]}" --cpu-offload
expect 2 "offload to host memory is not simulated" "${one[@]}" --set offload_optimizer=cpu
expect 2 "write --batch-per-worker, as of a DataLoader, or --batch, of all workers" "${one[@]}" --batch-size 8
expect 2 "write --workload NAME:attention=fused" "${one[@]}" --attn-implementation sdpa
expect 2 "write --set exchange.bucket_bytes=25MB" "${one[@]}" --set ddp_bucket_cap_mb=25
expect 2 "unknown mode 'ad-psgd'; averages between neighbours (gossip) are not simulated" "${one[@]}" --mode ad-psgd
expect 2 "unknown name; low-rank compression is not simulated" "${one[@]}" --set exchange.compress=PowerSGD
"$tested" -q "${one[@]}" --set exchange.compress=onebit -o theirs.csv && "$tested" -q "${one[@]}" --set exchange.compress=1bit -o ours.csv &&
    cmp theirs.csv ours.csv || fail "compress = onebit"
# A further table of some of the rows tells their modes, and no batch that the first table has.
slow=(--workload resnet50 --machine 2x1xt4@10gbe --batch-per-worker 8 --workers 2 --steps 20)
expect 0 "workers sync  interval outer step" "${slow[@]}" --mode easgd,bmuf,async --interval 10 -o modes.csv
# A job that checkpoints too rarely to get on has no hours of 20 digits.
[[ $("$tested" "${slow[@]}" --samples 1e9 --set failures.mtbf_s=20 --set failures.checkpoint_steps=5000 -o modes.csv) =~ allreduce:\ [0-9.]+e\+[0-9]+\ hours ]] ||
    fail "hours of a job that fails too often"
expect 2 "write -o FILE, the CSV file" "${one[@]}" --csv list.csv
expect 2 "write --set workload.optimizer=VALUE" "${one[@]}" --optim adamw_8bit
# GPUs are not workers where a layout has several of them in one.
expect 2 "write --workers COUNT; with --layout a worker is several GPUs" "${one[@]}" --world-size 8
expect 2 "write --workers COUNT; with --layout a worker is several GPUs" "${one[@]}" --num-gpus 8
expect 2 "'horovod' means the same as an earlier value" "${one[@]}" --mode allreduce,horovod
expect 0 "zero1" fsdp.ini --mode zero1 -o zero1.csv
expect 0 "--mode allreduce" "${one[@]}" --mode fsdp --workers 4 --advise --max-points 5 -o advice.csv
expect 2 "fsdp in a list of modes: write allreduce, and --set exchange.sharded=parameters" "${one[@]}" \
    --mode ddp,fsdp --advise
expect 0 "diloco, interval 10" "${one[@]}" --mode diloco --interval 10 -o diloco.csv
expect 2 "did you mean 'p2.8xlarge'" --costs costs.ini --machine p2.8xlarg --batch 128
expect 2 "--samples-per-s needs --machine NAME (dlsim --machines lists them), or --cores COUNT" \
    --samples-per-s 334 --parameters 25.6e6 --batch 32
sed 's/^parameter_bytes/paramter_bytes/' "$costs" >wrong.ini
expect 1 "did you mean 'parameter_bytes'" --costs wrong.ini --machine p2.8xlarge --batch 128
expect 1 "costs.ini: it is a cost file, not a scenario: give it with --costs" costs.ini
printf '{"traceEvents": []}' >trace.json
printf '\n {\n"traceEvents": []}' >blank.json
printf '[\n\n  {"ph": "X"}]' >list.json
gzip -k trace.json
for trace in trace.json blank.json list.json trace.json.gz; do
    expect 1 "$trace: it is " "$trace"
    expect 1 "dlcal costs makes a cost file from" --costs "$trace" --machine p2.8xlarge --batch 128
    expect 1 "dlcal costs makes a cost file from" --costs "$trace" --cores 2
done
: >empty.ini
expect 1 "empty.ini: the file is empty" empty.ini
expect 1 "empty.ini: the file is empty" --costs empty.ini --machine p2.8xlarge --batch 128
expect 1 "empty.ini: the file is empty" --costs costs.ini --machine empty.ini --batch 128
expect 0 "" "${one[@]}" --workers 1 -o table.csv
printf 'workers,samples/s\n1,2\n' >measured.csv
for table in table.csv measured.csv; do
    expect 1 "$table: it looks like a CSV table, as results are: an INI file is expected" "$table"
done
expect 1 ".: is a folder: name the files in it" .
# --batch counts the samples of all workers; a note says so, in case the user meant one worker's.
expect 0 "note: --batch 128 is shared by all 4 workers, 32 each" "${one[@]}" --workers 1,4
if "$tested" "${one[@]}" --workers 1 | grep -q 'shared by all'; then fail "one worker shares with nobody"; fi
expect 2 "--save would overwrite the scenario" whole.ini --workers 2 --save whole.ini
expect 0 "p2.8xlarge " --machines
# The page shows outer steps with units: each node sends the other 25.6e6 parameters of 4 bytes, 102 MB.
PATH=/nowhere "$tested" -q --workload resnet50 --machine 2xrtx3090@1gbe --batch-per-worker 32 --workers 4 \
    --mode average --interval 10 --set sync.where=allreduce --html page.html >out 2>&1 || fail "page: $(cat out)"
time='<td class="number">[0-9.]+ m?s</td>'
grep -qE "interval 10</td>$time$time$time$time<td class=\"number\">[0-9.]+</td><td class=\"number\">102 MB</td>" \
    page.html || fail "no units: $(grep 'interval 10' page.html)"
# A table of some results tells points of different batches apart.
"$tested" --workload resnet50 --machine 2xrtx3090@1gbe --batch-per-worker 16,32 --workers 2 --mode average \
    --interval 10 --set sync.where=allreduce --set failures.mtbf_s=1e6 --set failures.restart_s=300 \
    --set failures.checkpoint_s=20 --set failures.checkpoint_steps=1000 --set failures.job_steps=100000 \
    -o /dev/null >out || fail "batches with failures"
sed -n '/^with failures:/,$p' out >table
grep -q '^workers batch ' table && grep -q '^ *2 *64 ' table ||
    fail "failures without their batch: $(cat table)"
# Node failures: nodes of two GPUs with an MTBF of 1 h equal GPUs with an MTBF of 2 h. The lost hours per day are
# charged at the nodes' price.
lost() { "$tested" -q --workload resnet50 --machine 2xrtx3090@1gbe --batch-per-worker 32 --workers 4 --steps 20 \
    --set machine.price_usd_per_hour=3 --set failures.checkpoint_steps=1000 --set failures.job_steps=100000 "$@" -o lost.csv ||
    fail "lost: $*"
    awk -F, '/^[^#]/ && !n { for (i = 1; i <= NF; i++) at[$i] = i; n = 1; next }
        n { print $at["job_goodput_frac"], $at["lost_hours_per_day"], $at["lost_usd_per_day"], $at["usd_per_hour"] }' lost.csv; }
[ "$(lost --set failures.node_mtbf_s=3600)" = "$(lost --set failures.mtbf_s=7200)" ] || fail "nodes of two GPUs: $(lost --set failures.node_mtbf_s=3600)"
lost --set failures.node_mtbf_s=3600 | awk '{ h = 24 * (1 - $1); if ($1 <= 0 || $1 >= 1 || ($2 - h) ^ 2 > 1e-9 ||
    ($3 - h * $4) ^ 2 > 1e-6) exit 1 }' || fail "lost: $(lost --set failures.node_mtbf_s=3600)"
# With a node's price, the failure table keeps its USD column at a width of 80 columns.
COLUMNS=80 expect 0 "workers job goodput % job samples/s lost h/day lost USD/day best checkpoint" --samples-per-s 300 \
    --parameters 25e6 --machine 2xa100@10gbe --workers 2,4 --batch-per-worker 32 --steps 5 --set failures.node_mtbf_s=3600 \
    --set machine.price_usd_per_hour=3 --set failures.checkpoint_steps=1000
# Without checkpoints a failure costs all work, which the first note says, also in JSON.
restarts="without [failures] checkpoint_steps the job starts over after each failure"
failing=(--samples-per-s 300 --parameters 25e6 --machine 2xa100 --workers 2 --batch-per-worker 32 --steps 5
    --set failures.node_mtbf_s=3600)
expect 0 "$restarts; best_checkpoint_steps of the results is the best value" "${failing[@]}"
"$tested" "${failing[@]}" --json - | grep -qF "$restarts" || fail "no note in JSON"
"$tested" "${failing[@]}" --set failures.checkpoint_steps=2 -o kept.csv | grep -F "$restarts" && fail "it has checkpoints"
# Steps of 0.32 s: 64 of them are too few for a worker to fail, with a mean of a day.
away=(--samples-per-s 100 --parameters 1e3 --machine 1xa100@10gbe --workers 4 --batch-per-worker 32 --steps 64 --mode average
    --interval 64 --set failures.worker_away_s=9)
expect 0 "no worker failed in the 20 s that were simulated (workers 4, [failures] worker_mtbf_s = 86400): --steps 67" \
    "${away[@]}" --set failures.worker_mtbf_s=86400
"$tested" "${away[@]}" --set failures.worker_mtbf_s=10 -o away.csv | grep "no worker failed" && fail "workers failed"
# Micro-batches divide a worker's batch, unlike the batch of PyTorch's loaders.
expect 0 "[sync] accumulate = 4 divides a worker's batch of 32 into micro-batches of 8; micro-batches of 32 are --batch-per-worker 128" \
    --samples-per-s 300 --parameters 25e6 --machine 2xa100 --workers 2 --batch-per-worker 32 --set sync.accumulate=1,4
# Time to a target of 1e6 samples, 1.5 times as many at interval 8. The best row reaches the target first; a row
# without a factor is not ranked, and a note says so. The advice applies the factors too.
target=(--samples-per-s 300 --parameters 25e6 --machine 1xa100@10gbe --workers 4 --batch-per-worker 32 --steps 64
    --set target.samples=1000000 --set machine.price_usd_per_hour=3)
expect 0 "First at the target: 4 GPUs, average, interval 4: " "${target[@]}" --mode average --interval 1,4,8,32 \
    --set target.factor="interval 4:1.01, interval 8:1.5" -o target.csv
expect 0 "no [target] factor is given for 1 of 4 rows (the first: workers 4, average, interval 32, staleness 0)" \
    "${target[@]}" --mode average --interval 1,4,8,32 --set target.factor="interval 8:1.5"
awk -F, '/^[^#]/ && !n { for (i = 1; i <= NF; i++) at[$i] = i; n = 1; next }
    n { h = $at["interval"]; f = $at["target_factor"]; s = $at["target_s"]; want = h == 1 ? 1 : h == 4 ? 1.01 : h == 8 ? 1.5 : ""
        if (f != want || (f != "" && ((s * $at["throughput_per_s"] / (f * 1e6) - 1) ^ 2 > 1e-12 ||
            ($at["usd_to_target"] / (s * 12 / 3600) - 1) ^ 2 > 1e-12)) || (f == "" && s != "")) exit 1; rows++ }
    END { exit rows != 4 }' target.csv || fail "time to the target: $(grep -v '^#' target.csv)"
expect 0 "soonest at the target" "${target[@]}" --mode average --interval 1,4 --set target.factor="interval 4:1.5" --advise \
    --max-points 20 --steps 8
expect 2 "is neither 'interval NUMBER', 'staleness NUMBER' nor a mode; did you mean 'async'" "${target[@]}" --set target.factor=asinc:2
expect 2 "'interval 4:2' is given twice" "${target[@]}" --set target.factor="interval 4:1,interval 4:2"
expect 0 "4.63 hours" --samples-per-s 300 --parameters 25e6 --machine 1xa100 --workers 1 --batch 32 --samples 2500000 \
    --set target.factor=allreduce:2
# Counts of tokens may have a letter, as those of parameters.
long=(-q --workload gpt2 --machine 1xh100 --batch 8 --steps 4)
"$tested" "${long[@]}" --tokens 1.5T -o letter.csv && "$tested" "${long[@]}" --tokens 1.5e12 -o plain.csv
equal plain.csv letter.csv "--tokens 1.5T"
expect 2 "--tokens: '1.5X' is not a number" "${long[@]}" --tokens 1.5X
expect 2 "this needs samples" --samples-per-s 300 --parameters 25e6 --machine 1xa100 --batch 32 --set target.factor=async:2
# A message tells when results.csv of an earlier command is replaced.
mkdir -p replaced && cd replaced || exit 1
given=(--workload resnet50 --machine 8xh100 --workers 1 --batch 32 --steps 5)
if "$tested" "${given[@]}" | grep -q "in place of"; then fail "there was nothing to replace"; fi
expect 0 "1 point in results.csv (replacing the old one; -o FILE keeps both)" "${given[@]}"
if "$tested" "${given[@]}" -o results.csv | grep -q "in place of"; then fail "it was told to"; fi
cd .. || exit 1
# Option names of other programs are accepted if unambiguous; otherwise the error names the option to write.
words=(--workload gpt2 --machine 8xh100 --workers 8 --steps 5)
for same in "--batch 8 --precision bf16|--batch 8 --arithmetic bf16" "--global-batch 64|--batch 64" "--global_batch_size 64|--batch 64" \
    "--per-device-train-batch-size 8|--batch-per-worker 8"; do
    # shellcheck disable=SC2086 # several words
    "$tested" -q "${words[@]}" ${same%|*} -o theirs.csv && "$tested" -q "${words[@]}" ${same#*|} -o ours.csv &&
        cmp theirs.csv ours.csv || fail "${same%|*}"
done
expect 2 "--tp: write --layout tp=COUNT" "${words[@]}" --tp 8
expect 2 "--zero: write --mode zero1, zero2 or zero3" "${words[@]}" --zero 3
expect 2 "unknown mode 'ZeRO-3'; here it is called 'zero3'" "${words[@]}" --batch 8 --mode ZeRO-3
expect 2 "--fused: write --workload NAME:fused=yes" "${words[@]}" --fused
expect 2 "--nproc_per_node: write it in the machine's name, as 2x4xrtx4090@10gbe" "${words[@]}" --nproc_per_node 4
expect 2 "--lanes: the machine file has it" "${words[@]}" --lanes 4
expect 2 "--pp: write --layout pp=COUNT" "${words[@]}" --pp=4
expect 2 "--batch-per-worker then has the samples of all STEPS" "${words[@]}" --gradient_accumulation_steps 4
expect 2 "--amp: write --arithmetic bf16 or fp16" "${words[@]}" --amp
expect 2 "--channels-last: networks of images have this layout; --workload NAME:layout=nchw" "${words[@]}" --channels-last
expect 2 "write --set machine.price_usd_per_hour=USD, of a node" "${words[@]}" --price-per-gpu 2.5
expect 2 "--gradient-checkpointing: write --recompute full" "${words[@]}" --gradient-checkpointing --batch 8
expect 2 "--num-workers: write --set input.cores=COUNT" "${words[@]}" --num-workers 4
expect 2 "--NCCL_P2P_DISABLE: write bridges into the machine's name, as 2xrtx3090+nvlink" "${words[@]}" --NCCL_P2P_DISABLE 1
"$tested" -q --workload gpt2 --machine 4xrtx4090 --workers 4 --batch 8 --save-machine slots.ini -o slots.csv
sed '/^\[shm\]/,/^$/d; s/^peer = .*/peer = all/' slots.ini >direct.ini # as the next error says
"$tested" -q --workload gpt2 --machine direct.ini --workers 4 --batch 8 -o direct.csv
rate() { awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) if ($i == "throughput_per_s") n = i; next } { print $n }' "$1"; }
awk -v slots="$(rate slots.csv)" -v direct="$(rate direct.csv)" 'BEGIN { exit !(slots > 0 && direct > 1.2 * slots) }' ||
    fail "direct access: $(rate direct.csv), through host memory $(rate slots.csv)"
expect 2 "unknown key 'p2p' in [machine]; write bridges into the machine's name" "${words[@]}" --batch 8 --set machine.p2p=no
expect 2 "--strategy: write --mode ddp, fsdp" "${words[@]}" --strategy ddp
expect 2 "--devices: write --workers COUNT" "${words[@]}" --devices 4
expect 2 "unknown option '--precisio'" "${words[@]}" --precisio bf16
expect 2 "unknown mode 'tp'; write --layout tp=COUNT" "${words[@]}" --batch 8 --mode tp
expect 2 "unknown section [tensor]; write --layout tp=COUNT" "${words[@]}" --batch 8 --set tensor.size=8
for same in "--micro-batch-size 2 --batch 64|--micro-batch 2 --batch 64" \
    "--checkpointing full --batch 8|--batch 8 --recompute full" \
    "--recompute-granularity full --batch 8|--batch 8 --set workload.model=gpt2:recompute=full"; do
    # shellcheck disable=SC2086 # several words
    "$tested" -q "${words[@]}" --layout tp=1 ${same%|*} -o theirs.csv && "$tested" -q "${words[@]}" --layout tp=1 ${same#*|} -o ours.csv &&
        cmp <(grep -v "^#" theirs.csv) <(grep -v "^#" ours.csv) || fail "${same%|*}"
done
expect 2 "micro_batches is given too" "${words[@]}" --batch 64 --micro-batches 2 --micro-batch 2
# A batch that a micro-batch does not divide, and one of too many micro-batches.
expect 2 "the batch, 64, is not divisible by 24, one micro-batch on each of 8 ranks" "${words[@]}" --batch 64 --micro-batch 3
expect 2 "the batch, 65536, makes more than 4096 micro-batches on each rank" "${words[@]}" --batch 65536 --micro-batch 1
expect 2 "no key is called 'tensor_parallel'; write --layout tp" "${words[@]}" --batch 8 --set tensor_parallel=8
expect 2 "no key is called 'shm.bytes_per_s'; the machine file has it, which --save-machine FILE writes" "${words[@]}" --batch 8 \
    --solve shm.bytes_per_s --target speedup=3
expect 2 "no key is called 'grad_accum'; write --set sync.accumulate=STEPS" "${words[@]}" --batch 8 --set grad_accum=4
expect 2 "several sections have 'file'; give SECTION.KEY, as " "${words[@]}" --batch 8 --set file=x
expect 0 "In all" "${words[@]}" --batch 64 --set accumulate=2,4 --set overlap=no
expect 2 "unknown key 'accumulate' in [exchange]; it is 'accumulate' of [sync]" "${words[@]}" --batch 8 --set exchange.accumulate=4
expect 2 "unknown key 'grad_accum' in [sync]; write --set sync.accumulate=STEPS" "${words[@]}" --batch 8 --set sync.grad_accum=4
expect 2 "unknown key 'H' in [sync]; here it is called 'interval'" "${words[@]}" --batch 8 --set sync.H=10
expect 2 "unknown key 'precision' in [sync]; it is 'arithmetic' of [workload]" "${words[@]}" --batch 8 --set sync.precision=bf16
expect 0 "1 point" --workload llama2_7b:layers=1 --machine 8xh100 --batch-per-worker 1 --workers 1 --steps 5
[ ! -e results.csv.partial ] || fail "a partial file stayed"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
