#!/usr/bin/env bash
# dlcal on traces of PyTorch programs without a GPU (tests/clients/traces). Usage:
# test_dlcal_cores.sh DLCAL DLSIM
set -u
dlcal=$1
dlsim=$2
tested=$dlcal
traces=$(cd "$(dirname "$0")/../clients/traces" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

holds() { # FILE TEXT
    grep -qF -- "$2" "$1" && return
    echo "FAIL: no '$2' in $1: $(cat "$1")"
    failures=$((failures + 1))
}

# Steps are found by marks, else by the optimizer's updates, else by repetition.
zcat "$traces/mlp_b16.json.gz" | sed 's/"ProfilerStep#[0-9]*"/"Optimizer.other"/' >unmarked.json
sed 's/"Optimizer\.[a-z_]*#[^"]*"/"Optimizer.other"/' unmarked.json >plain.json
expect 0 "6 steps of 6, by marks" info "$traces/mlp_b16.json.gz"
expect 0 "5 steps of 5, by optimizer" info unmarked.json
expect 0 "5 steps of 5, by period" info plain.json

# An optimizer whose step runs forward and backward pass in a closure, as by Lightning: the range of
# the update begins in the first operator's place, 1 us before it, and has the same parts.
zcat "$traces/mlp_b16.json.gz" | awk '
    /"name": / { name = $2 }
    /"ts": / { ts = $2 + 0; if (name ~ /zero_grad/) from = ts - 1
        if (name ~ /Optimizer.step/) $0 = sprintf("    \"ts\": %.3f,", from) }
    /"dur": / && name ~ /Optimizer.step/ { $0 = sprintf("    \"dur\": %.3f", $2 + ts - from) }
    { print }' >closure.json
zcat "$traces/mlp_b16.json.gz" >open.json
expect 0 "6 ranges of an optimizer's step contain backward passes" info closure.json
expect 0 "" costs closure.json --batch 16 -o closure.ini
sed 's/Optimizer.step#[A-Za-z]*/Optimizer.step#LBFGS/' closure.json >lbfgs.json
expect 0 "exchanges gradients each time" info lbfgs.json
expect 0 "" costs open.json --batch 16 -o open.ini
cmp <(grep -A2 "^\[op" closure.ini) <(grep -A2 "^\[op" open.ini) ||
    { echo "FAIL: a closure changes costs: $(cat closure.ini)"; failures=$((failures + 1)); }

# Two steps without marks are too few to find; taken as one step, they have an update between their passes.
for steps in 1 2; do
    awk -v steps=$steps '/"ProfilerStep/ { step++; sub(/ProfilerStep#[0-9]*/, "Optimizer.other") }
        step > steps && /"ph": "X"/ { sub(/X/, "M") } { print }' open.json >steps$steps.json
done
expect 1 "no marks, fewer than three optimizer's updates and no operators that repeat" costs steps2.json --batch 16 -o two.ini
expect 0 "one-step: an update lies between two passes" costs steps2.json --batch 16 --one-step -o two.ini
expect 0 "16 samples, 1 steps of" costs steps1.json --batch 16 --one-step -o one.ini
"$tested" costs steps1.json --batch 16 --one-step -o one.ini | grep "one-step:" &&
    { echo "FAIL: an update between the passes of one step"; failures=$((failures + 1)); }

# Traces of two models have no common costs, unless their size is given.
expect 1 "it shows 2.68 MB of parameters, cnn_loader.json.gz shows 4.28 MB: several traces must be of one model" \
    costs "$traces/cnn_loader.json.gz" "$traces/mlp_b16.json.gz" --batch 16,16 -o models.ini
expect 0 "" costs "$traces/cnn_loader.json.gz" "$traces/mlp_b16.json.gz" --batch 16,16 \
    --parameter-bytes 3MB -o models.ini

# A trace that was merged from those of two processes has no costs of one.
awk '/"pid": / && /31563/ { lines++; if (lines % 2) sub(/31563/, "31564") } { print }' open.json >merged.json
expect 1 "calls are of several processes, as of merged traces" costs merged.json --batch 16 -o merged.ini

# Parameters that dlprof run counted, of which a step adds gradients to some only.
sed '1s/{/{ "dlprof_parameter_bytes": 2678824,/' open.json >counted.json
sed '1s/{/{ "dlprof_parameter_bytes": 4000000,/' open.json >critic.json
expect 0 "a step adds gradients of 2.68 MB of these" costs critic.json --batch 16 -o critic.ini
holds critic.ini "parameter_bytes = 4000000"
expect 0 "parameter_bytes are those that the optimizer updates" costs counted.json --batch 16 -o counted.ini
grep -q "a step adds gradients" counted.ini && { echo "FAIL: $(cat counted.ini)"; failures=$((failures + 1)); }

# A closure that the trace's end cuts off before its backward pass is no update.
lacking() { # FILE NAMES: renames these in the last step, and the marks
    awk -v names="$2" '/"ProfilerStep/ { step++; sub(/ProfilerStep#[0-9]*/, "Optimizer.other") }
        step == 6 && /"name": / && $0 ~ names { $0 = "    \"name\": \"aten::cut\"," } { print }' "$1"
}
lacking closure.json "autograd|ackward" >closure_cut.json
lacking open.json "autograd|ackward|Optimizer.step" >open_cut.json
expect 0 "5 ranges of an optimizer's step" info closure_cut.json
"$tested" info open_cut.json | grep -A9 "^forward" | grep -v "^note" >parts.txt
grep -q "4 steps of 4, by optimizer" parts.txt || { echo "FAIL: $(cat parts.txt)"; failures=$((failures + 1)); }
cmp parts.txt <("$tested" info closure_cut.json | grep -A9 "^forward" | grep -v "^note" | head -n "$(wc -l <parts.txt)") ||
    { echo "FAIL: a closure that is cut off changes parts"; failures=$((failures + 1)); }

# Marks 1 us before the backward passes: steps are those between updates, as without marks.
zcat "$traces/mlp_b16.json.gz" | awk '
    /"name": / { name = $2 }
    /"ts": / && name ~ /ProfilerStep/ { step++ }
    /evaluate_function: NllLoss/ { loss = 1 }
    /"ts": / && loss { at[step] = $2 - 1; loss = 0 }
    { line[NR] = $0 }
    END {
        for (i = 1; i <= NR; i++) {
            if (line[i] ~ /"name": /) marked = line[i] ~ /ProfilerStep/
            if (marked && line[i] ~ /"ts": /) line[i] = sprintf("    \"ts\": %.3f,", at[++k])
            if (marked && line[i] ~ /"dur": / && k < step) line[i] = sprintf("    \"dur\": %.3f", at[k + 1] - at[k])
            print line[i]
        }
    }' >inside.json
expect 0 "5 steps of 5, by optimizer" info inside.json
expect 0 "marks lie between forward and backward pass" costs inside.json --batch 16 -o inside.ini
expect 0 "" costs unmarked.json --batch 16 -o unmarked.ini
cmp <(grep -A2 "^\[op" inside.ini) <(grep -A2 "^\[op" unmarked.ini) ||
    { echo "FAIL: marks between the passes change costs: $(cat inside.ini)"; failures=$((failures + 1)); }

# The longest step has fewer backward operators and more forward ones, as with a validation.
zcat "$traces/mlp_b16.json.gz" | awk '/"ProfilerStep/ { step++; n = 0 }
    step == 4 && /"name": / && /ackward|autograd/ && n++ > 3 { sub(/: ".*"/, ": \"aten::relu\"") } 1' >longer.json
expect 0 "1 of 6 steps is longer, by 6.15 ms in all, as with a validation: left out" costs longer.json --batch 16 -o longer.ini

# A file that is cut off in its last step: the mark is whole, the operators are not.
zcat "$traces/mlp_b16.json.gz" | head -n 15000 >cut.json
expect 0 "5 steps of 6, by marks" info cut.json
expect 0 "is truncated (killed run, full disk)" costs cut.json -o cut.ini

# Marks of micro-batches with an update in every second or third one: steps end with the updates if
# there are at least three, else the trace is rejected. Without the sums of the updates left out.
without_sums() { sed 's/"aten::add_"/"aten::mul_"/'; }
keep_updates() { # EVERY
    zcat "$traces/mlp_b16.json.gz" |
        awk -v every="$1" '/"Optimizer.zero_grad#/ && n++ % every { sub("Optimizer.zero_grad#[^\"]*", "Optimizer.other") }
                           /"Optimizer.step#/ && n % every { sub("Optimizer.step#[^\"]*", "Optimizer.other") } 1'
}
keep_updates 2 >sam.json
without_sums <sam.json >second.json
keep_updates 3 >third.json
expect 0 "2 steps of 2, by optimizer" info second.json
expect 0 "a step accumulates the gradients of 2 passes" costs second.json --batch 32 -o second.ini
holds second.ini "accumulate = 2"
# With these sums the parameters change between the two passes, as in SAM: both are of the same samples.
expect 0 "each of a step's 2 passes makes gradients of its own" costs sam.json -o sam.ini
expect 0 "sam.json: 16 samples, 2 steps" costs sam.json -o sam.ini
holds sam.ini "parameter_bytes = 2678824"
grep -q accumulate sam.ini && { echo "FAIL: SAM accumulates"; failures=$((failures + 1)); }
# Each second pass begins at another layer, as a critic's after an actor's: without the gradients of
# the last layer (20,520 bytes), it has 2,658,304 bytes.
awk '/"torch::autograd::AccumulateGrad"/ && index("6 7", n++ % 12) { sub("AccumulateGrad", "Other") } 1' \
    second.json >critic.json
expect 0 "critic.json: 16 samples, 2 steps" costs critic.json -o critic.ini
holds critic.ini "parameter_bytes = 5337128"
# The first of two passes adds no gradients, as torch.autograd.grad's; then none does.
awk '/"torch::autograd::AccumulateGrad"/ && n++ % 12 < 6 { sub("AccumulateGrad", "Other") } 1' second.json >inner.json
expect 0 "inner.json: 16 samples, 2 steps" costs inner.json -o inner.ini
holds inner.ini "parameter_bytes = 2678824"
grep -q accumulate inner.ini && { echo "FAIL: inner passes accumulate"; failures=$((failures + 1)); }
zcat "$traces/mlp_b16.json.gz" | sed 's/AccumulateGrad/Other/' >apart.json
expect 0 "no gradient is added to a parameter's, as with torch.autograd.grad" costs apart.json -o apart.ini
# Hooks of the backward pass update the parameters; without the optimizer's ranges nothing does.
event() { # CATEGORY NAME START DURATION
    echo "{\"ph\": \"X\", \"cat\": \"$1\", \"name\": \"$2\", \"pid\": 1, \"tid\": 1, \"ts\": $3, \"dur\": $4},"
}
hooks() { # START
    event cpu_op aten::linear "$1" 400
    event cpu_op "autograd::engine::evaluate_function: AddmmBackward0" $(($1 + 400)) 600
    event cpu_op torch::autograd::AccumulateGrad $(($1 + 500)) 400
    event user_annotation Optimizer.step#SGD.step $(($1 + 600)) 200
}
steps() { # FUNCTION: a trace of steps, whose events it prints
    echo '{"traceEvents": ['
    for at in 1000 2000 3000 4000 5000; do
        event user_annotation "ProfilerStep#$at" $at 1000
        "$1" $at
    done
    echo '{}]}'
}
steps hooks >hooks.json
expect 0 "the parameters are updated within the backward pass" costs hooks.json --batch 8 -o hooks.ini
holds hooks.ini "[op step.backward]"
sed '/Optimizer/d' hooks.json >server.json
expect 1 "the update may run elsewhere (on a server)" costs server.json --batch 8 -o server.ini
# Activations in place are operations of a pass like others.
activations() { # START
    local pass start op
    for pass in 0 450; do
        start=$(($1 + pass))
        for op in linear relu_ linear cross_entropy_loss; do
            event cpu_op aten::$op $start 50
            start=$((start + 50))
        done
        event cpu_op "autograd::engine::evaluate_function: AddmmBackward0" $start 200
        event cpu_op torch::autograd::AccumulateGrad $((start + 150)) 40
    done
    event user_annotation Optimizer.step#SGD.step $(($1 + 900)) 90
}
steps activations >activations.json
expect 0 "costs written" costs activations.json --batch 16 -o activations.ini
holds activations.ini "accumulate = 2"
expect 1 "only 2 of 6 steps hold an optimizer's update: they are micro-batches" \
    costs third.json --batch 16 -o third.ini
expect 0 "costs written" costs third.json --batch 16 --incomplete -o third.ini

# Updates after one, two and three passes: steps of two and three passes, the first being partial.
# Each pass adds the gradients of all parameters.
zcat "$traces/mlp_b16.json.gz" | sed 's/"ProfilerStep#[0-9]*"/"Optimizer.other"/' |
    awk '/"Optimizer.zero_grad#/ && index("0 1 3", z++) == 0 { sub("Optimizer.zero_grad#[^\"]*", "Optimizer.other") }
         /"Optimizer.step#/ && index("0 2 5", u++) == 0 { sub("Optimizer.step#[^\"]*", "Optimizer.other") } 1' |
    without_sums >varied.json
expect 0 "steps have different numbers of passes (micro-batches), 2.5 on average" costs varied.json --batch 48 -o varied.ini
holds varied.ini "accumulate = 3"
holds varied.ini "parameter_bytes = 2678824"

# Collectives of gloo: their ranks, the time at which DDP calls them, and, with shapes, their bytes.
expect 0 "AllReduce  1.11 MB     2   1.00" info "$traces/transformer_ddp2.json.gz"
expect 0 "waiting for collectives" info "$traces/transformer_ddp2.json.gz"
expect 0 "AllReduce      2   0.50" info "$traces/mlp_localsgd2.json.gz"
expect 0 "do not give their bytes" info "$traces/mlp_localsgd2.json.gz"
expect 0 '"ready_frac":0.99' info --json "$traces/transformer_ddp2.json.gz"

# If passes add fewer gradients than are exchanged, parameters are unused, or exchanged twice.
zcat "$traces/transformer_ddp2.json.gz" |
    awk '/"torch::autograd::AccumulateGrad"/ && n++ % 2 { sub("AccumulateGrad", "Other") } 1' >unused.json
expect 0 "a step exchanges 2.65 MB, its passes add 48.0 kB of gradients" costs unused.json --device "a processor" --cores 2 -o unused.ini
"$tested" costs "$traces/transformer_ddp2.json.gz" --device "a processor" --cores 2 -o unused.ini | grep "a step exchanges" &&
    { echo "FAIL: all parameters are used"; failures=$((failures + 1)); }

# Parameters: 784 512 + 512 + 512 512 + 512 + 512 10 + 10 = 669,706 floats.
expect 0 "mlp_b64.json.gz: 64 samples, 6 steps" costs "$traces/mlp_b16.json.gz" "$traces/mlp_b64.json.gz" \
    --batch 16,64 --device "a processor" --cores 2 -o mlp.ini
holds mlp.ini "parameter_bytes = 2678824"
holds mlp.ini "device = a processor"
holds mlp.ini "[op step.backward]"
grep -q "dispatch" mlp.ini && { echo "FAIL: nothing dispatches steps on cores"; failures=$((failures + 1)); }
# The buckets that DistributedDataParallel would make of this model, equal to those in its own trace
# (below): the last two layers, and the first one.
expect 0 "ready as the trace adds" costs "$traces/mlp_b64.json.gz" --batch 64 -o buckets.ini
holds buckets.ini "25 MiB, ready as the trace adds the gradients up"
expect 0 "start during the backward pass" costs "$traces/mlp_ddp1_b64.json.gz" --batch 64 -o ddp.ini
expect 0 "an all-reduce exchanges the trace's gradients, 2.68 MB" costs "$traces/mlp_ddp1_b64.json.gz" --batch 64 \
    --parameter-bytes 100MB -o given.ini
grep -q "all-reduce exchanges" ddp.ini && { echo "FAIL: no parameters were given"; failures=$((failures + 1)); }
for bytes in 1071144 2678824; do
    grep -q "^ready_[12] = [0-9.]*, $bytes\$" buckets.ini || { echo "FAIL: no bucket $bytes: $(cat buckets.ini)"; failures=$((failures + 1)); }
    grep -q "^ready_[12] = [0-9.]*, $bytes\$" ddp.ini || { echo "FAIL: no bucket $bytes: $(cat ddp.ini)"; failures=$((failures + 1)); }
done
holds buckets.ini "overlap = yes"
# Without shapes, or with a different number of parameters, gradients get ready evenly.
expect 0 "25 MiB, ready evenly" costs "$traces/mlp_b64.json.gz" --batch 64 --parameter-bytes 4MiB -o buckets.ini
holds buckets.ini "ready_1 = 0.25, 1048576"
expect 0 "costs written" costs "$traces/mlp_b64.json.gz" --batch 64 --gradients none -o buckets.ini
grep -q "ready_1\|overlap" buckets.ini && { echo "FAIL: buckets, though --gradients none"; failures=$((failures + 1)); }
# FSDP: the same trace with reduce-scatters, which gloo implements as all-reduces; FSDP's functions
# in the forward pass have "Backward" in their names.
zcat "$traces/transformer_ddp2.json.gz" | sed 's/"c10d::allreduce_"/"c10d::_reduce_scatter_base_"/
    s/"aten::layer_norm"/"RegisterPostBackwardFunction"/' >fsdp.json
expect 0 "forward                 38.2 ms" info fsdp.json
expect 0 "ReduceScatter  555 kB     2   1.00" info fsdp.json
expect 0 "gradients are reduce-scattered among 2 ranks and the parameters gathered" \
    costs fsdp.json --batch 4 -o fsdp.ini
holds fsdp.ini "sharded = gradients"
holds fsdp.ini "parameter_bytes are those of the gradients exchanged in a step"
holds fsdp.ini "parameter_bytes = 2646944"
expect 0 "costs written" costs "$traces/transformer_ddp2.json.gz" --batch 4 -o ddp2.ini
awk '/^\[/ { op = $0 } /^fixed_ns/ && op == "[op step.update]" { print $3 }' ddp2.ini fsdp.ini |
    awk '{ ns[NR] = $1 } END { exit !(NR == 2 && ns[2] > 1.999 * ns[1] && ns[2] < 2.001 * ns[1]) }' ||
    { echo "FAIL: update: $(grep -A1 'step.update' ddp2.ini fsdp.ini)"; failures=$((failures + 1)); }
# The broadcast before the forward pass as an all-gather of half of the 661,736 parameters: they are
# gathered once and kept. Gathering them for either pass takes longer.
sed 's/c10d::broadcast_/c10d::allgather_/' fsdp.json |
    awk '/"gloo:broadcast"/ { sub("broadcast", "all_gather"); n = NR } NR == n + 7 { sub("\\[4096\\]", "[330868]") } 1' >keep.json
expect 0 "AllGather     1.32 MB     2   1.00" info keep.json
expect 0 "[costs] sharded = parameters, reshard_after_forward = no" \
    costs keep.json --batch 4 -o keep.ini
holds keep.ini "reshard_after_forward = no"
grep -q "left out of the costs" keep.ini && { echo "FAIL: gathers are left out: $(cat keep.ini)"; failures=$((failures + 1)); }
two="--set machine.cores=2 --batch-per-worker 4 --workers 2"
# shellcheck disable=SC2086
"$dlsim" --costs keep.ini $two --notes -o keep.csv >keep.txt
holds keep.txt "states are divided as [costs] sharded = parameters in keep.ini"
# shellcheck disable=SC2086
"$dlsim" --costs keep.ini $two --mode fsdp -o twice.csv >/dev/null
step_of() { grep -v '^#' "$1" | awk -F, '!at { for (i = 1; i <= NF; i++) if ($i == "step_mean_s") at = i; next } { print $at }'; }
awk "BEGIN { exit !($(step_of keep.csv) < $(step_of twice.csv)) }" ||
    { echo "FAIL: gathers take no time: $(cat keep.txt)"; failures=$((failures + 1)); }
# All-reduces that no backward pass calls, of as many bytes as it adds: a loop over the parameters.
zcat "$traces/transformer_ddp2.json.gz" | sed 's/"c10d::allreduce_"/"c10d::other_"/' >loop.json
expect 0 "gradients are all-reduced after the backward pass" costs loop.json --batch 4 -o loop.ini
holds loop.ini "parameter_bytes = 2646944"
holds loop.ini "ready_1 = 1, "
grep -q "^overlap = yes" loop.ini && { echo "FAIL: overlap in loop.ini"; failures=$((failures + 1)); }
# All-reduces of half precision, as of DDP's fp16_compress_hook.
zcat "$traces/transformer_ddp2.json.gz" |
    awk '/"gloo:all_reduce"/ { n = NR } NR == n + 7 { sub("\\[\"float\"\\]", "[\"c10::Half\"]") } 1' >half.json
expect 0 "a pass adds 2.65 MB of gradients, the exchange carries 1.32 MB" costs half.json --batch 4 -o half.ini
holds half.ini "parameter_bytes = 2646944" # averages have no hook
holds half.ini ", 1323472"
# DDP's map of used parameters (find_unused_parameters): a third all-reduce, of 51 integers, after
# the second one of each backward pass.
zcat "$traces/transformer_ddp2.json.gz" | awk '
    /^  \{$/ { n = 0 }
    { block[n++] = $0; print }
    /^  \},$/ && block[3] ~ /all_?reduce/ && block[10] ~ /\[384000\]/ {
        split(block[6], ts, /[ ,]+/); split(block[7], dur, /[ ,]+/)
        for (i = 0; i < n; i++) {
            if (i == 6) block[i] = sprintf("    \"ts\": %.3f,", ts[3] + dur[3] + 1)
            if (i == 7) block[i] = "    \"dur\": 5.0"
            sub(/\["float"\]/, "[\"int\"]", block[i]); sub(/\[384000\]/, "[51]", block[i])
            print block[i]
        }
    }' >unused.json
expect 0 "4 calls in the trace sum integers" costs unused.json --batch 4 -o unused.ini
holds unused.ini "parameter_bytes = 2646944"
grep -q "ready_3" unused.ini && { echo "FAIL: a map of used parameters is a bucket"; failures=$((failures + 1)); }
# Broadcasts of all 661,736 floats in each step: those of a sharded optimizer, whose owners update
# half of the parameters each.
zcat "$traces/transformer_ddp2.json.gz" |
    awk '/"gloo:broadcast"/ { n = NR } NR == n + 7 { sub("\\[4096\\]", "[661736]") } 1' >zero.json
expect 0 "a step broadcasts 2.65 MB, as many bytes as it has gradients" costs zero.json --batch 4 -o zero.ini
holds zero.ini "sharded = optimizer"
grep -q "^\[broadcast\]" zero.ini && { echo "FAIL: broadcasts are charged twice: $(cat zero.ini)"; failures=$((failures + 1)); }
# The same as an all-reduce: DDP's hook for local SGD, which averages the parameters outside of the
# backward pass. Here it does so in each step.
sed 's/c10d::broadcast_/c10d::allreduce_/; s/gloo:broadcast/gloo:all_reduce/' zero.json >local.json
expect 0 "in 4 of 4 steps AllReduce calls outside of the backward pass" costs local.json --batch 4 -o local.ini
holds local.ini "an average every 1 step (local SGD) is dlsim --mode average --interval 1"
"$tested" costs loop.json --batch 4 -o loop.ini | grep -q "outside of the" &&
    { echo "FAIL: gradients reduced after the backward pass are left out"; failures=$((failures + 1)); }
# Averages by hand, of one tensor after the other, after the second and the fourth step, or only after
# the second one.
averaging() { # NUMBERS: keeps these of the eight all-reduces, separated by |
    awk -v kept="^($1)\$" '/"gloo:all_reduce"/ && ++reduce !~ kept {
        sub("gloo:all_reduce", "aten::other") } { print }' loop.json
}
averaging "2|6|4|8" >averages.json
expect 0 "in 2 of 4 steps AllReduce calls outside" costs averages.json --batch 4 -o averages.ini
holds averages.ini "an average every 2 steps (local SGD) is dlsim --mode average --interval 2"
holds averages.ini "parameter_bytes = 2646944"
grep -q "AllReduce calls a step of" averages.ini &&
    { echo "FAIL: parts of an average are noted too: $(cat averages.ini)"; failures=$((failures + 1)); }
