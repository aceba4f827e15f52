#!/usr/bin/env python3
"""Compares training steps of dlprof and PyTorch on this machine's cores: the same networks, batches and
optimizer (SGD with momentum 0.9), PyTorch eager with images in NCHW and in channels_last.

  bench_torch.py BENCH_STEPS CSV [--minutes 20] [--models vgg19_bn,resnet50] [--batches 1,8,...]

One thread: one worker of dlprof and one intra-op thread of PyTorch, on the same core. Two threads:
two workers that share the batch and sum their gradients, two intra-op threads; a batch of 1 has one
worker with two threads.

The three take turns of a few steps (one if it is long), in a different order each round, so that a
slow phase of the machine affects all; dlprof is stopped during the others' turns. Warm-up steps are
not counted. A row of the CSV is a turn: the medians of its steps' wall time and processor time (of
all threads, including those that spin while they wait), and the number of cores used meanwhile by
other programs or, as stolen time, by the host.

Cells without a round are measured first (ResNet-50's before others, by decreasing threads x batch), then
cells by increasing lowest ratio. Cells that have --rounds rounds are skipped, so the same command
resumes an interrupted run. No round starts that would end after --minutes. bench_rounds.py prints
the table. Exit code 1 if a median ratio is below --least, or a cell has no round.
"""

import argparse
import csv
import datetime
import os
import signal
import statistics
import subprocess
import sys
import time

import bench_rounds

# --avx2: environment that limits the libraries to AVX2; dlprof must be built with -DDL_WITH_AVX512=OFF.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
if "--avx2" in sys.argv:
    os.environ.update(AVX2)

import torch
from torch import nn
from torch.nn import functional as F


def make_mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(inplace=True),
                         nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Linear(64, 10))


def make_lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True),
                         nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(inplace=True), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def make_vgg19_bn():
    layers, channels = [], 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.projection = nn.Identity()
        if channels != 4 * width:
            self.projection = nn.Sequential(
                nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return F.relu_(self.branch(x).add_(self.projection(x)))


def make_resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))



# name: (model, shape of an image, classes)
MODELS = {"vgg19_bn": (make_vgg19_bn, (3, 32, 32), 10),
          "resnet50": (make_resnet50, (3, 224, 224), 1000),
          "lenet": (make_lenet, (1, 28, 28), 10), "mlp": (make_mlp, (1, 28, 28), 10)}


ALLOWED = sorted(os.sched_getaffinity(0))


class Dlprof:
    """Training process of dlprof, stopped before each step."""

    def __init__(self, program, name, batch, threads):
        workers = min(batch, threads)
        self.process = subprocess.Popen(
            [program, name, str(batch), str(workers), str(threads // workers)],
            stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, ALLOWED))
        self.await_stop()

    def await_stop(self):
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            sys.exit(f"bench_torch.py: {self.process.args[0]} ended")

    def step(self):
        """Seconds of wall and processor time."""
        start = time.perf_counter()
        os.kill(self.process.pid, signal.SIGCONT)
        self.await_stop()
        wall, cpu = [int(ns) * 1e-9 for ns in self.process.stdout.readline().split()]
        if wall > time.perf_counter() - start:
            sys.exit(f"bench_torch.py: a step of {wall} s took less than that")
        return wall, cpu

    def close(self):
        self.process.kill()
        self.process.wait()


class Torch:
    """Training of one network and batch in PyTorch."""

    def __init__(self, name, batch, layout):
        make, shape, classes = MODELS[name]
        torch.manual_seed(1)
        self.model = make().to(memory_format=layout)
        self.x = torch.randn(batch, *shape).to(memory_format=layout)
        self.y = torch.randint(0, classes, (batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        wall, cpu = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        loss.item()
        return time.perf_counter() - wall, time.process_time() - cpu

    def close(self):
        pass


def processor_name():
    with open("/proc/cpuinfo") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))


def busy_s():
    """Non-idle time of the machine's cores in seconds, including stolen time."""
    with open("/proc/stat") as file:
        ticks = [int(n) for n in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def take_turn(program, steps):
    """Median wall and processor time per step in s, and the mean number of cores that others used."""
    start, busy = time.perf_counter(), busy_s()
    taken = [program.step() for _ in range(steps)]
    wall, cpu = [statistics.median(column) for column in zip(*taken)]
    others = busy_s() - busy - sum(t[1] for t in taken)
    return wall, cpu, max(0, others / (time.perf_counter() - start))


def warm_up(program, seconds):
    """Runs at least one step and steps for `seconds`; returns the last one's duration in s."""
    start = time.perf_counter()
    while True:
        wall = program.step()[0]
        if time.perf_counter() - start > seconds:
            return wall


def use_cores(threads):
    """Binds all threads of PyTorch: to the core of dlprof's pinned worker for one thread, else to all
    allowed cores."""
    torch.set_num_threads(threads)
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), ALLOWED[:1] if threads == 1 else ALLOWED)


