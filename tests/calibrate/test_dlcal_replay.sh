#!/usr/bin/env bash
# Command-line behaviour of dlcal replay, predict and costs. Usage: test_dlcal_replay.sh DLCAL
# DLPROF
set -u
tested=$1
dlprof=$2
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

# Three steps of 1 ms: a launch of 5 us, a gemm of 400 us that starts 10 us after the launch begins,
# a wait that returns 5 us after the gemm, and 585 us of host time. $1 delays the gemm, in us.
write_trace() {
    local step at late=${1:-0}
    echo '{"deviceProperties": [{"id": 0, "name": "GPU of a test"}], "traceEvents": ['
    for step in 1 2 3; do
        at=$((step * 1000))
        cat <<END
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#$step","pid":9,"tid":9,"ts":$at,"dur":1000},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$at,"dur":5,
 "args":{"correlation":$((at + 1))}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":$((at + 10 + late)),"dur":400,
 "args":{"device":0,"stream":7,"correlation":$((at + 1))}},
{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":9,"tid":9,"ts":$((at + 5)),
 "dur":$((410 + late)),"args":{"correlation":$((at + 2))}},
END
    done
    echo '{"ph":"X","cat":"Trace","name":"all","ts":0,"dur":9000}], "traceName": "t"}'
}
write_trace >trace.json
printf '%s\n' '{"deviceProperties": [], "traceEvents": [' \
    '{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":10,"dur":4}]}' >cut.json
echo '{"schemaVersion": 1, "traceEvents": [{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":1}]}' >host.json

# Two ranks: a gemm of 300 or 400 us, then an all-reduce that takes 20 us once both ranks have
# started it; the host waits until 435 us.
write_rank() {
    local rank=$1 gemm=$2 step at
    echo "{\"distributedInfo\": {\"rank\": $rank, \"world_size\": 2}, \"traceEvents\": ["
    for step in 1 2 3; do
        at=$((step * 1000))
        cat <<END
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#$step","pid":9,"tid":9,"ts":$at,"dur":1000},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$at,"dur":5,
 "args":{"correlation":$((at + 1))}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":$rank,"tid":7,"ts":$((at + 10)),"dur":$gemm,
 "args":{"device":$rank,"stream":7,"correlation":$((at + 1))}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$((at + 5)),"dur":5,
 "args":{"correlation":$((at + 2))}},
{"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_float","pid":$rank,"tid":7,
 "ts":$((at + 10 + gemm)),"dur":$((420 - gemm)),
 "args":{"device":$rank,"stream":7,"correlation":$((at + 2))}},
{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":9,"tid":9,"ts":$((at + 10)),
 "dur":425,"args":{"correlation":$((at + 3))}},
END
    done
    echo '{"ph":"X","cat":"Trace","name":"all","ts":0,"dur":9000}], "traceName": "t"}'
}
write_rank 0 300 >rank0.json
write_rank 1 400 >rank1.json

expect 0 "error mean 0.00 %, maximum 0.00 %" replay trace.json
expect 0 "6 step(s): error mean 0.00 %, maximum 0.00 %" replay --together rank0.json rank1.json
# Without the gemms the all-reduce starts 10 us after its launch at 5, so the step takes 15 + 20 + 5
# + 565 us on both ranks. Replayed alone, the first rank still waits 100 us for the other one.
expect 0 "   1      1    0 step   1.00 ms  1.00 ms   +0.00  605 us" \
    replay --together --without sgemm rank0.json rank1.json