averaging "2|6" >average.json
expect 0 "in 1 of 4 steps" costs average.json --batch 4 -o averages.ini
holds averages.ini "its interval is not in the trace"
# A step that dlprof run timed without the profiler, but that waits for the other process.
sed '1s/{/{ "dlprof_step_ns": 90000000,/' loop.json >timed.json
expect 0 "" costs timed.json --batch 4 -o timed.ini
holds timed.ini "it contains waits for other processes; --copies measures it"
# A stage of a pipeline sends and receives during its backward passes.
zcat "$traces/transformer_ddp2.json.gz" | sed 's/c10d::allreduce_/c10d::recv_/; s/gloo:all_reduce/gloo:recv/' >stage.json
expect 1 "as a stage of a pipeline does" costs stage.json --batch 4 -o stage.ini
# Divided layers: two sums of 4096 floats in the forward pass, and two in the backward pass.
zcat "$traces/transformer_ddp2.json.gz" | awk '
    { sub(/\[384000\]/, "[4096]"); sub(/\[277736\]/, "[4096]") }
    /^  \{$/ { n = 0 }
    /c10d::broadcast_/ || /gloo:broadcast/ { twice = 1 }
    { sub("c10d::broadcast_", "c10d::allreduce_"); sub("gloo:broadcast", "gloo:all_reduce") }
    { block[n++] = $0; print }
    /^  \},$/ && twice {
        split(block[6], ts, /[ ,]+/); split(block[7], dur, /[ ,]+/)
        block[6] = sprintf("    \"ts\": %.3f,", ts[3] + (block[3] ~ /gloo/ ? dur[3] + 1 : 1))
        if (block[3] !~ /gloo/) block[7] = sprintf("    \"dur\": %.3f", dur[3] - 2)
        for (i = 0; i < n; i++) print block[i]
        twice = 0
    }' >even.json
