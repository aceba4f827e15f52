"""The steps of a run on a machine with GPUs, and their checks. See run.sh.

Usage: steps.py OUT BUILD [--settings FILE] [STEP...]

BUILD has bin/ and tests/. FILE (JSON) replaces some of the SETTINGS below.
"""

import argparse
import csv
import json
import os
import re
import shutil
import statistics
import sys
from pathlib import Path

import recorded
from plan import Plan

HERE = Path(__file__).resolve().parent
RAW_BYTES_MAX = 1_000_000  # largest fixture
GPU = "--device cuda --data synthetic"

SETTINGS = {
    "limit_s": 600,  # for everything
    "pack": os.environ.get("PACK", ""),  # a folder that also gets the results after each step
    "judge_times": True,  # False with doubles of GPUs
    "tests": ["test_backend_cuda", "test_device", "test_train_device"],
    "memcheck": {  # {program: skipped tests, which cause errors intentionally}
        "test_backend_cuda": ["too_little_memory_is_an_error"],
    },
    "sanitizer": "compute-sanitizer",
    "launches": 10000,  # of tests/gpu/truth.c
    "own_frac": 0.01,  # largest deviation of a kernel's mean time from the program's measurement
    "torch": [sys.executable, str(HERE / "torch_cases.py")],
    "torch_cases": ["eager", "compile", "graphs", "loaders", "profiler", "ddp"],
    "torch_steps": 60,
    "rounds": 5,  # of the cost of recording, at least 2
    "warm_s": 1,
    "run_s": 2,  # duration of a timed training run
    "cost": {
        "resnet50": {"batch": 64, "preset": "default", "percent": 2},
        "lenet": {"batch": 128, "preset": "light", "percent": 5},
    },
    "models": {"lenet": 64, "vgg19_bn": 64, "resnet50": 64},  # batch compared with PyTorch
    "precisions": ["fp32", "tf32"],
    "predict": {
        "model": "lenet",
        "batch": 64,
        "workers": [1, 2, 4, 8],
        "intervals": [1, 5, 10],
        "modes": ["async", "softsync", "ps"],
        "where": ["cpu", "gpu:0"],
        "steps": 400,
        "precision": "fp32",
    },
    "error_frac": 0.05,  # largest error of a prediction
    "loss_frac": 0.001,  # largest deviation between ways to launch the same training
    "copy_frac": 0.1,  # largest deviation of the rate to the device from PyTorch's
    "bench": ["--seconds", 12, "--precision", "fp32"],
    "shapes": "--workload gpt2:layers=2,sequence=512,fused=yes --batch 8 --seconds 6",
}


def inventory(step):
    """Describes the machine; reads the libraries once, so that no step waits for the disk."""
    step.run("nvidia-smi", ["nvidia-smi"])
    step.run("topology", ["nvidia-smi", "topo", "-m"])
    query = "name,driver_version,compute_cap,clocks.sm,clocks.max.sm"
    gpus = (
        step.need(step.run("gpus", ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]))
        .strip()
        .splitlines()
    )
    step.check(gpus, "nvidia-smi lists no GPU")
    version = step.need(step.run("dlprof", [step.plan.bin / "dlprof", "--version"])).strip()
    size = 0
    for program in sorted(step.plan.bin.iterdir()) + sorted(step.plan.tests.iterdir()):
        size += len(program.read_bytes()) if program.is_file() else 0
    needed = step.run("libraries", ["ldd", step.plan.bin / "libdlprof_cuda.so"]) or ""
    for line in needed.splitlines():
        words = line.split()
        step.check("not found" not in line, f"no library {words[0]}")
        if len(words) > 2 and words[1] == "=>" and words[2].startswith("/"):
            size += len(Path(words[2]).read_bytes())
    for gpu in gpus[:1]:
        step.figure(f"{len(gpus)} x {gpu}; {version}; {size / 1e6:.0f} MB read")


def gpu_count(step):
    return step.need(step.run("gpus", ["nvidia-smi", "-L"])).count("GPU ")


def passed(step, name, command, env=None):
    """Runs a test program and returns the number of passed tests."""
    text = step.run(name, command, env=env)
    if text is None:
        return 0
    text += (step.folder / f"{name}.err").read_text(errors="replace")
    step.check("SKIPPED" not in text, f"{name}: tests skipped themselves")
    found = [int(line.split()[3]) for line in text.splitlines() if line.startswith("[  PASSED  ]")]
    step.check(sum(found) > 0, f"{name}: no test has passed")
    return sum(found)


