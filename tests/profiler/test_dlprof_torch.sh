#!/usr/bin/env bash
# dlprof run with programs that train with PyTorch on processors. A double replaces PyTorch
# (tests/doubles/torch), so that everything around its profiler is tested on every machine.
# Usage: test_dlprof_torch.sh DLPROF DLCAL
set -u
dlprof=$1 dlcal=$2
doubles=$(cd "$(dirname "$0")/../doubles/torch" && pwd)
# shellcheck source=tests/expect.sh
source "$(dirname "$0")/../expect.sh"
export PYTHONPATH=$doubles PYTHONDONTWRITEBYTECODE=1

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

cat >train.py <<'END'
import sys, torch
from torch.profiler import operator
steps, device, code = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
own = len(sys.argv) > 4 and sys.argv[4] == "own"
first = torch.optim.Optimizer([torch.parameter(device)])
critic = torch.parameter(device)
other = torch.optim.Optimizer([critic])
outer = torch.optim.Optimizer([torch.parameter(device)]) # no backward pass gives it gradients
for step in range(steps):
    if own and step == 20:
        mine = torch.autograd.profiler.profile().__enter__()
    for layer in range(3):
        with operator("aten::linear"): pass
    for layer in range(3):
        with operator("autograd::engine::evaluate_function: AddmmBackward0"): pass
    critic.add_gradient()
    first.step()
    other.step() # its steps are within the first one's
    if step % 10 == 3: outer.step()
assert not critic.hooks or steps < 60
if own:
    mine.__exit__()
print("trained", torch.optim.optimizer.hooks and "hooked")
sys.exit(code)
END

# A step has 8 operators of at least 0.5 ms; 15 steps precede the recording, 20 are recorded.
tested=$dlprof
expect 3 "trained hooked" run -o whole -- python3 train.py 60 cpu 3
expect 3 "by PyTorch's profiler" run -o said -- python3 train.py 60 cpu 3
expect 0 "for dlsim: dlcal costs $PWD/next/" run -o next -- python3 train.py 60 cpu 0
# With a busy loop for each processor, other programs take at least a third of the processor time.
for ((busy = 0; busy < $(nproc); busy++)); do
    while :; do :; done &
done
expect 0 "% of the processors meanwhile, " \
    run -o crowded --json crowded.json -- python3 train.py 60 cpu 0
# shellcheck disable=SC2046
kill $(jobs -p)
wait 2>/dev/null
python3 -c 'import json
run = json.load(open("crowded.json"))
assert 0.25 < run["others_frac"] <= 1 and 0 <= run["steal_frac"] <= 1, run' || fail "others: $(cat crowded.json)"
[ "$(ls -A whole | wc -l)" -eq 1 ] || fail "whole holds $(ls -A whole)"
counted() { # FILE...: operators "Optimizer.step" of all optimizers
    zcat "$@" | grep -o "Optimizer.step#SGD.step" | wc -l
}
# 20 steps end with an update of the first optimizer, each preceded by one of the other; two have a
# third.
[ "$(counted whole/*.json.gz)" -eq 42 ] || fail "$(counted whole/*.json.gz) updates, not 42"
zcat whole/*.json.gz | python3 -c 'import json, sys
ns = json.load(sys.stdin)["dlprof_step_ns"]
assert 4e6 <= ns < 4e9, ns' || fail "no time without the profiler"
zcat whole/*.json.gz | grep -q '"dlprof_threads": 2' || fail "no threads of operators"
# With several optimizers, each step has a range, and the parameters with gradients are counted once.
zcat whole/*.json.gz | python3 -c 'import json, sys
trace = json.load(sys.stdin)
assert trace["dlprof_parameter_bytes"] == 2000, trace["dlprof_parameter_bytes"]
steps = [e for e in trace["traceEvents"] if e.get("name", "").startswith("ProfilerStep#")]
assert len(steps) == 20, len(steps)' || fail "several optimizers"

# Without an optimizer's own gradients in the trace, as these operators have no shapes, dlcal takes the
# parameters that the recorder counts.
tested=$dlcal
expect 0 "parameter_bytes are those that the optimizer" costs whole/*.json.gz --batch 8 -o counted.ini
grep -q "^parameter_bytes = 2000" counted.ini || fail "counted.ini: $(cat counted.ini)"

# dlcal scales the operations to the step time without the profiler.
tested=$dlcal
expect 0 "without the profiler a step took" costs whole/*.json.gz --batch 8 -o costs.ini
zcat whole/*.json.gz | sed 's/"dlprof_step_ns": [0-9]*/"dlprof_step_ns": 1000000000/' | gzip >slow.json.gz
expect 0 "a step took 1.00 s," costs slow.json.gz --batch 8 -o slow.ini