expect 1 "a step has 2 AllReduce calls of 16.4 kB in its forward passes and as many" \
    costs even.json --batch 4 -o even.ini
# One sum in either pass, which carries far less than the gradients have.
zcat "$traces/transformer_ddp2.json.gz" | sed 's/\[384000\]/[4096]/; s/\[277736\]/[1]/
    s/c10d::broadcast_/c10d::allreduce_/; s/gloo:broadcast/gloo:all_reduce/' >once.json
expect 1 "a step has 1 AllReduce calls of 16.4 kB in its forward passes and as many" \
    costs once.json --batch 4 -o once.ini
# DDP's two buckets: 277,736 and 384,000 floats.
zcat "$traces/transformer_ddp2.json.gz" | sed 's/"host_name": "[^"]*"/"host_name": "else.where"/' >elsewhere.json
expect 0 "recorded on another host, else.where" costs elsewhere.json --batch 4 -o transformer.ini
holds transformer.ini "parameter_bytes = 2646944"
holds transformer.ini ", 1110944"
# The mask of 64 x 64 floats is a buffer that DDP broadcasts.
holds transformer.ini "[broadcast]"
holds transformer.ini "bytes = 16384, n = 4, measured"
holds transformer.ini "calls = 1, n = 4, measured"
# A process of a data loader makes the batches: the step's waits for it are left out, its processor
# time (recorded by dlprof run) becomes [op input], and taking a ready batch costs the shortest
# wait.
loaded=$traces/cnn_loader.json.gz
expect 0 "7 steps of 7" info "$loaded"
expect 0 "waiting for input from loaders" info "$loaded"
expect 0 "a step waits for processes of a data loader, 19.2 ms on average" costs "$loaded" -o loaded.ini
expect 0 "next: dlsim --costs loaded.ini --set input.loaders=NUM_WORKERS --workers" costs "$loaded" -o loaded.ini
holds loaded.ini "dlsim --set input.loaders=NUM_WORKERS"
zcat "$loaded" | sed '1s/{/{ "dlprof_loaders": 3,/' >three.json
expect 0 "next: dlsim --costs three.ini --set input.loaders=3 --workers" costs three.json -o three.ini
# The proposed command has no other text of the trace than a plausible number.
sed '1s/"dlprof_loaders": 3/"dlprof_loaders": 99999999999/' three.json >beyond.json
expect 0 "next: dlsim --costs beyond.ini --set input.loaders=NUM_WORKERS --workers" costs beyond.json -o beyond.ini
holds loaded.ini "per_sample_ns = 1015624.9375, n = 7, measured" # 16.25 ms of 16 samples
grep -A1 '^\[input\]' loaded.ini | grep -q "^copy_ns = [1-9][0-9]*, n = 7, measured" ||
    { echo "FAIL: taking a batch has no time: $(cat loaded.ini)"; failures=$((failures + 1)); }
