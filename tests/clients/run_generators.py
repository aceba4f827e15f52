"""Predicts reinforcement learning with a generator beside a trainer (generate.py) from separate
measurements of both sides, runs it on two cores, and compares. Called by ./check --clients.

  run_generators.py --bin build/release/bin --work sleeping            # 4 minutes; needs no PyTorch
  run_generators.py --bin build/release/bin --work torch --rounds 2    # 7 minutes
  run_generators.py --bin build/release/bin --work sleeping --smoke    # to check that everything works

1. The cases are run in random order. Before and after each case both sides are timed separately: passes
   of the generator by requests in flight, updates of the trainer of two sizes, and the two parts of a
   copy.
2. dlcal generators fits these times, and dlsim predicts the case with the same list of lengths.
3. Both are compared; the exit code is 1 if an error exceeds its limit. If a side's speed differs by more
   than DRIFT_MAX, before, after or during the run, as on a shared machine, the run is judged by the same
   costs at the speeds during the run: one factor for all passes, and one for all updates.
"""

import argparse
import csv
import dataclasses
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time

import generate

Case = generate.Case

CASES = {
    "bound 0": Case(bound=0),
    "bound 1": Case(bound=1),
    "bound 2": Case(bound=2),
    "window 0, U 4": Case(rule="window", bound=0, copy_every=4),
    "window 0.1, U 4": Case(rule="window", bound=0.1, copy_every=4),
    "window 0.5, U 4": Case(rule="window", bound=0.5, copy_every=4),
    "bound 1, drained": Case(bound=1, partial=False),
    "ahead 1, U 2, A 1": Case(bound=1, copy_every=2, age_max=1),
    "installed 1, U 2, A 1": Case(rule="installed", bound=1, copy_every=2, age_max=1),
    "16 in flight, A 1": Case(rule="workers", in_flight=16, age_max=1),
    "bound 1, copy 0.3 s": Case(bound=1, copy_s=0.3, pause_s=0.3),
    "bound 2, copy 0.3 s, pause 0.1 s": Case(bound=2, copy_s=0.3, pause_s=0.1),
}
UPDATES, WARMUP = 40, 8  # whole windows
GPUS = ("gpus = 2\ngenerator_gpus = 1\nprompt_tokens = 0\n")
REQUESTS = (1, 2, 4, 8, 16, 32, 48, 64, 96)
UPDATE_MEAN, WAITS, AGES, SHARE = 0.03, 0.02, 0.05, 0.08  # largest errors
NEAR = 0.02  # rows with smaller predicted differences have no order
DRIFT_MAX = 0.03  # of the sides' speeds, for a run judged by the sides alone
DISTURBED = 0.15  # largest drift of a run that is judged at all


def draw_lengths(path):
    """Log-normal lengths of answers, 1 to 160 tokens, written to a file for dlsim."""
    chance = random.Random(1)
    lengths = [min(160, max(1, round(chance.lognormvariate(math.log(48), 0.6)))) for _ in range(4001)]
    with open(path, "w", encoding="ascii") as file:
        file.write("tokens\n" + "".join(f"{length}\n" for length in lengths))
    return lengths


# --- each side alone -----------------------------------------------------------------------------

def beside(function, work):
    """Result of a function that runs on one core while the other side's work waits."""
    over = generate.RawValue("i", 0)

    def first():
        try:
            return function()
        finally:
            over.value = 1

    def second():
        waiting = work()
        while not over.value:
            waiting.spin()

    return first, second


def time_passes(make, seconds):
    """(requests in flight, tokens per second), in random order; and the median seconds of load."""
    work, rows = make(), []
    for count in random.Random(2).sample(REQUESTS, len(REQUESTS)):
        case = Case(rule="workers", in_flight=count, answers=1)
        generator = generate.Generator(generate.Board(case, count), work, [10**9])
        generator.look()
        start_s, passes = generator.ended_s, 0
        while passes < 100 and generator.ended_s - start_s < seconds:
            generator.answer()
            generator.look()
            passes += 1
        rows.append((count, count * passes / (generator.ended_s - start_s)))
    return rows, time_calls(work.load)


