"""Reinforcement learning with a generator beside a trainer: two processes, each on its own core, which
share a board and the weights. run_generators.py predicts and measures its runs.

In one pass the generator computes a token of each answer in flight; between two passes it begins the
answers that the rule admits. A list, which dlsim reads too, gives the lengths of answers. The trainer
takes batches of complete groups, makes an update, and copies the weights: it stops the generator
between two passes until that has loaded the new weights. The class of the work sets the compute times
of both sides: Sleeping in this file, or a recurrent network in generate_torch.py.
"""

import collections
import ctypes
import dataclasses
import math
import multiprocessing
import os
import time
from multiprocessing.sharedctypes import RawArray, RawValue

FORK = multiprocessing.get_context("fork")
WAIT_S = 60  # maximum wait for the other side, which is then taken as dead


@dataclasses.dataclass(frozen=True)
class Case:
    """Keys of [generators], as in dlsim."""
    rule: str = "ahead"
    bound: float = 1
    copy_every: int = 1
    in_flight: int = 0         # groups; 0: no limit
    age_max: float = math.inf  # older groups are discarded
    partial: bool = True       # otherwise answers end before a copy
    copy_s: float = 0          # seconds added to the duration of a copy
    pause_s: float = 0         # part of copy_s in which the generator pauses
    prompts: int = 8
    answers: int = 4


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in (
        "admitted", "begun", "completed", "discarded",   # groups
        "announced", "copied", "installed",              # updates: made, published, in use
        "window_admitted", "window_outstanding", "in_flight", "phase", "stopped", "over")]


GO, DRAIN, STOP = range(3)  # phases that the trainer sets for the generator


class Board:
    """State shared by both sides; every access holds .changed."""

    def __init__(self, case, groups):
        self.case = case
        self.changed = FORK.Condition()
        self.counts = RawValue(Counts)
        self.first = RawArray("q", groups)      # updates in the weights for a group's first token
        self.completed = RawArray("q", groups)  # groups in order of completion

    def may_begin(self):
        c, n = self.case, self.counts
        ahead = n.admitted - n.discarded
        if c.in_flight > 0 and n.admitted - n.completed >= c.in_flight:
            return False
        if c.rule == "ahead":
            return ahead < (n.announced + c.bound + 1) * c.prompts
        if c.rule == "installed":
            return ahead < (n.copied + c.bound + 1) * c.prompts
        if c.rule == "window":
            return n.window_admitted + n.window_outstanding < (1 + c.bound) * c.copy_every * c.prompts
        return True  # for workers

    def admit(self):
        while self.may_begin():
            self.counts.admitted += 1
            self.counts.window_admitted += 1


class Sleeping:
    """Work that sleeps for its compute time."""
    requests_max = 256
    token_s, request_token_s = 0.002, 0.00002
    train_fixed_s, train_token_s = 0.02, 0.00009

    def __init__(self):
        self.until_s = 0.0

    def resume(self):
        """Restarts the clock of sleep() after a wait."""
        self.until_s = time.monotonic()

    def sleep(self, seconds):
        """Sleeps relative to the end of the previous sleep, so that delays do not add up."""
        self.until_s += seconds
        time.sleep(max(0.0, self.until_s - time.monotonic()))

    def spin(self):
        time.sleep(0.01)

    def wait(self, changed):
        """Waits for the other side."""
        if not changed.wait(WAIT_S):
            raise TimeoutError("the other side does nothing")

    def begin(self, row, answer):
        pass

    def end(self, row, last):
        pass

    def step(self, count):
        self.sleep(self.token_s + self.request_token_s * count)

    def update(self, answers, lengths):
        self.sleep(self.train_fixed_s + self.train_token_s * sum(lengths))

    def save(self):
        pass

    def load(self):
        pass


