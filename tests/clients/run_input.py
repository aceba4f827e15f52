"""Predicts training with batches that a data loader reads and decodes, on this machine's cores, runs it,
and compares.

  run_input.py --bin build/release/bin --output out/input [--docs docs/studies/pytorch_on_cores.md]    # 7 minutes
  run_input.py --bin build/release/bin --output out/input --again    # predicts earlier measurements again
  run_input.py --bin build/release/bin --smoke    # fewer steps, to check that everything works

One and two processes (DistributedDataParallel over gloo) train the CNN of models.py, each with a
DataLoader of 0, 1 and 2 processes, which share the cores with training and gloo's threads:

  light     images that take less than a step to decode
  heavy     images that take longer
  storage   light ones, from storage with a rate that all processes share: reading a batch takes
            STORAGE_STEPS steps of one process

Predictions come from one process: a trace in which it makes its batches itself, and concurrent copies
of it. For loaders, dlprof run and dlcal costs give, from a run with one loader, the processor time of
making a batch during training, and the time to take one. gloo's all-reduces come from its benchmark; the
rate of storage, and the time that it makes up for after a pause, are settings.

Each round has every case once, in random order, next to the same training with batches in memory (plain).
So there are two errors: of the throughput, and of the ratio of a step to a plain one, in which
disturbances of the machine affect both. Only the clock ends the measurement: no round starts that would
end after --seconds, given the longest round so far, but there are at least three.
"""

import csv
import glob
import os
import re
import shutil
import statistics
import sys
import tempfile

import run

BATCH = 16
BATCH_TEXT = str(BATCH)
MODELS = {name: (BATCH, None, 2, 60) for name in ("plain", "light", "heavy")}
SIDES = {"light": 160, "heavy": 352, "storage": 160}  # pixels
LOADERS = (0, 1, 2)
STORAGE_STEPS = 1.5
MODE = "ddp"
LEAST_ROUNDS = 3
EXCHANGE_STARTS = 3  # per round; their times differ by tens of percent
# Without these settings, glibc may return a step's memory to the system and allocate it again,
# depending on the heap's layout: 0 to 4000 page faults, 18 to 28 ms for the same step.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
COLUMNS = ("round", "input", "loaders", "ranks", "samples_per_s", "others_frac")
END = "<!-- end of run_input.py"
BEGIN = "<!-- run_input.py"


