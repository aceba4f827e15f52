"""Predicts PyTorch training on 2 and 4 processes from traces of one process and from benchmarks, runs
it, and compares. Called by ./check --clients.

  run.py --bin build/release/bin --output out/clients [--models cnn,mlp] [--seconds 600]
  run.py --bin build/release/bin --smoke          # a few minutes, to check that everything works

After the traces of one process, measurements are made in rounds with each case once, in random order:
steps of concurrent copies (dlprof bench --of), one start of the benchmark of gloo and RPC, and one of
every measured run. Times differ more between starts than between repetitions within a start, in the
benchmark and in training, so the time is spent on starts, and their scatter is the standard error of
each time and of each measured median.

Only the clock ends the measurement: no round starts that would end after --seconds, given the longest
round so far, but there are at least two. Errors are computed only afterwards, and all cases have the
same number of rounds, so neither this number nor the measurements can depend on the compared rows.

Measured runs are timed after as many steps as the benchmark skips until the system has placed the
threads of new processes (20 to 60), as the prediction is of long training.

A prediction varies with the starts of the benchmark as a measured median varies with its own starts:
it is repeated from each round alone, and the scatter of the results is its standard error. Both
standard errors give the errors expected without any bias, and the uncertainty of each mode's mean error.

For every measured run, the share of the processors used by others (including the host of a virtual
machine) is kept; runs with more than 10 % do not count unless fewer than a quarter of a point's
runs remain.
"""

import argparse
import csv
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WARM = os.path.join(HERE, "warm.py")
BENCH_GLOO = os.path.join(HERE, "..", "..", "profiler", "torch", "bench_gloo.py")
DISTURBED = 0.10
CALL_LIMIT_S = 1200  # ten times the longest call
LEAST_ROUNDS = 2     # with fewer there is no spread
# With several steps between exchanges, only this much computation in ms is benchmarked, as by then
# the system has moved a process that shares a core (after several ticks of 4 ms).
BETWEEN_MAX_MS = 60
GOAL_MAX = 12.0  # % that no point's error should exceed, unless its repeats differ by more
SIZES = "1048576,4194304"  # bytes; near the sizes of the models' buckets and parameters

# model: (batch per worker, batch of the second trace, steps per line, steps per run)
MODELS = {"mlp": (64, 16, 20, 300), "cnn": (16, 4, 2, 60), "transformer": (8, 2, 2, 60),
          "unequal": (8, 4, 1, 200)}
# Models with batches of unequal cost, and the number of different batches, trained in turn: traces
# and lines of copies need this many to show the distribution, one line per step.
VARIED = {"unequal": 200}
VARIED_STEPS = 100
# name: (mode of train.py, mode of dlsim, interval, mode of the one-process trace, --exchange of
# bench_gloo.py)
MODES = {
    "ddp": ("ddp", "allreduce", 1, "ddp", "gloo"),
    "localsgd": ("localsgd", "average", 10, "localsgd", "average"),
    "localsgd4": ("localsgd", "average", 4, "localsgd", "average"),
    "localsgd1": ("localsgd", "average", 1, "localsgd", "average"),
    "async": ("async", "async", 1, "gradients", "rpc"),
}
ON_REQUEST = ("localsgd4", "localsgd1")  # only run if named by --modes


def parser(about, seconds):
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--bin", required=True, help="folder of dlprof, dlcal and dlsim")
    p.add_argument("--output", default="out/clients")
    p.add_argument("--models", default=",".join(name for name in MODELS if name not in VARIED))
    p.add_argument("--modes", default=",".join(mode for mode in MODES if mode not in ON_REQUEST),
                   help="of " + ", ".join(MODES))
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--seconds", type=float, default=seconds,
                   help="after which no round may end")
    p.add_argument("--rounds", type=int, default=100, help="at most")
    p.add_argument("--smoke", action="store_true",
                   help="two rounds of few steps, whose figures mean nothing")
    return p


def arguments(seconds=1170):
    p = parser(__doc__, seconds)
    return check(p, p.parse_args())


def check(p, args):
    args.models, args.modes = args.models.split(","), args.modes.split(",")
    args.ranks = [int(n) for n in args.ranks.split(",")]
    if args.smoke:
        args.rounds = LEAST_ROUNDS
    for name in args.models:
        if name not in MODELS:
            p.error(f"unknown model '{name}': {', '.join(MODELS)}")
    for name in args.modes:
        if name not in MODES:
            p.error(f"unknown mode '{name}': {', '.join(MODES)}")
    return args