def time_updates(make, lengths, seconds):
    """(tokens, seconds) of batches with half and twice the answers, alternating; and the seconds of
    save."""
    work, rows, at = make(), [], 0
    started_s = time.monotonic()
    while len(rows) < 5 or time.monotonic() - started_s < seconds:
        count = Case.prompts * Case.answers * (1 if len(rows) % 2 else 4) // 2
        numbers = list(range(at, at + count))
        at += count
        drawn = [lengths[i % len(lengths)] for i in numbers]
        work.resume()
        start_s = time.monotonic()
        work.update(numbers, drawn)
        rows.append((sum(drawn), time.monotonic() - start_s))
    return rows[1:], time_calls(work.save)  # the first call warms up


def time_calls(part):
    """Median seconds of a part of a copy."""
    seconds = []
    for _ in range(10):
        start_s = time.monotonic()
        part()
        seconds.append(time.monotonic() - start_s)
    return statistics.median(seconds)


def time_alone(works, lengths, seconds):
    """Rows of the curve, rows of the trainer, and the seconds of a copy's parts, save and load."""
    generator, trainer = works
    alone, other = beside(lambda: time_passes(generator, seconds), trainer)
    curve, load_s = generate.on_cores(alone, other)[0]
    alone, other = beside(lambda: time_updates(trainer, lengths, len(REQUESTS) * seconds), generator)
    updates, save_s = generate.on_cores(other, alone)[1]
    return curve, updates, save_s, load_s


def speed(timed):
    """Seconds of the timed work of both sides."""
    curve, updates = timed[:2]
    return (sum(count / rate for count, rate in curve) / sum(count for count, _ in curve),
            sum(seconds for _, seconds in updates) / sum(tokens for tokens, _ in updates))


def drift(before, after):
    """Change of the side that changed more."""
    return max(abs(b / a - 1) for a, b in zip(speed(before), speed(after)))


# --- prediction ----------------------------------------------------------------------------------

