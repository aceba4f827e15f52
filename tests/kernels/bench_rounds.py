#!/usr/bin/env python3
"""Summarises the rounds that bench_torch.py measured: a CSV with a row per turn of a program.

  bench_rounds.py CSV [--isa native]             prints the table of docs/studies/training_speed.md
  bench_rounds.py CSV --into docs/studies/training_speed.md    replaces the first such table in the file

In a round dlprof, PyTorch with images in NCHW, and PyTorch in channels_last each do a few steps. A
ratio is the time of PyTorch's faster layout in a round, divided by dlprof's.
"""

import argparse
import collections
import csv
import os
import statistics

COLUMNS = ["date", "processor", "isa", "model", "threads", "batch", "round", "program", "steps",
           "wall_ms", "cpu_ms", "others_cores"]
PROGRAMS = ["dlprof", "nchw", "channels_last"]
TITLES = {"vgg19_bn": "VGG-19-BN", "resnet50": "ResNet-50", "lenet": "LeNet", "mlp": "MLP"}


class Cell:
    """The rounds of one model, batch and number of threads."""

    def __init__(self):
        self.turns = collections.defaultdict(dict)  # {round: {program: row}}

    def rounds(self):
        """The turns of complete rounds, by program."""
        return [turns for turns in self.turns.values() if len(turns) == len(PROGRAMS)]

    def last_round(self):
        return max(self.turns, default=0)

    def ratios(self, column="wall_ms"):
        times = [[float(turns[p][column]) for p in PROGRAMS] for turns in self.rounds()]
        return [min(time[1:]) / time[0] for time in times]

    def median(self, program, column="wall_ms"):
        return statistics.median(float(turns[program][column]) for turns in self.rounds())

    def others(self):
        """Mean number of cores that other programs used in a turn, the largest of all turns."""
        return max(float(turn["others_cores"]) for turns in self.rounds()
                   for turn in turns.values())


def read(path, isa):
    """Cells by (model, threads, batch)."""
    cells = collections.defaultdict(Cell)
    if not os.path.exists(path):
        return cells
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["isa"] == isa:
                key = (row["model"], int(row["threads"]), int(row["batch"]))
                cells[key].turns[int(row["round"])][row["program"]] = row
    return cells


def number(ms):
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def cell_columns(cell):
    if cell is None or not cell.rounds():
        return ["-"] * 4
    wall = cell.ratios()
    rounds = f" ({min(wall):.2f} to {max(wall):.2f})" if len(wall) > 1 else ""
    return ([number(cell.median(p)) for p in PROGRAMS] + [f"{statistics.median(wall):.2f}{rounds}"])


HEAD = "| | batch | dlprof ms | "


def table(cells):
    """Lines of the Markdown table."""
    names = ["dlprof ms", "NCHW", "channels_last", "ratio"]
    lines = ["| | batch | " + " | ".join(names + [names[0] + ", 2 cores"] + names[1:]) + " |",
             "|---" * (2 + 2 * len(names)) + "|"]
    before = None
    order = list(TITLES)
    for model, batch in sorted({(m, b) for m, _, b in cells}, key=lambda k: (order.index(k[0]), k)):
        columns = [column for threads in (1, 2)
                   for column in cell_columns(cells.get((model, threads, batch)))]
        title = TITLES[model] if model != before else ""
        lines.append(f"| {title} | {batch} | " + " | ".join(columns) + " |")
        before = model
    return lines


def put_into(text, lines):
    """Replaces the first table that starts with HEAD."""
    old = text.splitlines()
    first = next(i for i, line in enumerate(old) if line.startswith(HEAD))
    last = next(i for i in range(first, len(old)) if not old[i].startswith("|"))
    return "\n".join(old[:first] + lines + old[last:]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("csv")
    p.add_argument("--isa", default="native")
    p.add_argument("--into", metavar="FILE")
    options = p.parse_args()
    lines = table(read(options.csv, options.isa))
    if options.into is None:
        print("\n".join(lines))
        return
    with open(options.into) as file:
        text = put_into(file.read(), lines)
    with open(options.into, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
