"""Error statistics of run.py with known values, and its smoke test; no PyTorch."""

import math

import run


def check_median_error():
    """9, 10, 11 have a standard deviation of 1, so the error is sqrt(pi / 2) / sqrt(3) of 10."""
    assert run.median_error([10.0]) == 0
    error = run.median_error([9.0, 10.0, 11.0])
    assert abs(error - math.sqrt(math.pi / 6) / 10) < 1e-12, error


def check_bias():
    """Floors of 5 % give expected errors of 0.798 x 5 = 4.0 %. Errors of +4 and +8 % have the mean
    6 with 5 / sqrt(2) = 3.5; with another one of -3 % the mean is +3.0 with 5 / sqrt(3) = 2.9."""
    lines = run.bias_lines([("ddp", 0.04, 0.05), ("ddp", 0.08, 0.05), ("async", -0.03, 0.05)])
    assert lines[0].endswith("errors of 4.0 % on average"), lines
    assert lines[1].endswith("(too fast: +): async -3.0 +- 5.0, ddp +6.0 +- 3.5, all +3.0 +- 2.9"), lines


def check_smoke():
    """Two rounds with a tenth of the steps, but not below the minimum."""
    p = run.parser("", 60)
    args = run.check(p, p.parse_args(["--bin", "bin", "--smoke"]))
    assert args.rounds == run.LEAST_ROUNDS, args
    clients = run.Clients.__new__(run.Clients)
    clients.args = args
    assert (clients.steps(200, 5), clients.steps(20, 5)) == (20, 5)


if __name__ == "__main__":
    check_median_error()
    check_bias()
    check_smoke()