tested=$dlprof
# --steps and --duration; a program that ends during the recording, and one that ends before it.
expect 0 "" run -o few --steps 4 -- python3 train.py 60 cpu 0
[ "$(counted few/*.json.gz)" -eq 8 ] || fail "--steps 4: $(counted few/*.json.gz) updates"
expect 0 "" run -o brief --duration 0.001 -- python3 train.py 60 cpu 0
[ "$(counted brief/*.json.gz)" -eq 2 ] || fail "--duration: $(counted brief/*.json.gz) updates"
expect 0 "by PyTorch's profiler" run -o cut -- python3 train.py 21 cpu 0
[ "$(counted cut/*.json.gz)" -ge 8 ] || fail "cut: $(counted cut/*.json.gz) updates"
expect 0 "the program ended after 9; recording starts after 15" run -o short -- python3 train.py 9 cpu 0

# A program that a signal ends while it is recorded.
cat >killed.py <<'END'
import os, torch
optimizer = torch.optim.Optimizer([torch.parameter("cpu")])
for step in range(20): optimizer.step()
os.kill(os.getpid(), 15)
END
expect 143 "the command was killed by SIGTERM: steps of PyTorch" run -o killed -- python3 killed.py

# PyTorch's profiler is not used on a GPU, with --no-torch, and for programs without PyTorch.
expect 0 "PyTorch ran no backward pass and no optimizer update on the processor either" run -o gpu -- \
    python3 train.py 60 cuda 0
expect 0 "trained []" run --no-torch -- python3 train.py 60 cpu 0
expect 0 "dlprof run: no trace" run -- python3 -c 'print(1)'

# Without an optimizer a step lasts from one backward pass to the next, and begins with the update,
# which is "aten::sub_" here; a loop without modules has no range for the update.
cat >hand.py <<'END'
import sys, torch
from torch.profiler import operator
model = [torch.nn.Linear()] * 3
loss = torch.parameter(sys.argv[3] if len(sys.argv) > 3 else "cpu")
late = torch.optim.Optimizer([torch.parameter("cpu")]) if "late" in sys.argv else None
if "inside" in sys.argv: torch.autograd.hooks.append(torch.optim.Optimizer([torch.parameter("cpu")]).step)
for step in range(int(sys.argv[1])):
    if "modules" in sys.argv:
        for layer in model: layer()
    else:
        with operator("aten::mm"): pass
    torch.autograd.backward(loss) if step % 2 else torch.autograd.backward(tensors=[loss])
    if late and step % 40 == 39: late.step()
    with operator("aten::sub_"): pass