class Generator:
    def __init__(self, board, work, lengths):
        self.board, self.work, self.lengths = board, work, lengths
        self.waiting = collections.deque()  # (group, answer)
        self.flight = []  # [group, tokens to go] by row
        self.open = {}    # group: number of incomplete answers
        self.listed = 0   # groups admitted so far
        self.passes = collections.Counter()  # by number of requests in flight
        self.passes_s = 0.0
        self.ended_s = 0.0  # end of the last pass

    def begin(self):
        """Begins the admitted answers, in the order of the groups."""
        n, answers = self.board.counts, self.board.case.answers
        self.board.admit()
        for group in range(self.listed, n.admitted):
            self.waiting.extend((group, answer) for answer in range(answers))
        self.listed = n.admitted
        if n.phase == DRAIN:
            return
        while self.waiting and len(self.flight) < self.work.requests_max:
            group, answer = self.waiting.popleft()
            if group not in self.open:
                self.open[group] = answers
                self.board.first[group] = n.installed
                n.begun += 1
            number = group * answers + answer
            self.work.begin(len(self.flight), number)
            self.flight.append([group, self.lengths[number % len(self.lengths)]])

    def look(self):
        """Called between two passes: stops for a copy, begins answers; returns False at the end of
        the run."""
        n = self.board.counts
        if self.ended_s == 0:
            self.start()
        with self.board.changed:
            while not n.over:
                n.in_flight = len(self.flight)
                n.stopped = n.phase == STOP
                if n.installed < n.copied:
                    self.work.load()
                    n.installed = n.copied
                    self.board.changed.notify_all()
                if n.phase != STOP:
                    self.begin()
                    n.in_flight = len(self.flight)
                    if self.flight:
                        return True
                self.board.changed.notify_all()
                self.work.wait(self.board.changed)
                self.start()
        return False

    def start(self):
        """Starts the clock of the next pass."""
        self.work.resume()
        self.ended_s = time.monotonic()

    def answer(self):
        """Computes a token of each answer in flight."""
        self.work.step(len(self.flight))
        now_s = time.monotonic()
        self.passes[len(self.flight)] += 1
        self.passes_s += now_s - self.ended_s
        self.ended_s = now_s
        ended = []
        for row in reversed(range(len(self.flight))):
            self.flight[row][1] -= 1
            if self.flight[row][1] > 0:
                continue
            ended.append(self.flight[row][0])
            last = len(self.flight) - 1
            self.work.end(row, last)
            self.flight[row] = self.flight[last]
            self.flight.pop()
        groups = []
        for group in ended:
            self.open[group] -= 1
            if self.open[group] == 0:
                groups.append(group)
        if not groups:
            return
        with self.board.changed:
            for group in sorted(groups):
                self.board.completed[self.board.counts.completed] = group
                self.board.counts.completed += 1
            self.board.changed.notify_all()

    def run(self):
        """Returns passes by requests in flight, and their seconds."""
        while self.look():
            self.answer()
        return dict(self.passes), self.passes_s


