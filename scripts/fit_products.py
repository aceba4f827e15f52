#!/usr/bin/env python3
"""Fits the time of a matrix product to measured times by shape, with three parameters per GPU:

  time = fixed + max(flop / (peak x part), bytes / rate)

Minimises the mean of |log(fitted / measured)| and prints the parameters with that error, for all
shapes and for those of 1,000 or more in every dimension. The error of left-out shapes is that of a
fit to 30 spread shapes on the others. Backward passes of the A100 and GH200 were measured with zero
gradients. sim/workloads/roofline_rates.c has the parameters of the forward lines.

Usage: scripts/fit_products.py
$DL_DATA: folder with kernels/ and llm/ (default ./data)
"""
import csv
import math
import os
import random
import re
import statistics
import sys

DATA = os.environ.get("DL_DATA", "data")
PEAK = {"a100": 312e12, "gh200": 989.4e12, "b200": 2250e12}


def transformer_products(gpu):
    """((m, n, k, products), seconds) of Megatron's four layers, forward and backward."""
    shapes = {"linear1": lambda d, p: (d, 3 * d / p), "linear2": lambda d, p: (d / p, d),
              "linear3": lambda d, p: (d, 4 * d / p), "linear4": lambda d, p: (4 * d / p, d)}
    passes = {"forward": [], "backward": []}
    for name, of in shapes.items():
        with open(f"{DATA}/kernels/{gpu}/operator/{name}_fp16.csv", encoding="utf-8") as table:
            for row in csv.DictReader(table):
                m = float(row["b"]) * float(row["l"])
                k, n = of(float(row["dim"]), float(row["mp"]))
                passes["forward"].append(((m, n, k, 1), float(row["F_dur(us)"]) * 1e-6))
                passes["backward"].append(((m, n, k, 2), float(row["B_dur(us)"]) * 1e-6))
    return passes


def blackwell_products():
    """As transformer_products, from SimuMax' table, by the order of the factors: TN is forward."""
    line = re.compile(r'matmul,\d+,"b=(\d+), m=(\d+), k=(\d+), n=(\d+), layout=(\w+),.*",([\d.]+)')
    passes = {}
    with open(f"{DATA}/llm/simumax_b200_kernels.csv", encoding="utf-8") as table:
        for found in filter(None, map(line.match, table)):
            count, m, k, n = (int(found[i]) for i in range(1, 5))
            seconds = 2 * count * m * n * k / (PEAK["b200"] * float(found[6]))
            passes.setdefault(found[5], []).append(((m, n, k, count), seconds))
    return passes


def seconds_of(shape, peak, numbers):
    m, n, k, count = shape
    part, fixed, rate = numbers
    return count * (fixed + max(2 * m * n * k / (peak * part), 2 * (m * n + m * k + n * k) / rate))


def error_of(rows, peak, numbers):
    return statistics.mean(abs(math.log(seconds_of(s, peak, numbers) / t)) for s, t in rows)


def fit(rows, peak):
    """Pattern search on the logarithms of the parameters, from three starting points."""
    best, least = None, math.inf
    for start in ((0.7, 5e-6, 1e12), (0.5, 20e-6, 3e12), (0.9, 1e-6, 5e11)):
        at, step = [math.log(x) for x in start], 0.5
        value = error_of(rows, peak, [math.exp(x) for x in at])
        while step > 1e-3:
            tried = [at[:i] + [at[i] + d] + at[i + 1:] for i in range(3) for d in (step, -step)]
            found = min(tried, key=lambda p: error_of(rows, peak, [math.exp(x) for x in p]))
            new = error_of(rows, peak, [math.exp(x) for x in found])
            if new < value:
                at, value = found, new
            else:
                step /= 2
        if value < least:
            best, least = [math.exp(x) for x in at], value
    return best


def spread(rows, count):
    """`count` rows, evenly spaced in the order of their flop."""
    order = sorted(rows, key=lambda row: row[0][0] * row[0][1] * row[0][2])
    return [order[i * (len(order) - 1) // (count - 1)] for i in range(count)]


def main():
    if not os.path.isdir(f"{DATA}/kernels"):
        sys.exit(f"fit_products.py: no {DATA}/kernels; DL_DATA names its folder")
    random.seed(1)
    print(f"{'GPU':6} {'pass':9} {'shapes':>12} {'part':>6} {'fixed us':>9} {'GB/s':>8} "
          f"{'error %':>8} {'left out %':>10}")
    for gpu, passes in (("a100", transformer_products("a100")),
                        ("gh200", transformer_products("gh200")), ("b200", blackwell_products())):
        for name, rows in passes.items():
            for least in (0, 1000):
                kept = [row for row in rows if min(row[0][:3]) >= least]
                kept = random.sample(kept, min(len(kept), 600))
                numbers = fit(kept, PEAK[gpu])
                few = fit(spread(kept, 30), PEAK[gpu])
                rate = f"{numbers[2] / 1e9:8.0f}" if numbers[2] < 1e14 else f"{'-':>8}"
                print(f"{gpu:6} {name:9} {f'{len(kept)} >= {least}':>12} {numbers[0]:6.3f} "
                      f"{numbers[1] * 1e6:9.1f} {rate} {100 * error_of(kept, PEAK[gpu], numbers):8.1f} "
                      f"{100 * error_of(kept, PEAK[gpu], few):10.1f}")


if __name__ == "__main__":
    main()
