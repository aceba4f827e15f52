"""Tests of the table that bench_rounds.py prints."""
import os
import tempfile

import bench_rounds

HEAD = ",".join(bench_rounds.COLUMNS)
# Wall times of (dlprof, nchw, channels_last) by round, in ms; dlprof's processor time is a tenth
# longer.
ROUNDS = {1: (100, 150, 120), 2: (200, 300, 220), 3: (100, 130, 140), 4: (100, 90)}


def write_rows(file):
    print(HEAD, file=file)
    for number, times in ROUNDS.items():
        for program, ms in zip(bench_rounds.PROGRAMS, times):
            cpu = 1.1 * ms if program == "dlprof" else ms
            print(f"2026-01-01,cpu,native,resnet50,2,64,{number},{program},1,{ms},{cpu},0.{number}",
                  file=file)
    for program in bench_rounds.PROGRAMS:
        print(f"2026-01-01,cpu,avx2,resnet50,1,8,1,{program},1,5,5,0", file=file)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rounds.csv")
    assert not bench_rounds.read(path, "native")
    with open(path, "w", newline="") as out:
        write_rows(out)
    cells = bench_rounds.read(path, "native")

assert list(cells) == [("resnet50", 2, 64)], cells
cell = cells["resnet50", 2, 64]
# The fourth round is incomplete and is ignored; its ratio would be 0.9.
assert cell.ratios() == [1.2, 1.1, 1.3], cell.ratios()
assert cell.last_round() == 4 and cell.others() == 0.3
# Medians of the columns; ratios 1.2 (1.1 to 1.3).
row = "| ResNet-50 | 64 |" + 4 * " - |" + " 100 | 150 | 140 | 1.20 (1.10 to 1.30) |"
lines = bench_rounds.table(cells)
assert lines[2:] == [row], lines
# A single round has no range.
single = bench_rounds.Cell()
single.turns[1] = cell.turns[1]
assert bench_rounds.cell_columns(single) == ["100", "150", "120", "1.20"]
# Only the first table with that head is replaced, wholly.
old = ["before", "| | batch | dlprof ms | more |", "|---|", "| x |", "",
       "| | batch | dlprof ms | second |", "end"]
new = bench_rounds.put_into("\n".join(old) + "\n", lines)
assert new.splitlines() == old[:1] + lines + old[4:], new