# Times measured by dlprof run without the profiler take precedence. 1.2 of 2 ms is the thread's
# processor time, so the batch was ready; with 1.2 of 4 ms, the step waited.
with_takes() { zcat "$loaded" | sed "s/\"dlprof_step_ns\"/\"dlprof_take_ns\": $1, \"dlprof_take_processor_ns\": $2, &/"; }
with_takes 2000000 1200000 >there.json
expect 0 "copy_ns, 2.00 ms, is to take a batch" costs there.json -o there.ini
holds there.ini "copy_ns = 2000000, n = 7, measured"
with_takes 4000000 1200000 >waited.json
expect 0 "1.20 ms, is the processor" costs waited.json -o waited.ini
holds waited.ini "copy_ns = 1200000, n = 7, measured"
# In a step of 8.9 ms, 900 faults that take 0.5 ms are too few to report.
with_faults() { zcat "$traces/mlp_b64.json.gz" | sed "s/\"schemaVersion\"/\"dlprof_faults\": $1, \"dlprof_kernel_ns\": $2, &/"; }
with_faults 900 2000000 >faults.json
expect 0 "a step has 900 page faults and 2.00 ms of kernel time, " costs faults.json -o faults.ini
for few in "900 10000" "100 2000000"; do
    # shellcheck disable=SC2086
    with_faults $few >few.json
    if "$tested" costs few.json -o faults.ini | grep -q "page faults"; then
        echo "FAIL: $few: faults that take no time are noted"
        failures=$((failures + 1))
    fi
