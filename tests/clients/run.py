"""Predicts the training of PyTorch on 2 and 4 processes from traces of one process and from
benchmarks, runs it, and compares. Called by ./check --clients.

  run.py --bin build/release/bin --output out/clients [--models cnn,mlp] [--seconds 600]

Everything comes in rounds that hold each case once, in random order: steps of copies side by side
(dlprof bench --of), the benchmark of gloo and RPC, and measured runs. The first round also has the
traces. Rounds are added while time is left, so a longer --seconds gives a lower noise floor. Of every
measured run the share of the processors that others used is kept, the host of a virtual machine
among them; runs with more than 10 % do not count unless fewer than a quarter of a point's remain.
"""

import argparse
import csv
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DISTURBED = 0.10
CALL_LIMIT_S = 3600  # none takes a tenth of it

# model: (batch of a worker, batch of the second trace, steps between lines, steps of a run)
MODELS = {"mlp": (64, 16, 20, 300), "cnn": (16, 4, 2, 60), "transformer": (8, 2, 2, 60),
          "unequal": (8, 4, 1, 200)}
# Models whose batches take unequal time, and how many of these are trained in turn: traces and lines
# of copies need as many as show the distribution, a line a step.
VARIED = {"unequal": 200}
VARIED_STEPS = 100
# of the processes of bench_gloo.py in a round: where RPC's polling threads are placed differs most
STARTS = {"gloo": 1, "rpc": 2}
# name: (mode of train.py, mode of dlsim, interval, mode of the one-process trace)
MODES = {
    "ddp": ("ddp", "allreduce", 1, "ddp"),
    "localsgd": ("localsgd", "average", 10, "localsgd"),
    "async": ("async", "async", 1, "localsgd"),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--bin", required=True, help="folder of dlprof, dlcal and dlsim")
    p.add_argument("--output", default="out/clients")
    p.add_argument("--models", default="mlp,cnn,transformer")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--seconds", type=float, default=570, help="no new round after that time")
    p.add_argument("--rounds", type=int, default=100, help="at most")
    p.add_argument("--repeats", type=int, default=2, help="measured runs of each start")
    args = p.parse_args()
    args.models, args.modes = args.models.split(","), args.modes.split(",")
    args.ranks = [int(n) for n in args.ranks.split(",")]
    for name in args.models:
        if name not in MODELS:
            p.error(f"unknown model '{name}': {', '.join(MODELS)}")
    for name in args.modes:
        if name not in MODES:
            p.error(f"unknown mode '{name}': {', '.join(MODES)}")
    return args


def processor_times():
    """Seconds of all processors: busy, stolen by the host, all; and of own children."""
    with open("/proc/stat", encoding="ascii") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, wait, irq, soft, steal = words
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((user + nice + system + irq + soft) / tick, steal / tick, sum(words) / tick,
            children.ru_utime + children.ru_stime)


def disturbed(before, after):
    """What others and the host took of the processors between two times, 0 .. 1."""
    busy, steal, every, own = (b - a for a, b in zip(before, after))
    return max(0.0, busy - own + steal) / every if every > 0 else 0.0


def call(command):
    """Runs it; its output. Ends with its message if it fails, or takes an hour."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=CALL_LIMIT_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)}: not done in {CALL_LIMIT_S} s")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Clients:
    def __init__(self, args):
        self.args = args
        os.makedirs(args.output, exist_ok=True)
        self.runs = []    # (model, mode, ranks, samples_per_s, staleness, disturbed)
        self.copies = {}  # (model, mode of the trace): traces of dlprof bench --of
        self.chance = random.Random(1)

    def path(self, name):
        return os.path.join(self.args.output, name)

    def tool(self, name):
        return os.path.join(self.args.bin, name)

    def train(self, model, *options):
        batches = ["--batches", VARIED[model]] if model in VARIED else []
        return [sys.executable, os.path.join(HERE, "train.py"), "--model", model,
                *map(str, batches), *map(str, options)]

    def traced_modes(self):
        return sorted({MODES[mode][3] for mode in self.args.modes})

    def traces(self, model, mode):
        batch, other, _, _ = MODELS[model]
        return [(size, self.path(f"{model}_{mode}_{size}.json")) for size in (batch, other)]

    def record(self):
        """One process' traces at two batch sizes."""
        for model in self.args.models:
            for mode in self.traced_modes():
                for size, path in self.traces(model, mode):
                    call(self.train(model, "--mode", mode, "--batch", size, "--trace",
                                    path, "--trace-steps",
                                    VARIED_STEPS if model in VARIED else 20, "--shapes"))

    def compute_ms(self, model, mode):
        """The step of one process, without profiler and exchange: what is between two exchanges."""
        size, trace = self.traces(model, mode)[0]
        copies = [word for path in self.copies[model, mode] for word in ("--copies", path)]
        text = " ".join(call([self.tool("dlcal"), "costs", trace, "--batch", str(size), *copies,
                              "-o", self.path("step.ini")]).split())
        found = re.search(r"a step of \d+ samples takes ([0-9.]+) (us|ms)", text)
        if found is None:  # as long as with the profiler
            found = re.search(r"steps of ([0-9.]+) (us|ms) \(median", text)
        return float(found.group(1)) / (1000 if found.group(2) == "us" else 1)

    def bench_exchange(self, number):
        """What gloo and RPC add to steps of each model; all rounds' rows are in one file."""
        for model in self.args.models:
            rows_path, rows = self.path(f"{model}_gloo.csv"), []
            for exchange, starts in STARTS.items():
                if exchange == "rpc" and "async" not in self.args.modes:
                    continue
                mode = MODES["async"][3] if exchange == "rpc" else self.traced_modes()[0]
                path = self.path(f"{model}_{exchange}{number}.csv")
                call([sys.executable, os.path.join(HERE, "bench_gloo.py"), "--ranks",
                      ",".join(map(str, self.args.ranks)), "--exchange", exchange, "--starts",
                      str(starts), "--repeats", "2", "--seed", str(1 + starts * number), "--compute-ms",
                      f"{self.compute_ms(model, mode):.1f}", "-o", path])
                with open(path, encoding="ascii") as file:
                    head, *lines = file.read().splitlines()
                for line in lines:
                    *words, start = line.split(",")
                    rows.append(",".join([*words, str(int(start) + starts * number)]))
            with open(rows_path, "a" if number > 0 else "w", encoding="ascii") as file:
                file.writelines(f"{row}\n" for row in ([head] if number == 0 else []) + rows)

    def bench_copies(self, number):
        """Copies of each program side by side."""
        for model in self.args.models:
            batch, _, log, _ = MODELS[model]
            for mode in self.traced_modes():
                path = self.path(f"{model}_{mode}_copies{number}.dlt")
                call([self.tool("dlprof"), "bench", "--batch", str(batch), "--workers-max",
                      str(max(self.args.ranks)), "--rounds", "1", "--lines",
                      str(VARIED_STEPS if model in VARIED else 12), "-o", path,
                      "--of"] + self.train(model, "--mode", mode, "--batch", batch,
                                           "--steps", 10**6, "--log", log))
                self.copies.setdefault((model, mode), []).append(path)

    def measure(self):
        """Each point once, in random order."""
        points = [(model, mode, ranks) for model in self.args.models for mode in self.args.modes
                  for ranks in self.args.ranks]
        self.chance.shuffle(points)
        for model, mode, ranks in points:
            batch, _, _, steps = MODELS[model]
            before = processor_times()
            text = call(self.train(model, "--mode", MODES[mode][0], "--workers", ranks,
                                   "--batch", batch, "--steps", steps, "--interval",
                                   MODES[mode][2], "--repeats", self.args.repeats))
            others = disturbed(before, processor_times())
            values = {"samples_per_s": [], "staleness_mean": []}
            for line in text.splitlines():
                words = line.split()
                if len(words) == 2 and words[0] in values:
                    values[words[0]].append(float(words[1]))
            for i, rate in enumerate(values["samples_per_s"]):
                stale = values["staleness_mean"][i] if values["staleness_mean"] else None
                self.runs.append((model, mode, ranks, rate, stale, others))
        with open(self.path("measured.csv"), "w", encoding="ascii") as file:
            out = csv.writer(file)
            out.writerow(["model", "mode", "ranks", "samples_per_s", "staleness_mean",
                          "others_frac"])
            out.writerows(self.runs)

    def predict(self):
        """(model, mode, ranks): samples per second, its interval's ends, and mean staleness."""
        predicted = {}
        for model in self.args.models:
            for mode in self.args.modes:
                traced = MODES[mode][3]
                costs = self.path(f"{model}_{traced}_costs.ini")
                traces = self.traces(model, traced)
                copies = [word for path in self.copies[model, traced]
                          for word in ("--copies", path)]
                call([self.tool("dlcal"), "costs", *(path for _, path in traces), "--batch",
                      ",".join(str(size) for size, _ in traces), *copies, "-o", costs])
                call([self.tool("dlcal"), "links", self.path(f"{model}_gloo.csv"), "--costs", costs, "-o",
                      costs])
                scenario, results = self.path(f"{model}_{mode}.ini"), self.path(f"{model}_{mode}.csv")
                with open(scenario, "w", encoding="ascii") as file:
                    file.write(f"[scenario]\nname = {model}, {mode}\nsteps = 200\nreplicates = 9\n"
                               f"[machine]\ncores = {len(os.sched_getaffinity(0))}\n"
                               f"workers = {', '.join(map(str, self.args.ranks))}\n"
                               f"[workload]\ncosts = {os.path.basename(costs)}\n"
                               f"batch_per_worker = {MODELS[model][0]}\n"
                               f"[sync]\nmode = {MODES[mode][1]}\n")
                    if MODES[mode][1] == "average":
                        file.write(f"interval = {MODES[mode][2]}\n")
                    file.write("[noise]\nkind = trace\n")
                call([self.tool("dlsim"), scenario, "-o", results])
                with open(results, encoding="ascii") as file:
                    for row in csv.DictReader(line for line in file if not line.startswith("#")):
                        stale = row.get("staleness_mean") or None
                        predicted[model, mode, int(row["workers"])] = (
                            *(float(row[f"throughput_{end}per_s"]) for end in ("", "low_", "high_")),
                            float(stale) if stale else None)
        return predicted

    def keep(self):
        """The runs that count, point by point, and how many others there are."""
        kept = []
        for point in sorted({run[:3] for run in self.runs}):
            mine = [run for run in self.runs if run[:3] == point]
            calm = [run for run in mine if run[5] <= DISTURBED]
            kept += calm if len(calm) * 4 >= len(mine) else mine
        return kept, len(self.runs) - len(kept)

    def report(self):
        predicted = self.predict()
        runs, left_out = self.keep()
        print(f"{'model':12} {'mode':9} {'ranks':>5} {'predicted/s':>12} {'measured/s':>12} "
              f"{'error %':>8} {'runs':>5} {'floor %':>8} {'staleness':>10} {'measured':>9}")
        errors, floors, stale_errors, inside = [], [], [], 0
        for model, mode, ranks in sorted(predicted):
            rate, low, high, stale = predicted[model, mode, ranks]
            mine = [run for run in runs if run[:3] == (model, mode, ranks)]
            rates = [run[3] for run in mine]
            inside += sum(low <= own <= high for own in rates)
            measured = statistics.median(rates)
            error = 100 * (rate / measured - 1)
            floor = "-"
            if len(rates) > 1: # standard error of a median
                floors.append(125.33 * statistics.stdev(rates) / measured / len(rates) ** 0.5)
                floor = f"{floors[-1]:.1f}"
            text = ""
            if mode == "async":
                true = statistics.mean(run[4] for run in mine)
                text = f"{stale:10.3f} {true:9.3f}"
                stale_errors.append(100 * abs(stale / true - 1))
            errors.append(abs(error))
            print(f"{model:12} {mode:9} {ranks:5} {rate:12.1f} {measured:12.1f} {error:+8.1f} "
                  f"{len(rates):5} {floor:>8} {text}")
        if errors:
            print(f"error of {len(errors)} points: mean {statistics.mean(errors):.1f} %, largest "
                  f"{max(errors):.1f} %")
        if floors:
            print(f"noise floor, the standard error of a measured median: "
                  f"{statistics.mean(floors):.1f} %")
        print(f"predicted 95 % interval of one run: holds {inside} of {len(runs)} measured runs")
        if stale_errors:
            print(f"mean staleness: off by {max(stale_errors):.1f} % at most")
        if left_out:
            print(f"left out: {left_out} of {len(self.runs)} runs, others took over 10 % of the "
                  "processors")
        others = statistics.mean(run[5] for run in self.runs)
        print(f"others took {100 * others:.1f} % of the processors over the measured runs")
        if others > 0.05:
            print("disturbed: measure again when the machine is idle")


def main():
    args = arguments()
    clients = Clients(args)
    start = time.monotonic()
    clients.record()
    longest = 0.0
    for number in range(args.rounds):
        round_start = time.monotonic()
        if number > 0 and round_start - start + longest > args.seconds:
            break
        clients.bench_copies(number)
        clients.bench_exchange(number)
        clients.measure()
        longest = max(longest, time.monotonic() - round_start)
        print(f"round {number + 1}: {time.monotonic() - start:.0f} s", flush=True)
    clients.report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
