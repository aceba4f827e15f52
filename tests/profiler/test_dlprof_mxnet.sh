#!/usr/bin/env bash
# dlprof run with programs that train with MXNet on processors; MXNet is a double (tests/doubles/mxnet).
# Usage: test_dlprof_mxnet.sh DLPROF DLCAL
set -u
dlprof=$1 dlcal=$2
doubles=$(cd "$(dirname "$0")/../doubles/mxnet" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
command -v python3 >/dev/null || exit 77
export PYTHONPATH=$doubles PYTHONDONTWRITEBYTECODE=1

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

cat >train.py <<'END'
import sys, mxnet
from mxnet import autograd, gluon, profiler
steps, device, store, own = int(sys.argv[1]), sys.argv[2], sys.argv[3], "own" in sys.argv
parameters = [((100, 20), "write"), ((100,), "write"), ((7,), "null")]
trainer = gluon.Trainer(parameters, device, None if store == "none" else store)
other = gluon.Trainer(parameters, device)
for step in range(steps):
    if own and step == 20:
        profiler.set_config(filename="own.json")
        profiler.set_state("run")
    for layer in range(3): profiler.operator("FullyConnected")
    mxnet.nd.NDArray().backward()
    if step % 2: autograd.backward(None)
    trainer.step(48)
    other.step(48) # its steps are within the first one's
if own: profiler.set_state("stop")
print("trained", profiler.waits, profiler.calls)
END

# 15 steps go before the recording, 20 are recorded; a step is 3 operators of 0.5 ms and more forward,
# 3 or 4 backward, 2 updates. The trainer was given the batch, and has 2100 floats to update.
tested=$dlprof
expect 0 "by MXNet's profiler" run -o whole -- python3 train.py 60 cpu none
expect 0 " of 20, by marks" run -o said -- python3 train.py 60 cpu none
zcat whole/*.json.gz | python3 -c 'import json, sys
trace = json.load(sys.stdin)
assert trace["dlprof_batch"] == 48 and trace["dlprof_parameter_bytes"] == 8400, trace.keys()
assert 4e6 <= trace["dlprof_step_ns"] < 4e9
marks = [e for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep") and e["ph"] == "b"]
assert len(marks) == 20, len(marks)' || fail "not the trace of 20 steps"
tested=$dlcal
expect 0 "48 samples" costs whole/*.json.gz -o costs.ini
grep -q "^parameter_bytes = 8400$" costs.ini || fail "parameters: $(cat costs.ini)"
for part in forward backward update; do
    grep -q "^\[op step.$part\]" costs.ini || fail "no $part: $(cat costs.ini)"
done
"$dlcal" info --json whole/*.json.gz >whole.json
python3 - <<'END' || fail "whole: $(cat whole.json)"
import json
cores = json.load(open("whole.json"))[0]["summary"]["cores"]
parts = {name: cores[name + "_ns"]["p50"] for name in ("forward", "backward", "update")}
assert parts["update"] >= 1e6 and parts["forward"] >= 1.5e6 and parts["backward"] >= 1.5e6, parts
END

# What a distributed kvstore takes is no part of a step's computing.
tested=$dlprof
expect 0 "waiting for collectives" run -o dist -- python3 train.py 60 cpu dist_sync

# Nothing of it without the recorder, in a short run or on a GPU.
expect 0 "trained 0 []" run --no-torch -- python3 train.py 60 cpu none
expect 0 "the program ended after 9; recording starts after 15" run -o short -- python3 train.py 9 cpu none
expect 0 "dlprof run: no trace" run -o gpu -- python3 train.py 60 gpu none
# The program's own profiler goes first.
expect 0 "by MXNet's profiler" run -o own -- python3 train.py 60 cpu none own
[ "$(zcat own/*.json.gz | grep -c '"ProfilerStep')" -le 12 ] || fail "own: too many steps"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