class InputClients(run.Clients):
    def train(self, model, *options):
        input_options = [] if model == "plain" else ["--loaders", 0, "--side", SIDES[model]]
        return super().train("cnn", *input_options, *options)

    def traces(self, model, mode):
        return super().traces(model, mode)[:1]

    def record(self):
        super().record()
        for model in ("light", "heavy"):
            folder = self.path(f"{model}_loaded")
            shutil.rmtree(folder, ignore_errors=True)
            run.call([self.tool("dlprof"), "run", "-o", folder, sys.executable,
                      os.path.join(run.HERE, "train.py"), "--model", "cnn", "--mode", MODE, "--batch",
                      BATCH_TEXT, "--steps", "40", "--loaders", "1", "--side", str(SIDES[model])])

    def bench_exchange(self, number):
        """Input does not change the exchange."""
        every = self.args.models, self.args.ranks
        self.args.models, self.args.ranks = ["plain"], [n for n in every[1] if n > 1]
        for start in range(EXCHANGE_STARTS):
            super().bench_exchange(number * EXCHANGE_STARTS + start)
        self.args.models, self.args.ranks = every

    def stored_bytes(self, kind):
        import images  # needs PyTorch, which --help and tests do not

        with tempfile.TemporaryDirectory() as folder:
            images.write(folder, SIDES[kind])
            return images.stored_bytes(folder)

    def storage_rate(self):
        """Bytes per second; from the plain step of the first round."""
        step_s = self.compute_ms("plain", MODE) / 1000
        return round(BATCH * self.stored_bytes("storage") / (STORAGE_STEPS * step_s))

    def storage_ahead(self):
        """Bytes that storage makes up for after a pause."""
        import images

        return round(images.BEHIND_S * self.storage_rate())

    def cases(self):
        """(input, loaders, ranks); plain cases have no loaders."""
        return [("plain", -1, n) for n in self.args.ranks] + [
            (kind, loaders, n) for kind in SIDES for loaders in LOADERS for n in self.args.ranks]

    def measure(self):
        number = len({row[0] for row in self.runs})
        cases = self.cases()
        for kind, loaders, ranks in self.chance.sample(cases, len(cases)):
            options = [] if kind == "plain" else ["--loaders", loaders, "--side", SIDES[kind]]
            if kind == "storage":
                options += ["--storage-bytes-per-s", self.storage_rate()]
            before = run.processor_times()
            text = run.call(self.train("plain", "--mode", MODE, "--workers", ranks, "--batch", BATCH,
                                       "--steps", self.steps(MODELS["plain"][3], 6), "--warmup",
                                       self.steps(20, 5), *options))
            after = run.processor_times()
            values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
            others = run.disturbed(before, after, float(values["processor_s"]))
            self.runs.append((number, kind, loaders, ranks, float(values["samples_per_s"]), others))
        with open(self.path("measured.csv"), "w", encoding="ascii") as file:
            csv.writer(file).writerows([COLUMNS, *self.runs])

    def read(self):
        """Reads earlier measurements."""
        with open(self.path("measured.csv"), encoding="ascii") as file:
            self.runs = [(int(row["round"]), row["input"], int(row["loaders"]), int(row["ranks"]),
                          float(row["samples_per_s"]), float(row["others_frac"]))
                         for row in csv.DictReader(file)]
        self.rounds = len({row[0] for row in self.runs})
        for number in range(self.rounds):
            for model in MODELS:
                self.copies.setdefault((model, MODE), []).append(
                    self.path(f"{model}_{MODE}_copies{number}.dlt"))
            self.compute_ms("plain", MODE)  # of the first round, as in the measurement

    def loader_costs(self, model):
        """Lines of a cost file: for a batch made by a loader, and for taking it."""
        costs = self.path(f"{model}_loaded.ini")
        (trace,) = glob.glob(self.path(f"{model}_loaded/*.json.gz"))
        run.call([self.tool("dlcal"), "costs", trace, "--batch", BATCH_TEXT, "-o", costs])
        with open(costs, encoding="ascii") as file:
            text = file.read()
        made = re.search(r"^\[op input\]\n(.*\n.*\n)", text, re.M)
        take = re.search(r"^copy_ns = .*\n", text, re.M)
        if made is None:
            sys.exit(f"{trace}: dlcal costs finds no processor time of a loader")
        return f"[op input]\n{made.group(1)}", take.group(0) if take else ""

    def costs(self, kind):
        """Cost files without loaders and with them."""
        model = "light" if kind == "storage" else kind
        paths = self.path(f"{kind}_costs.ini"), self.path(f"{kind}_loaders_costs.ini")
        (size, trace), = self.traces(model, MODE)
        copies = [word for copy in self.copies[model, MODE] for word in ("--copies", copy)]
        run.call([self.tool("dlcal"), "costs", trace, "--batch", str(size), *copies, "-o", paths[0]])
        run.call([self.tool("dlcal"), "links", self.exchange_of("plain", MODE, None), "--costs",
                  paths[0], "-o", paths[0]])
        if kind == "plain":
            return paths
        made, take = self.loader_costs(model)
        with open(paths[0], encoding="ascii") as file:
            text = file.read()
        stored = f"\n[input]\nstored_bytes_per_sample = {self.stored_bytes(kind):.0f}\n"
        with open(paths[0], "w", encoding="ascii") as file:
            file.write(text + stored)
        with open(paths[1], "w", encoding="ascii") as file:
            file.write(re.sub(r"\[op input\]\n.*\n.*\n", made, text) + stored + take)
        return paths

    def simulate(self, kind, costs, loaders):
        """Rows of results for these numbers of loaders; none: plain training."""
        scenario, results = self.path(f"{kind}.ini"), self.path(f"{kind}.csv")
        with open(scenario, "w", encoding="ascii") as file:
            file.write(f"[scenario]\nname = {kind}\nsteps = 100\nwarmup = 20\nreplicates = 20\n"
                       f"[machine]\ncores = {len(os.sched_getaffinity(0))}\n"
                       f"workers = {', '.join(map(str, self.args.ranks))}\n"
                       f"[workload]\ncosts = {os.path.basename(costs)}\n"
                       f"batch_per_worker = {BATCH}\n[sync]\nmode = allreduce\n"
                       "[noise]\nkind = trace\n")
            if loaders:
                file.write(f"[input]\nloaders = {', '.join(map(str, loaders))}\n")
            if kind == "storage":
                file.write(f"storage_bytes_per_s = {self.storage_rate()}\n"
                           f"storage_ahead_bytes = {self.storage_ahead()}\n")
        run.call([self.tool("dlsim"), scenario, "-o", results])
        with open(results, encoding="ascii") as file:
            return list(csv.DictReader(line for line in file if not line.startswith("#")))

    def predict(self, number=None):
        """(input, loaders, ranks): samples per second, and the ends of its interval."""
        predicted = {}
        for kind in ("plain", *SIDES):
            alone, beside = self.costs(kind)
            if kind == "plain":
                rows = [(-1, row) for row in self.simulate(kind, alone, ())]
            else:
                rows = [(0, row) for row in self.simulate(kind, alone, (0,))]
                for loaders in LOADERS[1:]:
                    rows += [(loaders, row) for row in self.simulate(kind, beside, (loaders,))]
            for loaders, row in rows:
                predicted[kind, loaders, int(row["workers"])] = tuple(
                    float(row[f"throughput_{end}per_s"]) for end in ("", "low_", "high_"))
        return predicted

    def report(self):
        rows = make_rows(self.predict(), self.runs)
        text = table(rows) + verdict(rows, self.runs)
        print("\n".join(text))
        if self.args.docs:
            put(self.args.docs, markdown(rows) + ["", text[-1].capitalize() + "."])