def backend(step):
    """Compares the kernels with the processor's, then repeats that under compute-sanitizer."""
    count = sum(passed(step, name, [step.plan.tests / name]) for name in step.settings["tests"])
    errors = 0
    for name, left_out in step.settings["memcheck"].items():
        label = f"memcheck_{name}"
        passed(
            step,
            label,
            [step.settings["sanitizer"], "--error-exitcode", "9", step.plan.tests / name, *left_out],
        )
        log = (step.folder / f"{label}.out").read_text(errors="replace")
        errors += not step.check(
            "ERROR SUMMARY: 0 errors" in log, f"{label}: memory errors, or no sum"
        )
    if count > 0:
        step.figure(f"{count} tests passed, {errors} programs with memory errors")


def record(step, name, command, options=(), codes=(0,), env=None):
    """Records a command with dlprof run: (its output, the summary or None)."""
    summary = step.folder / f"{name}.json"
    traces = step.folder / f"{name}.traces"
    shutil.rmtree(traces, ignore_errors=True)
    text = step.run(
        name,
        [
            step.plan.bin / "dlprof",
            "run",
            "-q",
            "-o",
            traces,
            "--json",
            summary,
            *options,
            "--",
            *command,
        ],
        codes=codes,
        env=env,
    )
    try:
        run = json.loads(summary.read_text())
    except (OSError, ValueError):
        run = None
    if (
        traces.exists()
        and sum(path.stat().st_size for path in traces.iterdir() if path.is_file()) > 20e6
    ):
        shutil.rmtree(traces)  # the summary is enough
    return text, run


def truths(text):
    """({activity: (count, bytes)}, launches of graphs, time by CUDA's events), printed by all processes."""
    found, graphs, long_ns = {}, 0, 0
    for line in (text or "").splitlines():
        truth = json.loads(line)
        long_ns = truth["long_ns"]
        for work in truth["works"]:
            if work["kind"] == "graph":
                graphs += work["count"]
                continue
            key = (work["kind"], work["what"], work["memory"], work["device"])
            before = found.get(key, (0, 0))
            found[key] = (before[0] + work["count"], before[1] + work["bytes"])
    return found, graphs, long_ns


def compare_truth(step, name, text, run, preset, whole_graphs=False, ends=True):
    """Checks that counts and bytes equal the program's, and kernel times those of CUDA's events."""
    expected, graphs, long_ns = truths(text)
    if not step.check(expected, f"{name}: the program says nothing"):
        return
    if not recorded.check(step, name, run):
        return
    if whole_graphs:
        expected.pop(("kernel", "truth_node", "", 0))
        seen = sum(device["graphs"]["count"] for device in recorded.devices(run))
        step.check(seen == graphs, f"{name}: {seen:g} of {graphs} launches of graphs")
        expected[("kernel", "truth_node", "", 0)] = (1, 0)  # launched before the graph
    works = recorded.works(run)
    for key in sorted(set(expected) | set(works)):
        step.check(
            works.get(key) == expected.get(key),
            f"{name}: {' '.join(str(part) for part in key if part != '')}: recorded "
            f"{works.get(key)}, true {expected.get(key)}",
        )
    if ends:
        for process in recorded.processes(run):
            step.check(process["complete"], f"{name}: a trace is not complete")
    if preset != "light":
        step.check(
            recorded.tied_frac(run) == 1,
            f"{name}: {100 * recorded.tied_frac(run):.2f} % of the work is tied to its call",
        )
    long = [
        kernel
        for device in recorded.devices(run)
        for kernel in device["kernels"]
        if kernel["name"] == "truth_long"
    ]
    count = sum(kernel["count"] for kernel in long)
    if step.check(count > 0 and long_ns > 0, f"{name}: no long kernel"):
        off = sum(kernel["total_ns"] for kernel in long) / count / long_ns - 1
        step.check(
            abs(off) <= step.settings["own_frac"],
            f"{name}: kernels are {100 * off:+.2f} % of the program's own time off",
        )
        step.offs.append(off)


