#!/usr/bin/env bash
# From a trace of one GPU, or one number, to a prediction for several GPUs, without files written by
# hand.
# Usage: test_trace_to_prediction.sh DLCAL DLSIM
set -u
dlcal=$1 dlsim=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# Five steps of 7.1 ms on a V100: forward 2 ms, backward 4 ms, update 1 ms; the host waits for the
# update.
kernel() { # name, launch, start, correlation, duration
    cat <<END
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$2,"dur":5,"args":{"correlation":$4}},
{"ph":"X","cat":"kernel","name":"$1","pid":0,"tid":7,"ts":$3,"dur":$5,"args":{"device":0,"stream":7,"correlation":$4}},
END
}
range() { echo "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"$1\",\"pid\":9,\"tid\":9,\"ts\":$2,\"dur\":$3},"; }
write_trace() { # name of the device
    echo "{\"deviceProperties\": [{\"id\": 0, \"name\": \"$1\"}], \"traceEvents\": ["
    local step at
    for step in 1 2 3 4 5; do
        at=$((step * 7100))
        echo "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#$step\",\"pid\":9,\"tid\":9,\"ts\":$at,\"dur\":7100},"
        kernel sgemm_forward $((at + 10)) $((at + 20)) $((at + 1)) 2000
        range "autograd::engine::evaluate_function: AddmmBackward0" $((at + 30)) 20
        kernel sgemm_back $((at + 35)) $((at + 2025)) $((at + 2)) 4000
        range "Optimizer.step#SGD.step" $((at + 60)) 20
        kernel multi_tensor_apply $((at + 65)) $((at + 6030)) $((at + 3)) 1000
        echo "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":9,\"tid\":9,\"ts\":$((at + 90)),\"dur\":6950,\"args\":{\"correlation\":$((at + 4))}},"
    done
    echo '{"ph":"X","cat":"Trace","name":"all","ts":0,"dur":90000}], "traceName": "t"}'
}
write_trace "Tesla V100-SXM2-16GB" >v100.json
predict() { tested=$dlsim expect 0 "$1" --costs "$2" --machine dgx_h100 --workers 1,2,4,8 \
    --mode allreduce,average,async --notes -o "${2%.ini}.csv" "${@:3}"; }
step() { # file, workers, mode: ms
    awk -F, -v w="$2" -v m="$3" '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
        $c["workers"] == w && $c["sync"] == m { printf "%.4f\n", 1000 * $c["step_mean_s"] }' "$1"
}

# Only the trace. 7 ms on a V100: 6 ms x 0.242 and 1 ms x 0.269 on an H100, 1.72 ms.
tested=$dlcal expect 0 "parameter_bytes is unknown, so dlsim assumes it" costs v100.json --batch 32 -o v100.ini
tested=$dlcal expect 0 "next: dlsim --costs v100.ini --machine dgx1_v100 --workers" costs v100.json --batch 32 -o v100.ini
# What the reader noticed in a trace is said, and kept in the cost file.
head -c -400 v100.json >cut.json
tested=$dlcal expect 0 "cut.json: the text ends early" costs cut.json --batch 32 -o cut.ini
grep -q "^note_[0-9]* = cut.json: the text ends early" cut.ini || fail "no note in $(cat cut.ini)"
tested=$dlcal expect 0 "dlcal predict: cut.json: the text ends early" predict cut.json
tested=$dlcal expect 0 "dlcal replay: cut.json: the text ends early" replay cut.json
predict "compute of v100.ini scaled from v100 to h100" v100.ini
predict "assumed [costs] parameter_bytes = 60." v100.ini
predict "measure first: [" v100.ini
awk -v step="$(step v100.csv 1 allreduce)" 'BEGIN { exit !(step > 1.69 && step < 1.80) }' ||
    fail "a step on an H100 takes $(step v100.csv 1 allreduce) ms, not 1.72"
predict "12 points" v100.ini --set workload.scale=no
awk -v step="$(step v100.csv 1 allreduce)" 'BEGIN { exit !(step > 6.9 && step < 7.1) }' ||
    fail "not scaled, a step takes $(step v100.csv 1 allreduce) ms, not 7"

