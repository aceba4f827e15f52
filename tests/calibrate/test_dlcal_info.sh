#!/usr/bin/env bash
# Command-line behaviour of dlcal info. Usage: test_dlcal_info.sh DLCAL
set -u
tested=$1
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# Three steps of one kernel and one all-reduce of 1,000 floats by 2 ranks: 4,000 bytes in 20 us.
write_trace() {
    local rank=$1 step at
    echo "{\"distributedInfo\": {\"rank\": $rank, \"world_size\": 2},"
    echo "\"deviceProperties\": [{\"id\": $rank, \"name\": \"GPU of a test\"}], \"traceEvents\": ["
    for step in 1 2 3; do
        at=$((step * 1000))
        cat <<END
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#$step","pid":9,"tid":9,"ts":$at,"dur":900},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$((at + 10)),"dur":5,
 "args":{"correlation":$((at + 1))}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":$rank,"tid":7,"ts":$((at + 20)),"dur":60,
 "args":{"device":$rank,"stream":7,"correlation":$((at + 1))}},
{"ph":"X","cat":"user_annotation","name":"nccl:all_reduce","pid":9,"tid":9,"ts":$((at + 90)),
 "dur":20,"args":{"Input Dims":[[1000]],"Input type":["float"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":$((at + 95)),"dur":5,
 "args":{"correlation":$((at + 2))}},
{"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_float","pid":$rank,"tid":8,
 "ts":$((at + 100)),"dur":20,"args":{"device":$rank,"stream":8,"correlation":$((at + 2))}},
END
    done
    echo "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"all\",\"ts\":0,\"dur\":9000}], \"traceName\": \"t\"}"
}
write_trace 0 >rank0.json
write_trace 1 | gzip >rank1.json.gz
head -c 900 rank0.json >cut.json
echo '{"traceEvents": [{"ph": "X"}, {"ph" "X"}]}' >bad.json
echo "no trace" >text.txt
tar -czf ranks.tar.gz rank1.json.gz text.txt rank0.json
tar -cf none.tar text.txt
tar -cf some.tar rank0.json rank1.json.gz
head -c 4000 some.tar >cut.tar
expect 0 "Usage: dlcal info" info --help
expect 0 "AllReduce  4.00 kB     2     3 20.0 us" info rank0.json
expect 0 "marks" info rank0.json
expect 0 "GPU of a test" info rank1.json.gz
expect 0 "note: times are whole microseconds" info rank0.json
expect 0 "rank dev" info rank0.json rank1.json.gz
expect 0 "1     +0 ns -20.0 us +20.0 us   0 ns           3" info --clocks rank0.json rank1.json.gz
expect 2 "--clocks needs at least two ranks" info --clocks rank0.json
expect 2 "--clocks cannot be combined with --json" info --clocks --json rank0.json rank1.json.gz
expect 0 "Usage: dlcal info" info --clocks --json --help
expect 0 '"reader":"kineto"' info --json rank0.json
expect 0 '"name":"AlltoAll","bytes":2000' info --json --collective all_red=AlltoAll rank0.json
expect 0 "the text ends early" info cut.json
expect 1 "bad.json: byte 30: malformed event" info bad.json
expect 1 "text.txt: it is not a trace" info text.txt
if "$tested" info some.tar 2>&1 | grep -q "build with libarchive"; then
    expect 1 "some.tar: it is a tar archive" info some.tar
else
    expect 0 "rank             1 of 2" info some.tar
    expect 0 "trace            ranks.tar.gz/rank0.json" info ranks.tar.gz
    expect 0 "1 members of the archive are not traces in JSON: text.txt" info ranks.tar.gz
    expect 0 "1     +0 ns -20.0 us +20.0 us   0 ns           3" info --clocks ranks.tar.gz
    expect 0 '"reader":"archive"' info --json ranks.tar.gz
    expect 1 "no member of the archive" info none.tar
    expect 1 "cut.tar" info cut.tar
fi
expect 0 "AllGather " info --collective '^sge*m|other=AllGather' rank0.json
expect 1 "nowhere.json: cannot open it" info nowhere.json

# JSON is complete in any case: an unreadable file ends the list after the earlier files.
for files in "rank0.json bad.json rank1.json.gz" "bad.json rank0.json" "nowhere.json"; do
    # shellcheck disable=SC2086 # several names
    "$tested" info --json $files >failed.json 2>failed.err && fail "$files: exit 0"
    [ "$(head -n 1 failed.json)" = "[" ] && [ "$(tail -n 1 failed.json)" = "]" ] || fail "$files: no whole array: $(cat failed.json)"
    [ -s failed.err ] || fail "$files: no message"
    [ "$(grep -c '"file":' failed.json)" = "$([ "${files%%.*}" = rank0 ] && echo 1 || echo 0)" ] || fail "$files: not what was read before"
done
expect 2 "did you mean 'AllReduce'?" info --collective x=AllReduc rank0.json
expect 2 "--step-marks" info --step-marks '(' rank0.json
expect 2 "" info

exit $((failures > 0))