class Bench:
    """Measures cells until the time limit."""

    def __init__(self, options):
        self.options = options
        self.isa = "avx2" if options.avx2 else "native"
        self.end = time.monotonic() + 60 * options.minutes
        self.processor = processor_name()
        self.sample_s = {}  # seconds of a round per sample of the batch, by (model, threads)

    def write(self, key, number, program, steps, turn):
        new = not os.path.exists(self.options.csv)
        with open(self.options.csv, "a", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            if new:
                out.writerow(bench_rounds.COLUMNS)
            out.writerow([datetime.datetime.now().isoformat(timespec="seconds"), self.processor,
                          self.isa, *key, number, program, steps, f"{1e3 * turn[0]:.3f}",
                          f"{1e3 * turn[1]:.3f}", f"{turn[2]:.2f}"])

    def fits(self, key, rounds):
        """Whether `rounds` rounds are expected to end in time, by sample_s."""
        need = rounds * self.sample_s.get(key[:2], 0) * key[2]
        return time.monotonic() + need < self.end

    def run_rounds(self, key, programs, first, rounds):
        names = list(programs)
        steps = {}
        for name in names:
            step_s = warm_up(programs[name], self.options.warm)
            steps[name] = max(1, min(50, round(self.options.seconds / step_s)))
        for number in range(first, first + rounds):
            start = time.monotonic()
            if not self.fits(key, 1):
                return
            for i in range(len(names)):
                name = names[(number + i) % len(names)]
                time.sleep(0.02)  # lets the previous program's threads stop spinning
                self.write(key, number, name, steps[name], take_turn(programs[name], steps[name]))
            self.sample_s[key[:2]] = (time.monotonic() - start) / key[2]

    def measure(self, key, cell):
        name, threads, batch = key
        missing = self.options.rounds - len(cell.rounds())
        if missing <= 0:
            return
        if not self.fits(key, 2):
            print(f"{name} {threads} {batch}: no time left", flush=True)
            return
        use_cores(threads)
        programs = {"dlprof": Dlprof(self.options.program, name, batch, threads),
                    "nchw": Torch(name, batch, torch.contiguous_format),
                    "channels_last": Torch(name, batch, torch.channels_last)}
        try:
            self.run_rounds(key, programs, cell.last_round() + 1, missing)
        finally:
            for program in programs.values():
                program.close()
        report(key, bench_rounds.read(self.options.csv, self.isa)[key])


def report(key, cell):
    if not cell.rounds():
        return
    wall, cpu = cell.ratios(), cell.ratios("cpu_ms")
    ms = " ".join(f"{cell.median(p):9.1f}" for p in bench_rounds.PROGRAMS)
    print(f"{key[0]:9} {key[1]:7} {key[2]:5} {len(wall):6} {ms} {statistics.median(wall):6.2f} "
          f"{min(wall):6.2f} .. {max(wall):5.2f} {statistics.median(cpu):6.2f} "
          f"{cell.others():7.2f}", flush=True)


def doubt(key, cell):
    """Sort key: cells without a round, then those with the lowest ratio."""
    ratios = cell.ratios()
    return (bool(ratios), min(ratios, default=0), -key[1] * key[2] if key[0] == "resnet50" else 0)


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", help="bench_steps")
    p.add_argument("csv")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--models", type=lambda text: text.split(","), default=["resnet50", "vgg19_bn"])
    p.add_argument("--batches", type=numbers, default=[1, 8, 16, 32, 48, 64])
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.5, help="of each in a round")
    p.add_argument("--warm", type=float, default=0.3, help="seconds of steps before the first")
    p.add_argument("--least", type=float, default=0.97)
    p.add_argument("--avx2", action="store_true",
                   help="PyTorch and OpenBLAS without AVX-512 (dlprof: a build with "
                   "DL_WITH_AVX512=OFF)")
    options = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = Bench(options)
    cells = bench_rounds.read(options.csv, bench.isa)
    keys = [(name, threads, batch) for name in options.models for threads in options.threads
            for batch in options.batches]
    print("model     threads batch rounds dlprof_ms   nchw_ms   last_ms  ratio        range    cpu "
          " others")
    for key in sorted(keys, key=lambda key: doubt(key, cells[key])):
        bench.measure(key, cells[key])
    cells = bench_rounds.read(options.csv, bench.isa)
    low = [key for key in keys if not cells[key].rounds() or
           statistics.median(cells[key].ratios()) < options.least]
    for name, threads, batch in low:
        print(f"not shown to reach {options.least}: {name}, {threads} threads, batch {batch}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