class Trainer:
    def __init__(self, board, work, lengths):
        self.board, self.work, self.lengths = board, work, lengths
        self.queue = collections.deque()
        self.seen = self.updates = self.used = 0
        self.spent = collections.Counter()  # seconds by activity
        self.ages = collections.Counter()
        self.now_s = time.monotonic()

    def spend(self, what):
        now_s = time.monotonic()
        self.spent[what] += now_s - self.now_s
        self.now_s = now_s

    def take(self):
        """Returns a batch, or None."""
        n, case = self.board.counts, self.board.case
        while self.seen < n.completed:
            self.queue.append(self.board.completed[self.seen])
            self.seen += 1
        kept = [g for g in self.queue if self.updates - self.board.first[g] <= case.age_max]
        if len(kept) < len(self.queue):
            n.discarded += len(self.queue) - len(kept)
            self.queue = collections.deque(kept)
            self.board.changed.notify_all()
        if len(self.queue) < case.prompts:
            return None
        batch = [self.queue.popleft() for _ in range(case.prompts)]
        self.used += len(batch)
        for group in batch:
            self.ages[self.updates - self.board.first[group]] += 1
        return batch

    def wait_for(self, what):
        """Waits until the condition holds, with the board held; returns its value."""
        waited = False
        while not (value := what()):
            self.work.wait(self.board.changed)
            waited = True
        if waited:
            self.work.resume()
        return value

    def copy(self):
        n, case, changed = self.board.counts, self.board.case, self.board.changed
        if not case.partial:
            with changed:
                n.phase = DRAIN
                changed.notify_all()
                self.wait_for(lambda: n.in_flight == 0)
            self.spend("waiting")
        self.rest(case.copy_s - case.pause_s)
        self.work.save()
        with changed:
            n.phase = STOP
            changed.notify_all()
            self.wait_for(lambda: n.stopped)
        self.rest(case.pause_s)
        with changed:
            n.copied = self.updates
            n.phase = STOP
            changed.notify_all()
            self.wait_for(lambda: n.installed == n.copied)
        self.spend("copying")

    def rest(self, seconds):
        """Sleeps for a part of a copy."""
        if seconds > 0:
            time.sleep(seconds)
            self.work.resume()

    def announce(self, copied, over):
        """Publishes the update, including its copy."""
        n = self.board.counts
        n.announced = self.updates
        n.phase = GO
        n.over = over
        if copied:
            n.window_admitted = 0
            n.window_outstanding = n.admitted - n.completed + len(self.queue) + n.completed - self.seen
        self.board.changed.notify_all()

    def run(self, updates, warmup):
        """Returns the figures of the updates after the warm-up, and the ledger of the whole run."""
        case, answers = self.board.case, self.board.case.answers
        started_s, tokens, working_s = self.now_s, 0, 0.0
        for number in range(warmup + updates):
            if number == warmup:
                self.spent.clear()
                self.ages.clear()
                started_s = self.now_s
            with self.board.changed:
                batch = self.wait_for(self.take)
            self.spend("waiting")
            numbers = [g * answers + a for g in batch for a in range(answers)]
            lengths = [self.lengths[i % len(self.lengths)] for i in numbers]
            self.work.update(numbers, lengths)
            tokens += sum(lengths)
            working_s -= self.now_s
            self.spend("working")
            working_s += self.now_s
            self.updates += 1
            copied = self.updates % case.copy_every == 0
            if copied:
                self.copy()
            with self.board.changed:
                self.announce(copied, number + 1 == warmup + updates)
                begun, discarded = self.board.counts.begun, self.board.counts.discarded
        span_s = self.now_s - started_s
        return {"update_s": span_s / updates, "waits": self.spent["waiting"] / span_s,
                "ages": dict(self.ages), "ledger": (begun, self.used, discarded),
                "trained": (warmup + updates, tokens, working_s)}


def pin(core):
    """Binds the process to that one of its allowed cores."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def side(core, function, out):
    pin(core)
    out.send(function())
    out.close()


def on_cores(*functions):
    """Runs each function in a process on its own core; returns their results."""
    ends = []
    for core, function in enumerate(functions):
        mine, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=side, args=(core, function, theirs))
        process.start()
        theirs.close()
        ends.append((process, mine))
    try:
        return [end.recv() for _, end in ends]
    finally:
        for process, _ in ends:
            process.join(5)
            process.kill()


def run(case, works, lengths, updates, warmup):
    """One run; `works` makes the work of the generator and that of the trainer. Returns seconds per
    update, the trainer's share of waiting, ages, the groups begun, used and discarded, and the
    activity of both sides: "trained": updates, tokens, seconds; "passes": by requests in flight,
    seconds."""
    groups = int((updates + warmup + 4) * (case.bound + 3) * case.copy_every + 100) * case.prompts
    board = Board(case, groups)
    make_generator, make_trainer = works
    passes, found = on_cores(lambda: Generator(board, make_generator(), lengths).run(),
                             lambda: Trainer(board, make_trainer(), lengths).run(updates, warmup))
    return {**found, "passes": passes}