def truth(step):
    """Records a program that prints its own activities, under each preset and with every ending."""
    launches, program = step.settings["launches"], step.plan.tests / "truth"
    bare = step.need(step.run("bare", [program, "exit", launches], codes=(3,)))
    step.offs = []
    cases = [(preset, "exit", 3, ()) for preset in ("light", "default", "full")]
    cases += [
        ("default", ending, code, ())
        for ending, code in (("_exit", 4), ("kill", 137), ("fork", 3), ("exec", 3))
    ]
    cases.append(("default", "exit", 3, ("--graphs", "graph")))
    count = 0
    for preset, ending, code, options in cases:
        name = "_".join(["graph" if options else preset, ending])
        text, run = record(
            step, name, [program, ending, launches], ["-p", preset, *options], (code,)
        )
        compare_truth(step, name, text, run, preset, bool(options), ending not in ("_exit", "kill"))
        if ending == "exit":
            step.check(
                text is None or truths(text)[0] == truths(bare)[0],
                f"{name}: the program does something else when it is recorded",
            )
        if run is not None:
            count += recorded.kernels(run)
    if step.offs:
        step.figure(
            f"{len(cases)} runs, {count} kernels, all there; their means "
            f"{100 * min(step.offs):+.2f} to {100 * max(step.offs):+.2f} % from CUDA's events"
        )


def raw(step):
    """Makes fixtures for tests without a GPU: small runs of truth, with CUPTI's raw records."""
    fixtures = step.plan.out / "fixtures"
    fixtures.mkdir(exist_ok=True)
    for name, options in (("truth_full", ("-p", "full")), ("truth_graph", ("--graphs", "graph"))):
        text, _ = record(
            step, name, [step.plan.tests / "truth", "exit", "200"], [*options, "--dump-raw"], (3,)
        )
        files = sorted((step.folder / f"{name}.traces").glob("*.raw"))
        if not step.check(len(files) == 1, f"{name}: {len(files)} files of raw records"):
            continue
        size = files[0].stat().st_size
        step.check(size <= RAW_BYTES_MAX, f"{name}: {size} bytes are too many for a fixture")
        counts = step.json(f"{name}_counts", [step.plan.tests / "raw_counts", files[0]])
        expected, graphs, _ = truths(text)
        nodes = expected.get(("kernel", "truth_node", "", 0), (0, 0))[0]
        kernels = sum(count for key, (count, _) in expected.items() if key[0] == "kernel")
        if name == "truth_graph":
            kernels -= nodes - 1
        if counts is None or not step.check(
            kernels > 0 and counts["kernel"] == kernels,
            f"{name}: {counts['kernel']} of {kernels} kernels in it",
        ):
            continue
        shutil.copy(files[0], fixtures / f"{name}.raw")
        (fixtures / f"{name}.raw.json").write_text(json.dumps(counts) + "\n")
        step.figure(
            f"{name}.raw: {size} bytes, {kernels} kernels, {counts['graph']} of {graphs} graphs"
        )


def torch_there(step):
    """Whether PyTorch has a GPU; if not, marks the step as left out."""
    if "no torch" not in step.need(
        step.run("there", [*step.settings["torch"], "there"], codes=(0, 77))
    ):
        return True
    step.left_out = "python3 has no torch with a GPU"
    return False


def torch(step):
    """Records typical PyTorch programs with known numbers of steps, launches, ranks and bytes."""
    steps = step.settings["torch_steps"]
    if not torch_there(step):
        return
    for case in step.settings["torch_cases"]:
        text, run = record(step, case, [*step.settings["torch"], case, steps])
        told = [json.loads(line) for line in (text or "").splitlines() if line.startswith("{")]
        if not step.check(told, f"{case}: the program says nothing") or run is None:
            continue
        known = told[-1]
        if case == "profiler":
            took = [text for text in recorded.losses(run) if text.startswith("takeover")]
            step.check(
                took or recorded.kernels(run) >= known["kernels"],
                f"{case}: {recorded.kernels(run)} of {known['kernels']} kernels, nothing said",
            )
            step.figure(f"{case}: {took[0] if took else 'recorded to the end'}")
            continue
        if not recorded.check(step, case, run, steps):
            continue
        recorded.check_steps(
            step,
            case,
            run,
            steps,
            known["ranks"],
            ("graph launches",) if case == "graphs" else None,
        )
        tied = recorded.tied_frac(run)
        step.check(tied > 0.99, f"{case}: {100 * tied:.1f} % of the work is tied to its call")
        if case == "compile":
            step.check(recorded.kernels_named(run, "triton") > 0, f"{case}: no kernel of Triton's")
        if case == "ddp":
            check_ranks(step, case, run, known, steps)
        for method, regular, rest in recorded.steps(run)[:1]:
            step.figure(
                f"{case}: {recorded.kernels(run)} kernels, {regular} steps and {rest} others by "
                f"{method}"
            )