def make_rows(predicted, runs):
    """For each case except plain ones: (input, loaders, ranks, predicted rate, interval, measured
    rate, its floor, runs inside, runs, ratio to plain: predicted, measured, its floor). Floors are
    relative standard errors of medians."""
    rows = []
    plain = {(number, ranks): rate for number, kind, _, ranks, rate, _ in runs if kind == "plain"}
    for case in sorted(case for case in predicted if case[0] != "plain"):
        rate, low, high = predicted[case]
        mine = [row for row in runs if row[1:4] == case]
        rates = [row[4] for row in mine]
        longer = [plain[row[0], case[2]] / row[4] for row in mine]
        rows.append((*case, rate, (low, high), statistics.median(rates), run.median_error(rates),
                     sum(low <= own <= high for own in rates), len(rates),
                     predicted["plain", -1, case[2]][0] / rate, statistics.median(longer),
                     run.median_error(longer)))
    return rows


def errors(row):
    """Errors of the rate and of the ratio to a plain step, in %."""
    return 100 * (row[3] / row[5] - 1), 100 * (row[9] / row[10] - 1)


def table(rows):
    lines = [f"{'input':8} {'loaders':>7} {'ranks':>5} {'predicted/s':>11} {'95 % of runs':>15} "
             f"{'measured/s':>10} {'error %':>7} {'floor %':>7} {'inside':>6} "
             f"{'x plain':>7} {'measured':>8} {'error %':>7} {'floor %':>7}"]
    for row in rows:
        kind, loaders, ranks, rate, (low, high), measured, floor, held, count, longer, own, own_floor = row
        first, second = errors(row)
        lines.append(f"{kind:8} {loaders:7} {ranks:5} {rate:11.1f} {f'{low:.0f} to {high:.0f}':>15} "
                     f"{measured:10.1f} {first:+7.1f} {100 * floor:7.1f} {f'{held}/{count}':>6} "
                     f"{longer:7.2f} {own:8.2f} {second:+7.1f} {100 * own_floor:7.1f}")
    return lines


def sizes(rows, which):
    all_errors = [abs(errors(row)[which]) for row in rows]
    return statistics.mean(all_errors), max(all_errors)


def verdict(rows, runs):
    held, count = sum(row[7] for row in rows), sum(row[8] for row in rows)
    others = 100 * statistics.mean(row[5] for row in runs)
    lines = ["%s of %d points: mean %.1f %%, largest %.1f %%" % (what, len(rows), *sizes(rows, which))
             for which, what in enumerate(("error of the throughput",
                                           "error of how much longer a step takes than a plain one"))]
    lines.append("noise floor, the standard error of a measured median: %.1f %% and %.1f %%"
                 % tuple(100 * statistics.mean(row[at] for row in rows) for at in (6, 11)))
    lines.append(f"predicted 95 % interval of one run: holds {held} of {count} measured runs")
    rounds = count // len(rows)
    if rounds < 3:
        lines.append(f"verdict: {rounds} rounds do not judge the predictions, three would")
    elif others > 5:
        lines.append(f"verdict: disturbed, others took {others:.0f} % of the processors")
    else:
        lines.append(f"verdict: judged by {rounds} rounds, others took {others:.0f} % of the processors")
    return lines


def markdown(rows):
    lines = ["| input | loaders | processes | predicted/s | measured/s | error % | floor % | "
             "longer than plain: predicted | measured | error % | floor % |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        first, second = errors(row)
        lines.append(f"| {row[0]} | {row[1]} | {row[2]} | {row[3]:.1f} | {row[5]:.1f} | {first:+.1f} | "
                     f"{100 * row[6]:.1f} | {row[9]:.2f} | {row[10]:.2f} | {second:+.1f} | "
                     f"{100 * row[11]:.1f} |")
    floors = [100 * statistics.mean(row[at] for row in rows) for at in (6, 11)]
    lines.append("| mean, max | | | | | %.1f, %.1f | %.1f | | | %.1f, %.1f | %.1f |"
                 % (*sizes(rows, 0), floors[0], *sizes(rows, 1), floors[1]))
    return lines


def put(path, lines):
    """Replaces the text between the marks in the page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    start = text.index("\n", text.index(BEGIN)) + 1
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:start] + "\n" + "\n".join(lines) + "\n\n" + text[text.index(END):])


def arguments():
    p = run.parser(__doc__, seconds=420)
    p.set_defaults(output="out/input", models=",".join(MODELS), modes=MODE, ranks="1,2")
    p.add_argument("--again", action="store_true", help="predict anew what was measured before")
    p.add_argument("--docs", help="page that gets the table")
    return run.check(p, p.parse_args())


def main():
    run.MODELS, run.MODES = MODELS, {MODE: run.MODES[MODE]}
    args = arguments()
    run.LEAST_ROUNDS = LEAST_ROUNDS
    if args.again:
        clients = InputClients(args, None)
        clients.read()
        clients.report()
        return 0
    os.environ.update(MEMORY)
    with run.Warm() as warm:
        run.take_rounds(InputClients(args, warm), args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