# With the bytes of the parameters: DDP's buckets overlap with the backward pass.
tested=$dlcal expect 0 "a bucket of 1 MiB, then of 25 MiB" costs v100.json --batch 32 \
    --parameter-bytes 102400000 -o ddp.ini
tested=$dlcal expect 0 "costs written" costs v100.json --batch 32 --parameters 25.6M -o count.ini
diff ddp.ini count.ini >/dev/null || fail "25.6M parameters are not 102.4 MB: $(diff ddp.ini count.ini)"
tested=$dlcal expect 1 "v100.json: no range or mark matches the step expression 'nowhere'" \
    costs v100.json --batch 32 --step-marks nowhere
tested=$dlcal expect 2 "--batch: more numbers than traces (1)" costs v100.json --batch 32,64
tested=$dlcal expect 2 "--parameters: 'many' is not a count, such as" costs v100.json --batch 32 --parameters many
tested=$dlcal expect 2 "give only one of them" costs v100.json --batch 32 --parameters 1 --parameter-bytes 4

# Each step copies 1,204,240 bytes: two images with their labels.
awk '{ print } /ProfilerStep/ { match($0, /"ts":[0-9]+/); at = substr($0, RSTART + 5, RLENGTH - 5)
    printf "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pageable -> Device)\",\"pid\":0,\"tid\":7,"
    printf "\"ts\":%d,\"dur\":5,\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d,\"bytes\":1204240}},\n", at + 12, at + 5 }' \
    v100.json >images.json
tested=$dlcal expect 2 "exactly 2 images of 3 x 224 x 224 floats with their labels: try --batch 2" costs images.json
tested=$dlcal expect 0 "is --batch 32 right?" costs images.json --batch 32 -o images.ini
tested=$dlcal expect 0 "costs written" costs images.json --batch 2 -o images.ini
grep -q "right" images.ini && fail "--batch 2 is right: $(cat images.ini)"
grep -q '^overlap = yes$' ddp.ini || fail "no overlap in the cost file"
grep -q '^ready_1 = 0.01024, 1048576$' ddp.ini || fail "no first bucket: $(grep ready_ ddp.ini)"
predict "overlap the backward pass: [costs] overlap = yes" ddp.ini
tested=$dlcal expect 0 "costs written" costs v100.json --batch 32 --parameter-bytes 102400000 \
    --gradients none -o plain.ini
grep -q -e '^ready_1' -e '^overlap' plain.ini && fail "buckets, though --gradients none"
predict "12 points" plain.ini
awk -v with="$(step ddp.csv 8 allreduce)" -v without="$(step plain.csv 8 allreduce)" \
    'BEGIN { exit !(with < without) }' || fail "overlap does not pay"

# The traced step of 7.1 ms is compared with its own point, and the notes of the costs are in the
# results.
tested=$dlsim expect 0 "4507    +1.1" --costs v100.ini --machine dgx1_v100 --workers 1,2 -o own.csv
tested=$dlsim expect 0 "v100.ini is of v100.json, where a step took 7.10 ms" \
    --costs v100.ini --machine dgx1_v100 --workers 1,2 -o own.csv
grep -q '^# note: v100.ini: one batch size' own.csv || fail "no note of the cost file in the results"
tested=$dlsim expect 0 "2 points" --costs v100.ini --machine dgx_h100 --workers 1,2 -o other.csv
traced() { # for each row: measured step, error of the trace's own point, collectives left out
    awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
        { printf "%.4g;%.3g;%s ", $c["measured_step_s"], $c["trace_error_frac"],
          $c["left_out_collectives_s"] }' "$1"
}
[ "$(traced own.csv)" = "0.0071;0.0114; 0;0.0114; " ] || fail "the trace's own point: $(traced own.csv)"
[ "$(traced other.csv)" = "0;0; 0;0; " ] || fail "another GPU's: $(traced other.csv)"