def check_ranks(step, case, run, known, steps):
    """Checks that every rank reduced all parameters in each step."""
    ranks = [
        process["rank"] for process in recorded.processes(run) if process["summary"]["devices"]
    ]
    step.check(set(ranks) == set(range(known["ranks"])), f"{case}: ranks {ranks}")
    for process in recorded.processes(run):
        for device in process["summary"]["devices"]:
            size = sum(
                one["bytes"] * one["duration_ns"]["count"]
                for one in device["collectives"]
                if one["name"] == "AllReduce"
            )
            step.check(
                size == known["reduced_bytes"],
                f"{case}: rank {process['rank']} reduced {size:g} bytes in {steps} steps, true "
                f"{known['reduced_bytes']}",
            )


def train(step, name, options, steps, before=(), env=None):
    """Runs dlprof train on a GPU; returns the median step time in ns, or None after noting a failure."""
    trace = step.folder / f"{name}.dlt"
    trace.unlink(missing_ok=True)
    words = f"train {GPU} --steps {steps} -o".split()
    command = [*before, step.plan.bin / "dlprof", *words, trace, *options]
    if step.run(name, command, env=env) is None:
        return None
    if not trace.exists():
        trace = step.folder / f"{name}.rank0.dlt"
    info = step.json(f"{name}.info", [step.plan.bin / "dlprof", "info", "--json", trace])
    step_ns = find(info, "p50")
    step.check(step_ns, f"{name}: no step was timed")
    return step_ns


def last_loss(step, name):
    """The last loss that dlprof train printed."""
    words = (step.folder / f"{name}.out").read_text()
    found = re.search(r"^loss .* last ([0-9.e+-]+)$", words, re.MULTILINE)
    step.check(found, f"{name}: no loss was printed")
    return float(found[1]) if found else None


def find(value, key):
    """The first number with that key in a JSON value, depth first; None if there is none."""
    if isinstance(value, dict):
        if isinstance(value.get(key), (int, float)):
            return value[key]
        value = value.values()
    elif not isinstance(value, list):
        return None
    return next((found for part in value if (found := find(part, key)) is not None), None)


def steps_for(step, name, options):
    """Steps for warm_s + run_s, by a short run: the GPU's clock must rise before most of them."""
    known = train(step, f"{name}_short", options, 20)
    seconds = step.settings["warm_s"] + step.settings["run_s"]
    return max(20, min(50000, int(1e9 * seconds / known))) if known else None


def cost(step):
    """Measures the overhead of recording: interleaved runs without it and with light and default."""
    models = step.settings["cost"]
    for model, bound in models.items():
        options = ["--model", model, "--batch", bound["batch"], *bound.get("options", [])]
        count = steps_for(step, model, options)
        if count is None:
            continue
        times = {"bare": [], "light": [], "default": []}
        until_s = step.left_s() * (1 - 1 / (len(models) - list(models).index(model)))
        for turn in range(step.settings["rounds"]):
            begun_s = step.left_s()
            for variant in list(times)[:: 1 if turn % 2 == 0 else -1]:
                name, before = f"{model}_{variant}", []
                if variant != "bare":
                    shutil.rmtree(step.folder / f"{name}.traces", ignore_errors=True)
                    before = [
                        step.plan.bin / "dlprof",
                        "run",
                        "-q",
                        "-p",
                        variant,
                        "-o",
                        step.folder / f"{name}.traces",
                        "--json",
                        step.folder / f"{name}.json",
                        "--",
                    ]
                taken = train(step, name, options, count, before)
                if taken is not None and variant != "bare":
                    run = json.loads((step.folder / f"{name}.json").read_text())
                    held = recorded.check(step, name, run, count) and recorded.check_steps(
                        step, name, run, count, methods=("marks",)
                    )
                    taken = taken if held else None
                if taken is not None:
                    times[variant].append(taken)
            if step.left_s() - (begun_s - step.left_s()) < until_s:
                break
        rounds = min(len(taken) for taken in times.values())
        if not step.check(rounds >= 2, f"{model}: {rounds} rounds, 2 are the least"):
            continue
        shares = {
            variant: [100 * (ns / bare - 1) for ns, bare in zip(times[variant], times["bare"])]
            for variant in ("light", "default")
        }
        bare_ns = statistics.median(times["bare"])
        for variant, values in shares.items():
            middle = statistics.median(values)
            if variant == bound["preset"]:
                step.timing(
                    middle <= bound["percent"],
                    f"{model}: {variant} costs {middle:.2f} % of the "
                    f"step, at most {bound['percent']} %",
                )
            step.figure(
                f"{model} {variant}: {middle:+.2f} % ({min(values):+.2f} to {max(values):+.2f}, "
                f"{rounds} rounds of {count} steps of {bare_ns / 1e6:.3f} ms)"
            )