done
# A step that used two cores does not describe a worker with one core.
with_threads() { zcat "$traces/mlp_b64.json.gz" | sed "s/\"schemaVersion\"/\"dlprof_threads\": $1, &/"; }
with_threads 2 >two.json
expect 0 "operators used 2 threads: " costs two.json -o two.ini
holds two.ini "operators used 2 threads"
with_threads 1 >one.json
"$tested" costs one.json -o one.ini | grep "operators used" && { echo "FAIL: one thread is noted"; failures=$((failures + 1)); }
# Two updates a step, as a GAN's: the first pass adds only the last layer (10 and 10 x 512 floats), the
# second one all, so the parameters of the last layer are counted once.
zcat "$traces/mlp_b16.json.gz" |
    awk '/"ProfilerStep#/ { odd = n++ % 2; added = 0; start = NR; if (odd) sub("ProfilerStep#[0-9]*", "Optimizer.other") }
         NR < start + 6 && /"dur"/ && !odd { sub(/[0-9.]+/, "22000") } 1' >both.json
awk '/"ProfilerStep#/ { added = 0 }
     /"torch::autograd::AccumulateGrad"/ && ++added > 2 && added <= 6 { sub("AccumulateGrad", "Other") } 1' both.json >gan.json
expect 0 "several optimizers add, except passes that a" costs gan.json --batch 16 -o gan.ini
holds gan.ini "parameter_bytes = 2678824"
# The step of a trace without loaders is not compared with one beside loaders.
expect 0 "costs written" costs "$traces/mlp_b64.json.gz" --batch 64 --device "a processor" --cores 2 -o alone.ini
"$dlsim" --costs alone.ini --workers 1 -o alone.csv >alone.txt
holds alone.txt "measured/s"
"$dlsim" --costs alone.ini --workers 1 --set input.loaders=1 -o alone.csv >beside.txt
grep -q "measured/s" beside.txt && { echo "FAIL: compared: $(cat beside.txt)"; failures=$((failures + 1)); }
# A loader with a free core overlaps with the step, except for taking its batches (8.4 of 230 ms).
"$dlsim" --costs loaded.ini --workers 1 --mode none --set machine.cores=2 --set input.loaders=1 -o hidden.csv >hidden.txt
"$dlsim" --costs loaded.ini --workers 1 --mode none --set machine.cores=2 --without input -o without.csv >without.txt
awk "BEGIN { exit !($(step_of without.csv) < $(step_of hidden.csv) && $(step_of hidden.csv) < 1.05 * $(step_of without.csv)) }" ||
    { echo "FAIL: $(cat hidden.txt without.txt)"; failures=$((failures + 1)); }