# A host that needs longer to launch a step, 9 ms, than an H100 to compute it.
sed 's/^per_worker_ns = .*/per_worker_ns = 9000000, n = 5, measured/' ddp.ini >host.ini
predict "the host bounds steps: launching one takes it 9.00 ms" host.ini
host=$("$dlsim" --costs host.ini --machine dgx_h100 --workers 8 --without dispatch -o host.csv)
[[ $host == *"host bounds"* ]] && fail "a host that takes no time bounds steps: $host"

# A replayed step takes 7.1 ms with its launches and waits, for any number of workers without
# exchange, to the nanosecond as replay computes it; exchange adds the time to sum 102.4 MB.
tested=$dlcal expect 0 "step.csv: a step of 7.10 ms without collectives" replay --step step.csv --batch 32 v100.json
as_is() { tested=$dlsim expect "$1" "$2" --costs ddp.ini --machine dgx1_v100 --set workload.trace=step.csv "${@:3}"; }
as_is 0 "points" --workers 1,8 --batch-per-worker 32 --mode none,allreduce,ps,average,async -o as_is.csv
for workers in 1 8; do
    [ "$(step as_is.csv $workers none)" = 7.1000 ] ||
        fail "$workers workers: a recorded step takes $(step as_is.csv $workers none) ms, not 7.1"
done
for mode in allreduce ps average async; do
    awk -v step="$(step as_is.csv 8 $mode)" 'BEGIN { exit !(step > 7.1) }' ||
        fail "$mode: a step of 8 workers takes $(step as_is.csv 8 $mode) ms"
done
as_is 2 "the recorded step's layers wait for no parameters" --workers 1,8 --batch-per-worker 32 \
    --mode none,ps --set exchange.fetch=layers -o as_is.csv
as_is 2 "machine.reads=forward: the recorded step of [workload] trace has its own launches" --workers 1,8 \
    --batch-per-worker 32 --set machine.reads=forward -o as_is.csv
as_is 2 "batch_per_worker must be the recorded batch (32 samples)" --workers 1,8 --batch-per-worker 64 -o as_is.csv
as_is 2 "the step is of one GPU" --layout pp=2 --workers 1 --batch-per-worker 32 -o as_is.csv
head -n -1 step.csv >cut.csv
tested=$dlsim expect 1 "no end: the file is cut short" --costs ddp.ini --machine dgx1_v100 --set workload.trace=cut.csv \
    --workers 1 --batch-per-worker 32 -o as_is.csv

# A trace without marks is one step if the user says so, but not if marks or updates show several
# steps.
{ head -n 10 v100.json | grep -v ProfilerStep; tail -n 1 v100.json; } >one.json
tested=$dlcal expect 1 "or --one-step (the trace is one step)" costs one.json --batch 32 -o one.ini
tested=$dlcal expect 0 "32 samples, 1 steps of 7.01 ms" costs one.json --batch 32 --one-step -o one.ini
tested=$dlcal expect 0 "given as one" info --one-step one.json
tested=$dlcal expect 0 "   0      0    0 step" replay --one-step one.json
for command in "costs --batch 32 -o one.ini" info replay predict; do
    # shellcheck disable=SC2086
    tested=$dlcal expect 1 "--one-step: 5 steps of about 3 kernels and copies are found by marks" $command --one-step v100.json
    # shellcheck disable=SC2086
    tested=$dlcal expect 1 "do not repeat every 9, or not twice: 5 steps" $command --step-period 9 v100.json
    # shellcheck disable=SC2086
    tested=$dlcal expect 2 "--one-step cannot be combined with --step-marks or --step-period" $command --one-step --step-period 3 v100.json
done