def processor_times():
    """Seconds of all processors: busy, stolen by the host, all."""
    with open("/proc/stat", encoding="ascii") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, wait, irq, soft, steal = words
    return (user + nice + system + irq + soft) / tick, steal / tick, sum(words) / tick


def disturbed(before, after, own_s):
    """Share of the processors' time that others and the host took between two times, 0 .. 1."""
    busy, steal, every = (b - a for a, b in zip(before, after))
    return max(0.0, busy - own_s + steal) / every if every > 0 else 0.0


def call(command, tries=2):
    """Runs a command and returns its output. Exits with its message if it fails twice or takes too
    long: on a very busy machine RPC or gloo may give up."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=CALL_LIMIT_S)
        message = f"exit {done.returncode}\n{done.stdout}"
    except subprocess.TimeoutExpired:
        done, message = None, f"not done in {CALL_LIMIT_S} s"
    if done is not None and done.returncode == 0:
        return done.stdout
    message = f"{' '.join(command)}: {message}"
    if tries == 1:
        sys.exit(message)
    print(f"{message}\nonce more", flush=True)
    return call(command, tries - 1)


def median_error(values):
    """Relative standard error of the median of normal values; 0 for one value."""
    if len(values) < 2:
        return 0.0
    spread = statistics.stdev(values) / len(values) ** 0.5
    return math.sqrt(math.pi / 2) * spread / statistics.median(values)


def bias_lines(signed):
    """Summarises errors (mode, error, its standard error): the size expected without a bias, and
    each mode's mean error with its uncertainty due to starts. The mean of |x| is sqrt(2 / pi) of a
    normal x's standard deviation."""
    expected = math.sqrt(2 / math.pi) * statistics.mean(error for _, _, error in signed)
    lines = [f"without any bias these floors alone make errors of {100 * expected:.1f} % on average"]
    words = []
    for name in [*sorted({mode for mode, _, _ in signed}), "all"]:
        own = [(error, floor) for mode, error, floor in signed if name in (mode, "all")]
        mean = statistics.mean(error for error, _ in own)
        floor = math.sqrt(sum(floor**2 for _, floor in own)) / len(own)
        words.append(f"{name} {100 * mean:+.1f} +- {100 * floor:.1f}")
    return lines + ["mean of the errors with their signs, % (too fast: +): " + ", ".join(words)]


