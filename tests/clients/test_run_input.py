"""Errors that run_input.py computes from predictions and measured rates, with known values; no
PyTorch."""

import os
import tempfile

import run_input

# Two rounds: plain steps take 10 and 12.5 ms per sample; input makes them 2 and 1.6 times as long.
RUNS = [(0, "plain", -1, 1, 100.0, 0.01), (0, "light", 1, 1, 50.0, 0.01),
        (1, "plain", -1, 1, 80.0, 0.03), (1, "light", 1, 1, 50.0, 0.03)]
PREDICTED = {("plain", -1, 1): (99.0, 90.0, 110.0), ("light", 1, 1): (55.0, 45.0, 60.0)}


def check_rows():
    """55 against a measured 50: +10 %; 99 / 55 = 1.8 times as long, measured 1.8: 0 %."""
    (row,) = run_input.make_rows(PREDICTED, RUNS)
    assert row[:3] == ("light", 1, 1) and row[7:9] == (2, 2), row
    first, second = run_input.errors(row)
    assert abs(first - 10) < 1e-9 and abs(second) < 1e-9, (first, second)


def check_verdict():
    rows = run_input.make_rows(PREDICTED, RUNS)
    lines = run_input.verdict(rows, RUNS)
    assert lines[0] == "error of the throughput of 1 points: mean 10.0 %, largest 10.0 %", lines
    assert lines[-1].startswith("verdict: 2 rounds do not judge"), lines
    more = [(number, *row[1:5], others) for number in range(4) for row in RUNS[:2]
            for others in [0.2 * (number == 0)]]
    assert "judged by 4 rounds" in run_input.verdict(run_input.make_rows(PREDICTED, more), more)[-1]
    disturbed = [(*row[:5], 0.2) for row in more]
    assert "disturbed" in run_input.verdict(run_input.make_rows(PREDICTED, disturbed), disturbed)[-1]


def check_page():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write("before\n<!-- run_input.py: below -->\n\nold\n\n<!-- end of run_input.py -->\nafter\n")
        run_input.put(path, ["| new |"])
        with open(path, encoding="utf-8") as file:
            text = file.read()
    assert text == ("before\n<!-- run_input.py: below -->\n\n| new |\n\n"
                    "<!-- end of run_input.py -->\nafter\n"), text


if __name__ == "__main__":
    check_rows()
    check_verdict()
    check_page()
