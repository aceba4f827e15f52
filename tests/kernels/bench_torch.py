#!/usr/bin/env python3
"""Steps of `dlprof train` beside PyTorch's on this machine's cores: the same networks, batches and
optimizer (SGD with momentum 0.9), in turn, so that a slow spell of the machine meets all.

  bench_torch.py DLPROF [--models vgg19_bn,resnet50] [--batches 1,8,...] [--threads 1,2]

One thread: one worker of dlprof, one intra-op thread of PyTorch. Two threads: two workers that share
the batch and sum their gradients (--sync allreduce), two intra-op threads; a batch of 1 has one
worker with two threads (--threads 2). PyTorch runs eagerly, with images in NCHW and in
channels_last. Each round takes the median step of each; printed are medians over the rounds, and
PyTorch's time divided by dlprof's: the median and the range over the rounds of the better layout's.
Exit code 1 where a median is below --least.
"""

import argparse
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


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


# name: (model, sides of an image, classes)
MODELS = {"vgg19_bn": (make_vgg19_bn, 32, 10), "resnet50": (make_resnet50, 224, 1000)}


class Torch:
    """One network and batch of PyTorch."""

    def __init__(self, name, batch, layout):
        make, side, classes = MODELS[name]
        torch.manual_seed(1)
        self.model = make().to(memory_format=layout)
        self.x = torch.randn(batch, 3, side, side).to(memory_format=layout)
        self.y = torch.randint(0, classes, (batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        loss.item()
        return time.perf_counter() - start

    def median(self, steps):
        return statistics.median(self.step() for _ in range(steps))


def dlprof_median(program, name, batch, threads, steps):
    """The median step, in seconds; the first one counts like the others."""
    workers = min(batch, threads)
    text = subprocess.run(
        [program, "train", "--model", name, "--data", "synthetic", "--batch", str(batch),
         "--workers", str(workers), "--threads", str(threads // workers),
         "--sync", "allreduce" if workers > 1 else "none",
         "--steps", str(steps), "--no-trace"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"^step .*median ([0-9.]+) (ns|us|ms|s)\b", text, re.M)
    return float(found[1]) * UNITS[found[2]]


def measure(options, name, batch, threads):
    """Rounds of (dlprof, NCHW, channels_last)."""
    torch.set_num_threads(threads)
    layouts = [Torch(name, batch, layout)
               for layout in (torch.contiguous_format, torch.channels_last)]
    first = min(max(1e-3, t.median(2)) for t in layouts)
    steps = max(options.steps, min(100, round(options.seconds / first)))
    return [[dlprof_median(options.dlprof, name, batch, threads, steps + 1)] +
            [t.median(steps) for t in layouts] for _ in range(options.rounds)]


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dlprof")
    p.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    p.add_argument("--batches", type=numbers, default=[1, 8, 16, 32, 48, 64])
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1, help="of each in a round")
    p.add_argument("--steps", type=int, default=2, help="of each in a round, at least")
    p.add_argument("--least", type=float, default=0.97)
    options = p.parse_args()
    print("model     threads batch  dlprof_ms   nchw_ms channels_last_ms  ratio  range")
    low = 0
    for name in options.models:
        for threads in options.threads:
            for batch in options.batches:
                rounds = measure(options, name, batch, threads)
                ratios = [min(row[1:]) / row[0] for row in rounds]
                ms = [1e3 * statistics.median(column) for column in zip(*rounds)]
                ratio = statistics.median(ratios)
                low += ratio < options.least
                print(f"{name:9} {threads:7} {batch:5} {ms[0]:10.1f} {ms[1]:9.1f} {ms[2]:16.1f} "
                      f"{ratio:6.2f}  {min(ratios):.2f} .. {max(ratios):.2f}", flush=True)
    return 1 if low > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