# Two steps without marks, each with four micro-batches of 0.6 ms forward and 1.2 ms backward, and
# an update of 1 ms: the cost file describes one micro-batch, and only the last backward pass
# overlaps with the exchange.
accumulated() {
    echo '{"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": ['
    local step micro at=1000 id=1
    for step in 1 2; do
        for micro in 1 2 3 4; do
            for name in a_forward b_forward a_backward b_backward; do
                local us=300
                [[ $name = *backward ]] && us=600
                kernel "gemm_$name" $((at - 20)) $at $id $us
                at=$((at + us)) id=$((id + 1))
            done
        done
        kernel multi_tensor_apply $((at - 20)) $at $id 1000
        at=$((at + 1000)) id=$((id + 1))
    done
    echo '{"ph":"X","cat":"Trace","name":"all","ts":0,"dur":90000}], "traceName": "t"}'
}
accumulated >accumulated.json
tested=$dlcal expect 0 "accumulated.json: 64 samples, 1 steps of 8.20 ms" costs accumulated.json --batch 64 -o micro.ini
tested=$dlcal expect 0 "accumulates the gradients of 4 passes" costs accumulated.json --batch 64 -o micro.ini
tested=$dlcal expect 0 "accumulates the gradients of 4 passes" replay accumulated.json
tested=$dlcal expect 2 "--batch 62 (samples per step) is not a multiple of the 4 passes" costs accumulated.json --batch 62 -o micro.ini
tested=$dlcal expect 0 "costs written" costs accumulated.json --batch 64 --parameter-bytes 1400000000 -o micro.ini
grep -q "^batch_max = 16$" micro.ini || fail "not the batch of a micro-batch: $(cat micro.ini)"
grep -q "^accumulate = 4$" micro.ini || fail "no micro-batches: $(cat micro.ini)"
tested=$dlsim expect 0 "is 4 micro-batches, whose gradients" --costs micro.ini --machine 8xa100_80gb --workers 1,8 -o micro.csv
tested=$dlsim expect 2 "4 micro-batches of each worker, [costs] accumulate of micro.ini, cannot share" \
    --costs micro.ini --machine 8xa100_80gb --workers 8 --batch-per-worker 66
tested=$dlsim expect 0 "2 points" --costs micro.ini --machine 8xa100_80gb --workers 1,8 --batch-per-worker 64 \
    --set sync.accumulate=1 -o whole.csv
awk -v micro="$(step micro.csv 8 allreduce)" -v whole="$(step whole.csv 8 allreduce)" \
    'BEGIN { exit !(micro > whole + 3.0 && micro < whole + 4.5) }' ||
    fail "three of four backward passes, 3.6 ms, do not hide the exchange: $(step micro.csv 8 allreduce) and $(step whole.csv 8 allreduce) ms"
awk -v one="$(step micro.csv 1 allreduce)" 'BEGIN { exit !(one > 8.0 && one < 8.4) }' ||
    fail "a step of one worker takes $(step micro.csv 1 allreduce) ms, not 8.2"

# A step that lacks a pass or the update is rejected as a training step, unless --incomplete is
# given.
sed 's/sgemm_forward/sgemm/; s/multi_tensor_apply/sgemm/; s/Optimizer.step#SGD.step/sum/' v100.json |
    sed 's/"autograd::engine[^"]*"/"sum"/' >inference.json
tested=$dlcal expect 1 "no backward pass and no update is found in it" costs inference.json --batch 32 -o inference.ini
[ -f inference.ini ] && fail "costs of inference are written"
tested=$dlcal expect 0 "costs written" costs inference.json --batch 32 --incomplete -o inference.ini
sed 's/"sgemm_back"/"elementwise_backward"/; s/"Optimizer.step#SGD.step"/"SumBackward0"/; s/multi_tensor_apply/sgemm/' v100.json >served.json
tested=$dlcal expect 1 "no update is found in it (forward 28.6 %, backward 71.4 %, update 0.0 %)" \
    costs served.json --batch 32 -o served.ini
sed 's/"dur":2000,"args":{"device"/"dur":20,"args":{"device"/; s/"dur":1000,"args":{"device"/"dur":10,"args":{"device"/' v100.json >layer.json
tested=$dlcal expect 1 "99.0 % of it is the backward pass" costs layer.json --batch 32 --external remove -o layer.ini
for command in info replay; do
    tested=$dlcal expect 0 "" $command inference.json
done