def beside_torch(step):
    """Compares our steps with PyTorch's: the same batch from page-locked memory, the same precision."""
    if not torch_there(step):
        return
    cases = [
        f"{model}:{batch}:{precision}"
        for model, batch in step.settings["models"].items()
        for precision in step.settings["precisions"]
    ]
    seconds = step.settings["warm_s"] + step.settings["run_s"]
    options = ["step", "--seconds", seconds, "--cases", *cases]
    text = step.run("torch", [*step.settings["torch"], *options]) or ""
    theirs = {told["case"]: told for told in map(json.loads, text.splitlines())}
    for case in cases:
        model, batch, precision = case.split(":")
        name = f"{model}_{precision}"
        options = ["--model", model, "--batch", batch, "--precision", precision]
        count = steps_for(step, name, options)
        ours = train(step, name, options, count) if count else None
        told = theirs.get(case)
        if ours is None or not step.check(told, f"{name}: PyTorch's step was not timed"):
            continue
        own = re.search(r"(\d+) parameters", (step.folder / f"{name}.out").read_text())
        step.check(
            own and int(own[1]) == told["parameters"],
            f"{name}: {own and own[1]} parameters, PyTorch {told['parameters']}",
        )
        ratio = ours / told["step_ns"]
        step.timing(ratio <= 1, f"{name}: {ratio:.2f} of PyTorch's step")
        step.figure(
            f"{name}: {ours / 1e6:.3f} ms, PyTorch {told['step_ns'] / 1e6:.3f} ms, ratio {ratio:.2f}"
            f" (PyTorch's host ahead: {told['ahead_ns'] / 1e6:.3f} ms)"
        )


def points(known):
    """[(workers, where, mode, options of the mode)] of the measured and predicted points."""
    found = []
    for workers in known["workers"]:
        for where in known["where"]:
            for interval in known["intervals"]:
                found.append((workers, where, "average", ["--interval", interval]))
            found += [(workers, where, mode, []) for mode in known["modes"]]
    return [point for point in found if point[0] > 1]