# With two cores it is faster than the baseline, whose loader takes time of its single core.
holds hidden.txt "each: the baseline shares a single core with its loaders"
# Without dlprof run, the processor time of the loader's processes is unknown.
zcat "$loaded" | sed '/dlprof_children_ns/d' >unknown.json
expect 0 "run, or with num_workers=0" costs unknown.json -o unknown.ini
grep -q '^\[op input\]' unknown.ini && { echo "FAIL: waiting is input that a core makes"; failures=$((failures + 1)); }
# The default of --batch is the batch that shapes show. Another value causes a warning unless it is
# a multiple.
expect 0 "4 samples, 4 steps" costs elsewhere.json -o shown.ini
expect 0 "a batch of 4 samples is taken, as the inputs of aten::embedding show (64 if" costs elsewhere.json -o shown.ini
grep -q '^batch_max = 4$' shown.ini || { echo "FAIL: not the batch that the shapes show"; failures=$((failures + 1)); }
expect 0 "--batch 6 is not a multiple of 4" costs elsewhere.json --batch 6 -o shown.ini
if "$tested" costs elsewhere.json --batch 8 -o shown.ini | grep -q multiple; then
    echo "FAIL: two micro-batches are doubted"
    failures=$((failures + 1))
fi
expect 0 "the trace shows one pass a step, of 4 samples" costs elsewhere.json --batch 8 -o shown.ini
if "$tested" costs elsewhere.json --batch 4 -o shown.ini | grep -q "one pass a step"; then
    echo "FAIL: the batch that the inputs show is doubted"
    failures=$((failures + 1))