expect 0 "705 us" replay --without sgemm rank0.json
expect 0 "sync          3        0        0" replay trace.json
expect 0 "unexplained: no operation starts" replay trace.json
# The host's 585 us are on the critical path of two of three steps.
expect 0 "host             390 us" replay trace.json
# A gemm of twice the time adds 400 us per step; without the gemm a step is 400 us shorter; then
# without the host's time.
expect 0 "1.40 ms  +40.00" replay --scale gemm=2 trace.json
expect 0 "600 us  -40.00" replay --without sgemm trace.json
expect 0 "415 us -58.50" replay --without host trace.json
expect 0 '"changed_ns":1400000' replay --json --scale gemm=2 trace.json
expect 0 '"error_max_frac":0' replay --json trace.json
"$tested" replay --json --scale gemm=2 trace.json >replay.json
"$tested" predict --json trace.json >predict.json
"$tested" predict --json --together rank0.json rank1.json >together.json
expect 0 "and 2 more" replay --steps 1 trace.json
expect 0 "" replay --timeline replayed.json --scale gemm=2 trace.json
grep -q '"name":"sgemm".*"dur":800' replayed.json || {
    echo "FAIL: no sgemm of 800 us in the timeline: $(cat replayed.json)"
    failures=$((failures + 1))
}
expect 0 "trace.json                                       3    0.00%    0.00%" replay --brief trace.json
expect 2 "--brief cannot be combined with --json" replay --brief --json trace.json
expect 2 "--together needs at least two ranks, not 1" replay --together trace.json
expect 0 "host.json: it is of training on cores, without a device" replay host.json trace.json
expect 1 "no trace has GPU operations" replay host.json
expect 1 "missing.json" replay missing.json
expect 2 "did you mean 'gemm'" replay --scale gemn=2 trace.json
expect 2 "expected CLASS=FACTOR" replay --scale gemm trace.json
expect 2 "--timeline writes one replay, not 2" replay --timeline x.json trace.json trace.json
expect 2 "--step-marks" replay --step-marks '(' trace.json
# A known class without operations in the trace changes nothing; an unknown name is an error.
expect 0 "trace.json: it has no 'collective', so nothing changes" replay --without collective trace.json
expect 2 "nothing called 'sgemmm'" replay --without sgemmm trace.json

# A user's rule turns an ordinary kernel into a collective.
expect 0 "collective       400 us" replay --collective '^sgemm=AllGather' trace.json
expect 0 "trace.json   0     3     1" predict --collective '^sgemm=AllGather' trace.json
expect 1 "its 3 regular steps hold no work but collectives" costs --batch 4 --collective '^sgemm=AllGather' trace.json
expect 2 "--collective: " replay --collective nothing trace.json

# Times near the end of their range, and near zero: clocks are shifted towards later times.
sed 's/"ts":\([0-9]\)/"ts":920000000000\1/' trace.json >late.json
expect 1 "late.json: activity" replay late.json
sed 's/"ts":\([0-9]\)/"ts":9\1/' rank1.json >behind.json
expect 0 "error mean 0.00 %" replay --together behind.json rank0.json
expect 0 "farthest end: 0 ns" predict --together --align behind.json rank0.json

# Differing clocks are reported; a trace that cannot be predicted does not stop the other
# predictions.
expect 0 "behind.json: its clock is off by about +9" predict --together rank0.json behind.json
expect 1 "0 regular steps" predict host.json cut.json
expect 0 "trace.json   0     3     1" \
    predict --collective '^sgemm=AllGather' cut.json trace.json

# A device that starts 500 us later in every step, for a reason outside the trace.
write_trace 500 >waits.json
expect 0 "external waits of devices: 2 operations start" replay waits.json
expect 0 "error mean 0.00 %, maximum 0.00 %" replay --external keep waits.json
expect 1 "operations, --external remove leaves them out" costs --batch 4 waits.json
expect 0 "are kept as operations 'external'" costs --batch 4 --external keep --incomplete waits.json -o kept.ini
grep -q '^\[op external.forward\]$' kept.ini || {
    echo "FAIL: no operation 'external.forward' in $(cat kept.ini)"
    failures=$((failures + 1))
}
expect 2 "did you mean 'keep'" replay --external kep waits.json
expect 1 "no process of rank 3 in it: it holds process" replay --rank 3 rank1.json
expect 0 "rank1.json" replay --rank 1 rank1.json

# Recordings of dlprof train are read by another command.
"$dlprof" train --model mlp --batch 4 --data synthetic --steps 2 -o own.dlt >/dev/null
for command in replay predict "costs --batch 4"; do
    # shellcheck disable=SC2086 # the words of the command
    expect 1 "own.dlt: it is a recording of dlprof train: see dlcal fit" $command own.dlt
done
expect 0 "recording of dlprof train" replay own.dlt trace.json
"$tested" replay --json trace.json no_such_file >failed.json 2>/dev/null
[ "$(head -n 1 failed.json)" = "[" ] && [ "$(tail -n 1 failed.json)" = "]" ] || {
    echo "FAIL: the JSON of a failed replay is not whole"
    failures=$((failures + 1))
}
expect 1 "no_such_folder" replay --timeline no_such_folder/x.json trace.json
exit $((failures > 0))