# A folder is read as one file with all its processes; costs come from the process that trained.
mkdir run
cp v100.json run/9.json
echo other >run/summary.txt
tested=$dlcal expect 0 "run: 32 samples" costs run --batch 32 -o run.ini
tested=$dlcal expect 0 "run/9.json" info run
same() { sed -e 1d -e '/^file = /d' -e 's/= [^ ]*: times/= times/' "$1"; } # except for the name of the trace
diff <(same v100.ini) <(same run.ini) >/dev/null || fail "the costs of a folder are others: $(diff v100.ini run.ini)"
cp v100.json run/10.json
tested=$dlcal expect 1 "2 training processes, but costs are taken from one: give one of run/10.json, run/9.json" \
    costs run --batch 32 -o run.ini
rm run/*.json
tested=$dlcal expect 1 "is a folder: name the files in it, as in run/summary.txt" costs run --batch 32

# PyTorch writes kernels last: a truncated file without kernels is not taken for a program on cores,
# and one with some kernels is used with a warning.
grep -v '"cat":"kernel"' v100.json | head -c -60 >cut.json
tested=$dlcal expect 1 "the file is truncated: it lacks the GPU's operations, which PyTorch writes last" \
    costs cut.json --batch 32 -o cut.ini
tested=$dlcal expect 0 "the file is truncated: it lacks the" info cut.json
head -c -60 v100.json >cut.json
tested=$dlcal expect 0 "cut.json is truncated (killed run, full disk)" costs cut.json --batch 32 -o cut.ini
echo '{"traceEvents":[]}' >none.json
tested=$dlcal expect 1 "no process in it computed on a GPU" costs none.json --batch 32 -o cut.ini

# A complete trace of a profiler that could not record kernels is not taken for a program on cores
# either.
grep -v '"cat":"kernel"' v100.json >lost.json
for command in "costs --batch 32 -o cut.ini" replay predict; do
    # shellcheck disable=SC2086
    tested=$dlcal expect 1 "the profiler recorded no kernels" $command lost.json
done
tested=$dlcal expect 0 "the program used a GPU (" info lost.json

# Another batch than the trace's is an assumption with an interval: 1.25 per doubling, 1 / 1.25^2 =
# 0.64 and 1.5625 at four times the batch, of a step that is all computing but for a
# short update. The traced batch is none.
predict "assumed [batch] per_doubling = 1 (0.8 to 1.25), samples/s +49.0 to -33.9 %" v100.ini --batch-per-worker 128
for batches in 32 16,32 32,128; do
    "$dlsim" --costs v100.ini --machine dgx1_v100 --workers 1 --mode none --batch-per-worker $batches --notes -o batches.csv >batches.txt
    grep -q "per_doubling" batches.txt
    [ $? -eq $((${#batches} < 3)) ] || fail "batch $batches: $(cat batches.txt)"
done
awk -F, '/^#/ { next } !n { for (i = 1; i <= NF; i++) c[$i] = i; n = 1; next }
    { low[$c["batch"]] = $c["throughput_low_per_s"] / $c["throughput_per_s"] }
    END { exit !(low[32] == 0 && low[128] > 0.61 && low[128] < 0.67) }' batches.csv ||
    fail "intervals of batches: $(cat batches.csv)"

# A trace that does not name its GPU.
write_trace "" >nameless.json
tested=$dlcal expect 0 "does not name its GPU (--device does)" costs nameless.json --batch 32 -o nameless.ini
tested=$dlsim expect 2 "costs of a GPU need --machine NAME" --costs nameless.ini --workers 2
tested=$dlcal expect 0 "costs written" costs nameless.json --batch 32 --device V100 -o named.ini
predict "scaled from v100 to h100" named.ini

# The same with traces of real runs, if available.
for trace in resnet50_v100_torch19_workers4 resnet_2080ti_no_profilerstep resnet50_ddp_v100_rank0of1; do
    file=${DL_DATA:-none}/traces/kineto/$trace.json.gz
    [ -f "$file" ] || { echo "no $file"; continue; }
    tested=$dlcal expect 0 "costs written" costs "$file" --batch 32 -o $trace.ini
    predict "to h100: x 0." $trace.ini
done

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