fi
if "$tested" costs elsewhere.json --batch 64 -o shown.ini | grep -q "right?"; then
    echo "FAIL: the batch is doubted that the inputs show if sequences come first"
    failures=$((failures + 1))
fi
# Two passes of 16 samples accumulate gradients if every second update, and the clearing of
# gradients after it, is removed.
zcat "$traces/mlp_b16.json.gz" | sed 's/"ProfilerStep#[0-9]*"/"Optimizer.other"/' |
    awk '/"Optimizer\.(step|zero_grad)#/ { last = /step#/
         if (++count[last] % 2 == last) sub(/"Optimizer\.[a-z_]*#[^"]*"/, "\"Optimizer.other\"") } 1' |
    without_sums >twice.json
expect 0 "a batch of 32 samples is taken: a step accumulates the gradients of 2 passes" costs twice.json -o shown.ini
expect 0 "16 samples, 2 times a step, by the inputs of aten::linear" info twice.json
expect 0 "16 right for the whole step?" costs twice.json --batch 16 -o shown.ini
# A step without a backward pass may not be training.
expect 1 "of which this trace has none: 6 steps" costs "$traces/mlp_b64.json.gz" --batch 64 --step-period 9 -o period.ini
zcat "$traces/mlp_b64.json.gz" | sed -E 's/[Bb]ackward|autograd::engine|AccumulateGrad/other/g' >inference.json
expect 1 "a training step? no backward pass is found in it (forward" costs inference.json -o shown.ini
expect 0 "if there is none (inference), these are not costs of training" costs inference.json --incomplete -o shown.ini
# A step of 9.0 ms took 0.1 ms without the profiler: the profiler alone does not explain this.
zcat "$traces/mlp_b64.json.gz" | sed 's/"schemaVersion"/"dlprof_step_ns": 100000, "schemaVersion"/' >busy.json
expect 0 "the profiler alone does not explain that" costs busy.json -o shown.ini
zcat "$traces/mlp_b64.json.gz" | sed 's/"schemaVersion"/"dlprof_step_ns": 8000000, "schemaVersion"/' >idle.json
expect 0 "without the profiler a step took 8.00 ms" costs idle.json -o shown.ini
# The last of six steps takes 60 ms instead of 9, without more operators: it was interrupted.
zcat "$traces/mlp_b64.json.gz" | sed '/"ProfilerStep#8"/,/"dur"/s/"dur": .*/"dur": 60000/' >long.json
expect 0 "1 of 6 steps is left out as interrupted: up to 60.0 ms" costs long.json -o shown.ini
# The same with inputs that differ in each step, as batches of sequences of different lengths.
awk '/"aten::linear"/ { n = NR; calls++ } NR <= n + 9 && /"Input Dims": \[\[64, / { sub(/\[\[64, /, "[[" 63 + int((calls + 2) / 3) ", ") } 1' \
    long.json >lengths.json
