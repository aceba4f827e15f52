"""Compares the kernel times of two summaries of the same training (dlcal info --json).

Usage: compare_kernels.py REFERENCE OTHER BOUND. Of each kernel that both have, the mean time; their
differences are weighted by the reference's total times. Fails if the sum is off by more than BOUND,
or if the kernels that both have make up less than nine tenths of the reference's time.
"""
import json
import sys

SHARED_FRAC = 0.9


def kernels(path):
    """{name: (count, total_ns)} of the first process with a device."""
    with open(path, encoding="utf-8") as file:
        for item in json.load(file):
            devices = item["summary"]["devices"]
            if devices:
                found = {}
                for kernel in devices[0]["kernels"]:
                    count, total = found.get(kernel["name"], (0, 0))
                    found[kernel["name"]] = (count + kernel["count"], total + kernel["total_ns"])
                return found
    sys.exit(f"{path}: no process has a device")


def main():
    reference, other = kernels(sys.argv[1]), kernels(sys.argv[2])
    bound = float(sys.argv[3])
    whole = sum(total for _, total in reference.values())
    shared = expected = got = 0
    for name, (count, total) in reference.items():
        if name not in other:
            continue
        other_count, other_total = other[name]
        shared += total
        expected += total
        got += count * other_total / other_count
    if whole == 0 or shared < SHARED_FRAC * whole:
        sys.exit(f"NOT HELD: kernels of both have {100 * shared / whole if whole else 0:.1f} % of the time")
    off = got / expected - 1
    held = abs(off) <= bound
    print(f"{'held' if held else 'NOT HELD'}: kernel times differ by {100 * off:.2f} %, "
          f"at most {100 * bound:.0f} % (over {100 * shared / whole:.1f} % of the time)")
    sys.exit(not held)


main()