def predict(step):
    """Measures several workers on one GPU, and predicts them from one worker and a bench."""
    known = step.settings["predict"]
    model = ["--model", known["model"], "--precision", known["precision"]]
    machine = step.plan.out / "machine.ini"
    dlprof, dlcal, dlsim = (step.plan.bin / name for name in ("dlprof", "dlcal", "dlsim"))
    if not machine.exists():
        step.need(step.run("machine", [dlprof, "machine", "--measure", "-o", machine], limit_s=60))
    traces = []
    for batch in (known["batch"] // 2, known["batch"], 2 * known["batch"]):
        if train(step, f"one_{batch}", [*model, "--batch", batch], known["steps"]):
            traces.append(step.folder / f"one_{batch}.dlt")
    bench = step.folder / "bench.dlt"
    step.need(
        step.run(
            "bench",
            [
                dlprof,
                *f"bench {GPU} --model {known['model']} --batch {known['batch']}".split(),
                *f"--workers-max {max(known['workers'])} -o".split(),
                *(bench, *step.settings["bench"]),
            ],
        )
    )
    step.need(step.run("fit", [dlcal, "fit", *traces, bench, "-o", step.folder / "costs.ini"]))
    measured = {}
    for workers, where, mode, options in points(known):
        interval = str(options[1]) if options else ""
        name = f"{mode}{interval}_{where.partition(':')[0]}_{workers}"
        table = step.folder / f"{name}.csv"
        table.unlink(missing_ok=True)
        step.run(
            name,
            [
                dlprof,
                *f"train {GPU} --gpus 1 --workers {workers}".split(),
                *f"--batch {workers * known['batch']} --steps {known['steps']}".split(),
                *f"--sync {mode} --where {where}".split(),
                *(*model, *options, "--csv", table, "-o", step.folder / f"{name}.dlt"),
            ],
        )
        for row in rows_of(table):
            measured[mode, interval, where, str(workers)] = float(row["throughput_per_s"])
    found = {}
    for where in known["where"]:
        found.update(predicted(step, dlsim, known, where, machine))
    errors = [
        (found[point] / rate - 1, " ".join(filter(None, point)))
        for point, rate in measured.items()
        if point in found
    ]
    wanted = len(points(known))
    step.check(len(errors) == wanted, f"{len(errors)} of {wanted} runs were measured and predicted")
    if errors:
        worst = max(errors, key=lambda one: abs(one[0]))
        mean = statistics.mean(abs(error) for error, _ in errors)
        step.timing(
            mean <= step.settings["error_frac"],
            f"predictions are {100 * mean:.1f} % off on average",
        )
        step.figure(
            f"{len(errors)} runs: mean error {100 * mean:.1f} %, most {100 * worst[0]:+.1f} % "
            f"({worst[1]})"
        )


def rows_of(path):
    """Rows of a table that starts with comment lines; [] if the file does not exist."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def predicted(step, dlsim, known, where, machine):
    """{(mode, interval, where, workers): predicted samples/s} for one value of `where`."""
    name = f"predict_{where.partition(':')[0]}"
    workers = ", ".join(str(count) for count in known["workers"] if count > 1)
    intervals = ", ".join(str(interval) for interval in known["intervals"])
    (step.folder / f"{name}.ini").write_text(
        f"[machine]\nfile = {machine}\nworkers = {workers}\ngpus = 0\n"
        f"[workload]\ncosts = costs.ini\nbatch_per_worker = {known['batch']}\n"
        f"[sync]\nmode = average, {', '.join(known['modes'])}\ninterval = {intervals}\n"
        f"where = {where}\n[noise]\nkind = trace\n[scenario]\nreplicates = 8\n"
    )
    results = step.folder / f"{name}.csv"
    results.unlink(missing_ok=True)
    step.run(name, [dlsim, f"{name}.ini", "-o", results])
    return {
        (row["sync"], row.get("interval") or "", where, row["workers"]): float(
            row["throughput_per_s"]
        )
        for row in rows_of(results)
    }


def shapes_of(step):
    """Measures kernels by shape and a layer in a loop in fp32 and tf32, and fits them."""
    for math in ("fp32", "tf32"):
        trace = step.folder / f"shapes_{math}.dlt"
        words = f"bench shapes --device cuda --math {math} {step.settings['shapes']}".split()
        if step.run(f"shapes_{math}", [step.plan.bin / "dlprof", *words, "-o", trace]) is None:
            continue
        machine = step.folder / f"shapes_{math}.ini"
        fitted = step.run(
            f"shapes_{math}.fit",
            [step.plan.bin / "dlcal", "shapes", trace, "--machine", "1xa100", "-o", machine],
        )
        if fitted is None:
            continue
        numbers = dict(
            line.split(" = ", 1) for line in machine.read_text().splitlines() if " = " in line
        )
        factor = numbers.get("sustained", "")
        launch = numbers.get("launch_ns", "")  # the last one: that of the kernels
        step.check(
            factor and launch.endswith("measured"), f"shapes in {math}: no layer was measured"
        )
        step.figure(f"{math}: sustained {factor.split(',')[0]}")


def bench(step):
    """Runs dlprof bench for each model, bench shapes, and dlprof machine."""
    dlprof, samples, rate = step.plan.bin / "dlprof", 0, 0
    for model, batch in step.settings["models"].items():
        trace = step.folder / f"bench_{model}.dlt"
        words = f"bench {GPU} --model {model} --batch {batch} -o".split()
        command = [dlprof, *words, trace, *step.settings["bench"]]
        if step.run(f"bench_{model}", command) is None:
            continue
        info = step.json(f"bench_{model}.info", [dlprof, "info", "--json", trace])
        cases = info["benches"] if info else []
        count = sum(case["duration_ns"]["count"] for case in cases)
        step.check(count > 0, f"bench of {model}: no sample")
        samples += count
        rate = max(
            [rate]
            + [
                1e9 * case["bytes"] / case["duration_ns"]["p50"]
                for case in cases
                if case["name"] == "h2d"
            ]
        )
    shapes_of(step)
    step.run("machine", [dlprof, "machine", "--measure", "-o", step.plan.out / "machine.ini"])
    if samples > 0:
        step.figure(f"{len(step.settings['models'])} models, {samples:g} samples")
    if samples > 0 and step.check(rate > 0, "no copy to the GPU was timed") and torch_there(step):
        theirs = find(step.json("copy", [*step.settings["torch"], "copy"]), "bytes_per_s")
        if step.check(theirs, "PyTorch's copy was not timed"):
            step.timing(
                abs(rate / theirs - 1) <= step.settings["copy_frac"],
                f"to the GPU {rate / 1e9:.1f} GB/s, by PyTorch {theirs / 1e9:.1f}",
            )
            step.figure(f"to the GPU {rate / 1e9:.1f} GB/s, by PyTorch {theirs / 1e9:.1f}")


def several(step):
    """Trains on several GPUs with NCCL: launches from one or several threads, and one rank per GPU."""
    known, count = step.settings["predict"], gpu_count(step)
    if count < 2:
        step.left_out = "one GPU: nothing is reduced between GPUs"
        return
    losses = {}
    ways = [("threads", []), ("single", [])]
    if shutil.which("mpirun") and (step.plan.bin / "libdlscale_mpi.so").exists():
        ways.append(("ranks", ["mpirun", "--allow-run-as-root", "-n", count, "--bind-to", "none"]))
    else:
        step.figure("no MPI: no ranks")
    for way, launcher in ways:
        options = [
            "--model",
            known["model"],
            "--precision",
            known["precision"],
            "--workers",
            count,
            "--batch",
            count * known["batch"],
            "--sync",
            "allreduce",
            "--dispatch",
            "single" if way == "single" else "threads",
        ]
        taken = train(step, f"allreduce_{way}", options, known["steps"], launcher)
        if taken:
            step.figure(f"allreduce of {count}, launched by {way}: {taken / 1e6:.3f} ms")
            losses[way] = last_loss(step, f"allreduce_{way}")
    expected = losses.get("threads")
    for way, loss in losses.items():
        # NCCL's order of summation depends on its connections.
        if loss and expected:
            off = abs(loss / expected - 1)
            step.check(off <= step.settings["loss_frac"], f"{way}: last loss {loss}, not {expected}")


# (name, budget in s, function). On one GPU, without `several`, less than ten minutes in total.
STEPS = [
    ("inventory", 25, inventory),
    ("backend", 40, backend),
    ("truth", 50, truth),
    ("raw", 15, raw),
    ("torch", 95, torch),
    ("cost", 90, cost),
    ("beside", 75, beside_torch),
    ("predict", 115, predict),
    ("bench", 80, bench),
    ("several", 40, several),
]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out")
    parser.add_argument("build")
    parser.add_argument("steps", nargs="*", metavar="STEP")
    parser.add_argument("--settings", help="JSON")
    parser.add_argument("--limit", type=float, help="seconds for everything")
    options = parser.parse_args()
    settings = dict(SETTINGS)
    if options.settings:
        settings.update(json.loads(Path(options.settings).read_text()))
    unknown = sorted(set(settings) - set(SETTINGS)) + sorted(
        set(options.steps) - {name for name, _, _ in STEPS}
    )
    if unknown:
        parser.error(
            f"unknown: {', '.join(unknown)}; steps are {', '.join(name for name, _, _ in STEPS)}"
        )
    Path(options.out).mkdir(parents=True, exist_ok=True)
    plan = Plan(
        Path(options.out).resolve(), settings, list(STEPS), options.limit or settings["limit_s"]
    )
    build = Path(options.build).resolve()
    plan.bin, plan.tests = build / "bin", build / "tests"
    plan.run(options.steps)


main()