def call(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def rows_of(path):
    with open(path, encoding="ascii") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class Client:
    def __init__(self, args, work):
        self.args, self.folder = args, os.path.join(args.output, work)
        os.makedirs(self.folder, exist_ok=True)
        self.lengths = draw_lengths(self.path("lengths.csv"))
        self.updates, self.warmup = (8, 4) if args.smoke else (UPDATES, WARMUP)
        self.names = [name for name in CASES if not args.smoke or "U 2" in name]
        if work == "sleeping":
            self.works = (generate.Sleeping, generate.Sleeping)
        else:
            import generate_torch  # needs PyTorch, unlike the other form

            shared = generate_torch.Shared(max(self.lengths))
            self.works = (lambda: generate_torch.Generator(shared), lambda: generate_torch.Trainer(shared))

    def path(self, name):
        return os.path.join(self.folder, name)

    def alone(self):
        return time_alone(self.works, self.lengths, self.args.seconds)

    def fit(self, timed):
        """Costs fitted to the timings, and the seconds of a copy's parts."""
        with open(self.path("parts.csv"), "w", encoding="ascii") as file:
            out = csv.writer(file)
            out.writerow(["requests", "tokens_per_s", "tokens", "gpus", "update_s"])
            for curve, updates, _, _ in timed:
                out.writerows([*row, "", "", ""] for row in curve)
                out.writerows(["", "", tokens, 1, seconds] for tokens, seconds in updates)
        self.fitted = call(os.path.join(self.args.bin, "dlcal"), "generators", self.path("parts.csv"), "-o",
                           self.path("costs.ini"))
        with open(self.path("costs.ini"), encoding="ascii") as file:
            values = dict(re.findall(r"^(\w+) = ([-0-9.e+]+)", file.read(), re.M))
        self.costs = [float(values[name]) / 1e9 for name in (
            "token_ns", "request_token_ns", "fixed_ns", "token_gpu_ns")]
        self.save_s, self.load_s = (statistics.median(own[part] for own in timed) for part in (2, 3))

    def speeds(self, run):
        """Seconds of the generator's passes and of the trainer's updates in a run, relative to the
        costs."""
        a_s, b_s, fixed_s, token_s = self.costs
        (passes, passes_s), (updates, tokens, updates_s) = run["passes"], run["trained"]
        return (passes_s / sum(count * (a_s + b_s * requests) for requests, count in passes.items()),
                updates_s / (updates * fixed_s + tokens * token_s))

    def predict(self, name, speeds=None):
        """Same format as generate.run; `speeds` replace those of the separate measurements."""
        case, scenario = CASES[name], self.path("case.ini")
        keys = {
            "rule": case.rule, "bound": case.bound, "copy_every": case.copy_every, "prompts": case.prompts,
            "answers": case.answers, "partial": "yes" if case.partial else "no",
            "copy_s": case.copy_s + self.save_s + self.load_s, "pause_s": case.pause_s + self.load_s}
        if case.in_flight > 0:
            keys["in_flight"] = case.in_flight
        if case.age_max < math.inf:
            keys["age_max"] = case.age_max
        if speeds is not None:
            names = ("token_s", "request_token_s", "train_fixed_s", "train_token_gpu_s")
            keys.update((key, cost * speeds[i // 2]) for i, (key, cost) in enumerate(zip(names, self.costs)))
        with open(scenario, "w", encoding="ascii") as file:
            file.write(f"[scenario]\nsteps = {self.updates}\nwarmup = {self.warmup}\n"
                       f"[workload]\ncosts = costs.ini\n[generators]\nlengths = lengths.csv\n{GPUS}")
            file.writelines(f"{key} = {value}\n" for key, value in keys.items())
        results, ages = self.path("case.csv"), self.path("ages.csv")
        call(os.path.join(self.args.bin, "dlsim"), scenario, "-q", "-o", results, "--histogram", ages)
        (row,) = rows_of(results)
        return {
            "update_s": float(row["update_s"]),
            "waits": float(row["trainer_waiting_frac"]) + float(row["trainer_draining_frac"]),
            "ages": {int(own["staleness"]): int(own["count"]) for own in rows_of(ages)},
            "ledger": tuple(round(float(row[f"groups_{what}"])) for what in ("begun", "used", "discarded"))}

    def measure(self):
        """Trials of each case, in random order: (name, prediction, prediction at the run's speeds,
        run, changes of the sides' speeds: separately before and after, and in the run). The nearest
        two separate timings give the prediction."""
        trials, chance, started_s = [], random.Random(3), time.monotonic()
        before = self.alone()
        for number in range(self.args.rounds):
            for name in chance.sample(self.names, len(self.names)):
                if number > 0 and time.monotonic() - started_s > self.args.limit:
                    break
                run = generate.run(CASES[name], self.works, self.lengths, self.updates, self.warmup)
                after = self.alone()
                self.fit((before, after))
                speeds = self.speeds(run)
                change = max(drift(before, after), *(abs(speed - 1) for speed in speeds))
                trials.append((name, self.predict(name), self.predict(name, speeds), run, change))
                print(f"{time.monotonic() - started_s:.0f} s: {name}: passes {speeds[0]:.3f} and updates "
                      f"{speeds[1]:.3f} times as long as alone, alone they changed by "
                      f"{100 * drift(before, after):.1f} %", flush=True)
                before = after
        print(self.fitted.strip())
        print(f"a copy: {1000 * self.save_s:.2f} ms of the trainer, {1000 * self.load_s:.2f} ms of both")
        return trials


# --- comparison ----------------------------------------------------------------------------------

def variation(a, b):
    """Total variation of two histograms."""
    x, y = sum(a.values()), sum(b.values())
    return sum(abs(a.get(age, 0) / x - b.get(age, 0) / y) for age in {*a, *b}) / 2


@dataclasses.dataclass
class Row:
    """A case: the run in which the sides' speeds differed least."""
    name: str
    alone: dict   # predicted from separate measurements of the sides
    paced: dict   # predicted with the speeds during the run
    run: dict
    change: float

    def judged(self):
        """The prediction that the limits apply to."""
        return self.alone if self.change <= DRIFT_MAX else self.paced

    def error(self, predicted):
        return predicted["update_s"] / self.run["update_s"] - 1


def compare(trials):
    """Rows in the order of CASES."""
    rows = {}
    for trial in trials:
        if trial[0] not in rows or trial[4] < rows[trial[0]].change:
            rows[trial[0]] = Row(*trial)
    return [rows[name] for name in CASES if name in rows]


def discarded_share(ledger):
    return ledger[2] / (ledger[1] + ledger[2])


def ledgers_agree(row):
    """Whether ledgers are equal, if the rule determines the number of groups begun. With `workers`,
    time determines it, and groups and updates may be in phase or not: then the discarded shares may
    differ by SHARE."""
    ours, counted = row.judged()["ledger"], row.run["ledger"]
    if CASES[row.name].rule != "workers":
        return tuple(ours) == tuple(counted)
    return ours[1] == counted[1] and abs(discarded_share(ours) - discarded_share(counted)) <= SHARE


def order_wrong(rows):
    """Pairs measured in the opposite order to the prediction, except pairs with nearly equal
    predictions."""
    return [(a.name, b.name) for a in rows for b in rows
            if a.judged()["update_s"] * (1 + NEAR) < b.judged()["update_s"]
            and a.run["update_s"] > b.run["update_s"]]


def verdicts(rows):
    """(statement, whether it holds) for these rows."""
    errors = [abs(row.error(row.judged())) for row in rows]
    waits = max(abs(row.judged()["waits"] - row.run["waits"]) for row in rows)
    ages = max(variation(row.judged()["ages"], row.run["ages"]) for row in rows)
    unequal = [row.name for row in rows if not ledgers_agree(row)]
    wrong = order_wrong(rows)
    return [
        (f"seconds an update: mean error {100 * statistics.mean(errors):.2f} % (bar {100 * UPDATE_MEAN:g}), "
         f"largest {100 * max(errors):.2f} %", statistics.mean(errors) <= UPDATE_MEAN),
        (f"the trainer's share of waiting: off by {waits:.3f} at most (bar {WAITS:g})", waits <= WAITS),
        (f"ages: total variation {ages:.3f} at most (bar {AGES:g})", ages <= AGES),
        ("ledgers: " + (f"not equal: {', '.join(unequal)}" if unequal else "equal"), not unequal),
        ("order: " + ("; ".join(f"{a} is not faster than {b}" for a, b in wrong) if wrong else "right"),
         not wrong)]


def table(rows):
    lines = ["| case | predicted ms | measured ms | error % | at the run's speeds % | speeds differ by % | waits "
             "| measured | ages' variation | begun, used, discarded | measured |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        own, run = row.judged(), row.run
        ledgers = [", ".join(map(str, of["ledger"])) for of in (own, run)]
        lines.append(f"| {row.name} | {1000 * row.alone['update_s']:.1f} | {1000 * run['update_s']:.1f} | "
                     f"{100 * row.error(row.alone):+.2f} | {100 * row.error(row.paced):+.2f} | "
                     f"{100 * row.change:.1f} | "
                     f"{own['waits']:.3f} | {run['waits']:.3f} | {variation(own['ages'], run['ages']):.3f} | "
                     f"{ledgers[0]} | {ledgers[1]} |")
    return lines


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--bin", required=True, help="folder of dlcal and dlsim")
    p.add_argument("--output", default="out/generators")
    p.add_argument("--work", choices=("sleeping", "torch"), required=True)
    p.add_argument("--rounds", type=int, default=1,
                   help="runs of each case; that in which speeds differed least counts")
    p.add_argument("--limit", type=float, default=420,
                   help="seconds after which no run starts, once each case has one")
    p.add_argument("--seconds", type=float, default=0.1, help="of a point of the curve, in each timing")
    p.add_argument("--smoke", action="store_true", help="few updates, whose figures mean nothing")
    return p.parse_args()


def main():
    args = arguments()
    client = Client(args, args.work)
    rows = compare(client.measure())
    print("\n".join(table(rows)))
    if args.smoke:
        print("a smoke test: the figures mean nothing")
        return 0
    return say_verdict(rows)


def say_verdict(rows):
    """Returns the exit code."""
    calm = [row for row in rows if row.change <= DISTURBED]
    alone = sum(row.change <= DRIFT_MAX for row in rows)
    print(f"judged: {alone} of {len(rows)} runs by the sides alone, {len(calm) - alone} at their own speeds, "
          f"{len(rows) - len(calm)} not, as the machine's speed changed too much")
    if len(calm) < len(rows) / 2:
        print("verdict: disturbed, this judges nothing")
        return 0
    found = verdicts(calm)
    for text, holds in found:
        print(f"{'ok    ' if holds else 'MISSED'} {text}")
    missed = sum(not holds for _, holds in found)
    print(f"verdict: {missed} of {len(found)} bars missed" if missed else "verdict: all bars hold")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