class Warm:
    """A process that has PyTorch loaded and starts train.py and bench_gloo.py (warm.py)."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.socket = os.path.join(self.folder.name, "warm")
        self.server = subprocess.Popen([sys.executable, WARM, "--serve", self.socket],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.server.stdout.readline() != "ready\n":
            sys.exit("warm.py does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        self.server.wait()
        self.folder.cleanup()


class Clients:
    def __init__(self, args, warm):
        self.args, self.warm = args, warm
        os.makedirs(args.output, exist_ok=True)
        self.runs = []    # (model, mode, ranks, samples_per_s, staleness, disturbed)
        self.copies = {}  # (model, mode of the trace): traces of dlprof bench --of
        self.step_ms = {}  # ms per step of one process
        self.chance = random.Random(1)
        self.rounds = 0  # rounds measured so far

    def path(self, name):
        return os.path.join(self.args.output, name)

    def tool(self, name):
        return os.path.join(self.args.bin, name)

    def train(self, model, *options):
        batches = ["--batches", VARIED[model]] if model in VARIED else []
        return [sys.executable, WARM, self.warm.socket, "train", "--model", model,
                *map(str, batches), *map(str, options)]

    def steps(self, count, least):
        return max(count // 10, least) if self.args.smoke else count

    def traced_modes(self):
        return sorted({MODES[mode][3] for mode in self.args.modes})

    def traces(self, model, mode):
        batch, other, _, _ = MODELS[model]
        return [(size, self.path(f"{model}_{mode}_{size}.json")) for size in (batch, other)]

    def record(self):
        """Traces of one process at two batch sizes."""
        for model in self.args.models:
            for mode in self.traced_modes():
                for size, path in self.traces(model, mode):
                    call(self.train(model, "--mode", mode, "--batch", size, "--trace", path,
                                         "--trace-steps",
                                         self.steps(VARIED_STEPS if model in VARIED else 20, 5),
                                         "--shapes"))

    def compute_ms(self, model, mode):
        """Compute time of the first round, so that all starts of the benchmark compute the same."""
        if (model, mode) not in self.step_ms:
            self.step_ms[model, mode] = self.find_compute_ms(model, mode)
        return self.step_ms[model, mode]

    def find_compute_ms(self, model, mode):
        """Step time of one process, without profiler and exchange: the time between two
        exchanges."""
        size, trace = self.traces(model, mode)[0]
        copies = [word for path in self.copies[model, mode] for word in ("--copies", path)]
        text = " ".join(call([self.tool("dlcal"), "costs", trace, "--batch", str(size), *copies,
                              "-o", self.path("step.ini")]).split())
        found = re.search(r"a step of \d+ samples takes ([0-9.]+) (us|ms)", text)
        if found is None:  # step time as with the profiler
            found = re.search(r"steps of ([0-9.]+) (us|ms) \(mean", text)
        return float(found.group(1)) / (1000 if found.group(2) == "us" else 1)

    def between_ms(self, model, mode):
        """Compute time of a process between two exchanges."""
        steps_ms = MODES[mode][2] * self.compute_ms(model, MODES[mode][3])
        return min(steps_ms, max(self.compute_ms(model, MODES[mode][3]), BETWEEN_MAX_MS))

    def bench_command(self, number, model, mode, path):
        return [sys.executable, WARM, self.warm.socket, "bench_gloo", "--ranks", ",".join(map(str, self.args.ranks)),
                "--exchange", MODES[mode][4], "--starts", "1", "--repeats", "1", "--seed",
                str(1 + number), "--sizes", SIZES, "--compute-ms",
                f"{self.between_ms(model, mode):.1f}", "-o", path]

    def bench_exchange(self, number):
        """One more start of the benchmark of each mode's exchange, for each model."""
        cases = [(model, mode) for model in self.args.models for mode in self.args.modes]
        for model, mode in self.chance.sample(cases, len(cases)):
            path = self.path("start.csv")
            call(self.bench_command(number, model, mode, path)
                 + (["--smoke"] if self.args.smoke else []))
            with open(path, encoding="ascii") as file:
                head, *lines = file.read().splitlines()
            rows = [line.rpartition(",")[0] + f",{1 + number}" for line in lines]
            with open(self.path(f"{model}_{mode}_exchange.csv"), "a" if number > 0 else "w",
                      encoding="ascii") as file:
                file.writelines(f"{row}\n" for row in ([head] if number == 0 else []) + rows)

    def bench_copies(self, number):
        """Concurrent copies of each program."""
        for model in self.args.models:
            batch, _, log, _ = MODELS[model]
            for mode in self.traced_modes():
                path = self.path(f"{model}_{mode}_copies{number}.dlt")
                call([self.tool("dlprof"), "bench", "--batch", str(batch), "--workers-max",
                      str(max(self.args.ranks)), "--rounds", "1", "--lines",
                      str(self.steps(VARIED_STEPS if model in VARIED else 12, 3)), "-o", path,
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
            text = call(self.train(
                model, "--mode", MODES[mode][0], "--workers", ranks, "--batch", batch, "--steps",
                self.steps(steps, 6), "--warmup", self.steps(max(steps // 5, 20), 5), "--interval",
                MODES[mode][2]))
            after = processor_times()
            values = {"samples_per_s": [], "staleness_mean": [], "processor_s": []}
            for line in text.splitlines():
                words = line.split()
                if len(words) == 2 and words[0] in values:
                    values[words[0]].append(float(words[1]))
            others = disturbed(before, after, sum(values["processor_s"]))
            stale = values["staleness_mean"][0] if values["staleness_mean"] else None
            self.runs.append((model, mode, ranks, values["samples_per_s"][0], stale, others))
        with open(self.path("measured.csv"), "w", encoding="ascii") as file:
            out = csv.writer(file)
            out.writerow(["model", "mode", "ranks", "samples_per_s", "staleness_mean",
                          "others_frac"])
            out.writerows(self.runs)

    def exchange_of(self, model, mode, number):
        """File with the times of all rounds, or of one."""
        path = self.path(f"{model}_{mode}_exchange.csv")
        if number is None:
            return path
        with open(path, encoding="ascii") as file:
            head, *rows = file.read().splitlines()
        path = self.path("round.csv")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"{row}\n" for row in [head] + [
                row for row in rows if row.rpartition(",")[2] == str(1 + number)])
        return path

    def predict(self, number=None):
        """(model, mode, ranks): samples per second, the ends of its interval, and mean staleness,
        from all rounds or from one."""
        predicted, name = {}, "" if number is None else "round_"
        for model in self.args.models:
            for mode in self.args.modes:
                traced = MODES[mode][3]
                costs = self.path(f"{name}{model}_{traced}_costs.ini")
                traces = self.traces(model, traced)
                paths = self.copies[model, traced]
                copies = [word for path in (paths if number is None else [paths[number]])
                          for word in ("--copies", path)]
                call([self.tool("dlcal"), "costs", *(path for _, path in traces), "--batch",
                      ",".join(str(size) for size, _ in traces), *copies, "-o", costs])
                call([self.tool("dlcal"), "links", self.exchange_of(model, mode, number),
                      "--costs", costs, "-o", costs])
                scenario = self.path(f"{name}{model}_{mode}.ini")
                results = self.path(f"{name}{model}_{mode}.csv")
                with open(scenario, "w", encoding="ascii") as file:
                    file.write(f"[scenario]\nname = {model}, {mode}\nsteps = 200\nreplicates = 40\n"
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
                            *(float(row[f"throughput_{end}per_s"])
                              for end in ("", "low_", "high_")),
                            float(stale) if stale else None)
        return predicted

    def keep(self):
        """The runs of each point that count, and the number of the others."""
        kept = []
        for point in sorted({run[:3] for run in self.runs}):
            mine = [run for run in self.runs if run[:3] == point]
            calm = [run for run in mine if run[5] <= DISTURBED]
            kept += calm if len(calm) * 4 >= len(mine) else mine
        return kept, len(self.runs) - len(kept)

    def own_errors(self):
        """(model, mode, ranks): the relative standard error of the prediction."""
        rounds = [self.predict(number) for number in range(self.rounds)]
        return {point: median_error([own[point][0] for own in rounds]) for point in rounds[0]}

    def report(self):
        predicted, own = self.predict(), self.own_errors()
        runs, left_out = self.keep()
        print(f"{'model':12} {'mode':9} {'ranks':>5} {'predicted/s':>12} {'95 % of runs':>15} "
              f"{'+- %':>5} {'measured/s':>12} {'error %':>8} {'floor %':>8} {'runs':>5} {'inside':>6} "
              f"{'staleness':>10} {'measured':>9}")
        errors, floors, stale_errors, inside, within = [], [], [], 0, 0
        signed = []  # (mode, error, standard error), parts
        for model, mode, ranks in sorted(predicted):
            rate, low, high, stale = predicted[model, mode, ranks]
            mine = [run for run in runs if run[:3] == (model, mode, ranks)]
            rates = [run[3] for run in mine]
            held = sum(low <= own <= high for own in rates)
            inside += held
            measured = statistics.median(rates)
            error = 100 * (rate / measured - 1)
            floor = "-"
            if len(rates) > 1:
                floors.append(100 * median_error(rates))
                floor = f"{floors[-1]:.1f}"
                signed.append((mode, error / 100,
                               math.hypot(floors[-1] / 100, own[model, mode, ranks])))
            text = ""
            if mode == "async":
                true = statistics.mean(run[4] for run in mine)
                text = f"{stale:10.3f} {true:9.3f}"
                stale_errors.append(100 * abs(stale / true - 1))
            errors.append(abs(error))
            own_floor = floors[-1] if len(rates) > 1 else 0
            within += abs(error) <= max(GOAL_MAX, own_floor)
            print(f"{model:12} {mode:9} {ranks:5} {rate:12.1f} {f'{low:.0f} to {high:.0f}':>15} "
                  f"{100 * own[model, mode, ranks]:5.1f} {measured:12.1f} {error:+8.1f} {floor:>8} {len(rates):5} {held:6} {text}"
                  .rstrip())
        if errors:
            print(f"error of {len(errors)} points: mean {statistics.mean(errors):.1f} %, largest "
                  f"{max(errors):.1f} %; {within} within {GOAL_MAX:g} %, or within their floor "
                  "where that is wider")
        if floors:
            print(f"noise floor, the standard error of a measured median: "
                  f"{statistics.mean(floors):.1f} %; of a prediction: "
                  f"{100 * statistics.mean(own.values()):.1f} %")
            print("\n".join(bias_lines(signed)))
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


def take_rounds(clients, args):
    """Measures rounds until the time is over, and reports."""
    start, longest, number = time.monotonic(), 0.0, 0
    clients.record()
    print(f"traces: {time.monotonic() - start:.0f} s", flush=True)
    while number < args.rounds:
        round_start = time.monotonic()
        if number >= LEAST_ROUNDS and round_start - start + longest > args.seconds:
            break
        clients.bench_copies(number)
        clients.bench_exchange(number)
        clients.measure()
        number += 1
        clients.rounds = number
        longest = max(longest, time.monotonic() - round_start)
        print(f"round {number}: {time.monotonic() - start:.0f} s", flush=True)
    clients.report()
    if args.smoke:
        print("a smoke test: the figures mean nothing")


def main():
    args = arguments()
    with Warm() as warm:
        take_rounds(Clients(args, warm), args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