print("trained", torch.nn.modules.module.hooks)
END
ranges() { # NAME FILE...
    zcat "${@:2}" | grep -o "\"$1" | wc -l
}
expect 0 " of 20, by marks" run -o hand -- python3 hand.py 60 modules
[ "$(ranges Optimizer.step#own hand/*.json.gz)" -eq 20 ] || fail "hand: no update in each step"
"$dlcal" info --json hand/*.json.gz >hand.json
python3 - <<'END' || fail "hand: $(cat hand.json)"
import json
cores = json.load(open("hand.json"))[0]["summary"]["cores"]
parts = {name: cores[name + "_ns"]["p50"] for name in ("forward", "backward", "update")}
# The update has one operator of at least 0.5 ms, each pass three.
assert parts["update"] >= 0.5e6 and parts["forward"] >= 1.5e6 and parts["backward"] >= 1.5e6, parts
END
# Optimizers that update in hooks of the backward pass: a profiler must not start or stop there.
expect 0 " of 20, by marks" run -o inside -- python3 hand.py 60 modules cpu inside
[ "$(ranges Optimizer.step#SGD inside/*.json.gz)" -eq 20 ] || fail "inside: not an update in each step"
# One that updates in hooks beside one that updates after the pass: both have parameters.
cat >mixed.py <<'END'
import torch
from torch.profiler import operator
torch.autograd.hooks.append(torch.optim.Optimizer([torch.parameter("cpu"), torch.parameter("cpu")]).step)
optimizer = torch.optim.Optimizer([torch.parameter("cpu")])
for step in range(60):
    with operator("aten::linear"): pass
    torch.autograd.backward(torch.parameter("cpu"))
    optimizer.step()
END
expect 0 "by PyTorch's profiler" run -o mixed -- python3 mixed.py
zcat mixed/*.json.gz | grep -q '"dlprof_parameter_bytes": 3000' || fail "mixed: not the parameters of both"
expect 0 "trained []" run -o plain -- python3 hand.py 60 plain
[ "$(ranges ProfilerStep plain/*.json.gz)" -eq 20 ] || fail "plain: not 20 steps"
[ "$(ranges Optimizer.step plain/*.json.gz)" -eq 0 ] || fail "plain: an update that nothing ends"
expect 0 "the program ended after 9; recording starts after 15" run -o shorter -- python3 hand.py 9 modules
expect 0 "dlprof run: no trace" run -- python3 hand.py 60 cuda:0 cuda
# An optimizer's update after 40 backward passes: these were no steps, so their recording is discarded.
expect 0 "the program ended after 2; recording starts after 15" run -o late -- python3 hand.py 100 modules cpu late
[ "$(ls late/*.json.gz 2>/dev/null | wc -l)" -eq 0 ] || fail "late: steps of single passes stayed"

# No operator includes the processor time of child processes, as of a data loader.
cat >children.py <<'END'
import multiprocessing, os, runpy, sys
def load():
    while os.getppid() > 1: pass
loader = multiprocessing.get_context("fork").Process(target=load, daemon=True)
loader.start()
sys.argv[1:] = ["60", "cpu", "0"]
runpy.run_path("train.py", run_name="__main__")
END
expect 0 "by PyTorch's profiler" run -o children -- python3 children.py
tested=$dlcal
expect 0 "of processor time per step, which the costs" costs children/*.json.gz --batch 8 -o children.ini
if "$dlcal" costs whole/*.json.gz --batch 8 -o whole.ini | grep -q "processor time"; then
    fail "processor time of children that there are none of"
fi
tested=$dlprof

# Getting a batch from a data loader's processes takes 2 ms, nearly all of it waiting; with
# num_workers=0 there are no such times. While steps are recorded the loader is unmodified.
cat >loaded.py <<'END'
import sys
from torch.utils.data.dataloader import _BaseDataLoaderIter
own = _BaseDataLoaderIter.__next__
batches = _BaseDataLoaderIter(int(sys.argv[1]), 0.002)
import torch
from torch.profiler import operator
optimizer = torch.optim.Optimizer([torch.parameter("cpu")])
for step in range(40):
    next(batches)
    with operator("aten::linear"): pass
    optimizer.step()
assert _BaseDataLoaderIter.__next__ is own
END
expect 0 "by PyTorch's profiler" run -o loaded -- python3 loaded.py 2
zcat loaded/*.json.gz | grep -q '"dlprof_parameter_bytes": 1000' || fail "no parameters of one optimizer"
zcat loaded/*.json.gz | python3 -c 'import json, sys
trace = json.load(sys.stdin)
assert 2e6 <= trace["dlprof_take_ns"] < trace["dlprof_step_ns"], trace["dlprof_take_ns"]
assert trace["dlprof_loaders"] == 2
assert 0 < trace["dlprof_take_processor_ns"] < trace["dlprof_take_ns"]' || fail "times of taking batches"
expect 0 "by PyTorch's profiler" run -o unloaded -- python3 loaded.py 0
if zcat unloaded/*.json.gz | grep -q dlprof_take; then fail "batches taken from nobody"; fi

# Each step maps new memory: 64 times 16 pages. The mappings are small, as huge pages would cause fewer faults.
cat >faults.py <<'END'
import mmap, torch
from torch.profiler import operator
optimizer = torch.optim.Optimizer([torch.parameter("cpu")])
for step in range(40):
    for piece in range(64):
        with mmap.mmap(-1, 16 * mmap.PAGESIZE) as memory:
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
    with operator("aten::linear"): pass
    optimizer.step()
END
expect 0 "by PyTorch's profiler" run -o faults -- python3 faults.py
zcat faults/*.json.gz | python3 -c 'import json, sys
faults = json.load(sys.stdin)["dlprof_faults"]
assert 64 * 16 <= faults < 2 * 64 * 16, faults' || fail "page faults of a step"

# The program's own profiler has priority: ours ends when it starts, or never starts.
expect 0 "by PyTorch's profiler" run -o own -- python3 train.py 60 cpu 0 own
[ "$(counted own/*.json.gz)" -le 12 ] || fail "own: $(counted own/*.json.gz) updates"
cat >busy.py <<'END'
import torch
with torch.autograd.profiler.profile():
    optimizer = torch.optim.Optimizer([torch.parameter("cpu")])
    for step in range(60):
        optimizer.step()
END
expect 0 "the program's own profiler was at work" run -o busy -- python3 busy.py

# Each process forked by multiprocessing makes its own recording; one that cannot write does no harm.
cat >fork.py <<'END'
import multiprocessing, os, runpy, sys, torch
def train():
    sys.argv[1:] = ["60", "cpu", "0"]
    try: runpy.run_path("train.py", run_name="__main__")
    except SystemExit: pass
multiprocessing.set_start_method("fork")
processes = [multiprocessing.Process(target=train) for _ in range(2)]
for p in processes: p.start()
for p in processes: p.join()
END
expect 0 "2 traces" run -o forked -- python3 fork.py
# So does each program that a launcher such as torchrun starts in a new session.
cat >launch.py <<'END'
import subprocess, sys, torch
command = [sys.executable, "train.py", "60", "cpu", "0"]
ranks = [subprocess.Popen(command, start_new_session=True) for _ in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
END
expect 0 "the other processes: dlcal info $PWD/launched/" run -o launched -- python3 launch.py
[ "$(ls launched/*.json.gz | wc -l)" -eq 2 ] || fail "launched: $(ls launched)"
expect 6 "trained" run -o gone -- sh -c 'rmdir "$DLPROF_OUTPUT"/.dlprof-run "$DLPROF_OUTPUT"; python3 train.py 60 cpu 6'

# Another sitecustomize still runs, and folders in PYTHONPATH are still searched.
mkdir site
echo 'print("another sitecustomize")' >site/sitecustomize.py
PYTHONPATH=$PWD/site:$doubles expect 0 "another sitecustomize" run -o site.run -- python3 train.py 60 cpu 0
ls site.run/*.json.gz >/dev/null || fail "beside another sitecustomize nothing was recorded"

[ $failures -eq 0 ] || { echo "$failures failures"; exit 1; }