expect 0 "lengths.json: 64 samples, 6 steps of 16.9 ms" costs lengths.json --batch 64 -o lengths.ini
holds lengths.ini "the inputs of aten::linear have 12 sizes in 18 calls, so the work of a step varies"
# A pause of 600 ms is left out of either.
for file in long lengths; do
    sed '/"ProfilerStep#8"/,/"dur"/s/"dur": .*/"dur": 600000/' "$file.json" >pause.json
    expect 0 "1 of 6 steps is left out: it takes 600 ms, the others 8.88 ms" costs pause.json --batch 64 -o shown.ini
    expect 0 "samples, 5 steps of 8" costs pause.json --batch 64 -o shown.ini
done
if "$tested" costs idle.json -o shown.ini | grep -q 'does not explain\|profiler makes\|interrupted'; then
    echo "FAIL: a step a tenth shorter is doubted"
    failures=$((failures + 1))
fi
# If that time is unknown: 9.02 ms less 1.3 us for each of 199 operators with shapes, 0.7 us
# without.
expect 0 "6 steps of 8.76 ms" costs "$traces/mlp_b64.json.gz" -o shown.ini
holds shown.ini "makes each of 199 operators per step 1.3 us longer (half to twice that): 259 us, 3 %"
expect 0 "5 steps of 99.8 ms" costs "$traces/cnn_ddp1.json.gz" --batch 16 -o shown.ini
holds shown.ini "makes each of 493 operators per step 0.7 us longer"
expect 2 "cnn_ddp1.json.gz: --batch (samples per step) is missing" costs "$traces/cnn_ddp1.json.gz" -o cnn.ini
expect 0 "parameter_bytes is unknown" costs "$traces/cnn_ddp1.json.gz" --batch 16 -o cnn.ini
expect 0 "written" costs "$traces/cnn_ddp1.json.gz" --batch 16 --parameter-bytes 4283944 -o cnn.ini
holds cnn.ini "parameter_bytes = 4283944"
expect 1 "it is of training on cores, without a device: see dlcal costs" replay "$traces/mlp_b16.json.gz"

# dlsim reads the file; a step of one worker takes the sum of its operations.
"$dlsim" --costs mlp.ini --batch 16 --workers 1 --set machine.cores=2 --mode none -o results.csv >out.txt 2>&1 ||
    { echo "FAIL: dlsim: $(cat out.txt)"; failures=$((failures + 1)); }

grep -q "gloo" out.txt && { echo "FAIL: one worker exchanges nothing"; failures=$((failures + 1)); }
# Notes list the assumed costs of exchange between processes, unless these were measured. The
# workers may be declared threads.
two=(--batch 32 --workers 2 --set machine.cores=2 --mode allreduce,average -o results.csv)
tested=$dlsim
expect 0 "assumed [gloo] latency_ns = 1.2 ms (240 us to 6 ms)" --costs mlp.ini "${two[@]}"
expect 0 "measure first: [gloo] latency_ns, by bench_gloo.py" --costs mlp.ini "${two[@]}"
expect 0 "assumed [rpc] latency_ns = 2.3 ms (460 us to 11.5 ms)" --costs mlp.ini "${two[@]}" \
    --mode async
expect 1 "[gloo] beside_frac" --costs mlp.ini "${two[@]}" \
    --set workload.missing=refuse
expect 0 "note: [machine] processes = no takes the workers of mlp.ini to be threads" --costs mlp.ini \
    "${two[@]}" --set machine.processes=no
expect 0 "bench --of PROGRAM" --costs mlp.ini "${two[@]}" --set machine.processes=no --notes
printf '[collective allreduce 2]\nbytes_0 = 2000000, measured\nbytes_4000000 = 5000000, measured\n' |
    cat mlp.ini - >gloo.ini
expect 0 "allreduce" --costs gloo.ini "${two[@]}"
if "$dlsim" --costs gloo.ini "${two[@]}" 2>&1 | grep "assumed \[gloo\]\|to be threads"; then
    echo "FAIL: measured exchanges are missed"
    failures=$((failures + 1))
fi

# Exchange of four processes when two were measured: same bytes per message, with an assumed factor.
expect 0 "assumed [gloo] ranks_factor = 1 (0.5 to 2), samples/s +" --costs gloo.ini "${two[@]}" --workers 4

exit $((failures > 0))
