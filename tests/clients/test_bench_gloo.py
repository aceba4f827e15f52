"""bench_gloo.py's conversion of the times of a start, without PyTorch."""

import os
import sys
import types

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiler", "torch")
for name in ("torch", "torch.distributed", "torch.distributed.rpc", "torch.multiprocessing"):
    sys.modules[name] = types.ModuleType(name)
sys.path.insert(0, FOLDER)

import bench_gloo


def check_updates():
    """A simulated step is compute, a round trip and the update of [update], which is that of one
    caller for any number of callers. So this update is subtracted from round trips, for each
    start."""
    measured = [("roundtrip", 1, 4096, 3000.0, 1), ("update", 1, 4096, 400.0, 1),
                ("roundtrip", 2, 4096, 7000.0, 1), ("allreduce", 2, 4096, 900.0, 1),
                ("roundtrip", 1, 4096, 3500.0, 2), ("update", 1, 4096, 600.0, 2),
                ("roundtrip", 2, 4096, 8000.0, 2)]
    rows = bench_gloo.without_updates(measured)
    assert rows == [("roundtrip", 1, 4096, 2600.0, 1), ("update", 1, 4096, 400.0, 1),
                    ("roundtrip", 2, 4096, 6600.0, 1), ("allreduce", 2, 4096, 900.0, 1),
                    ("roundtrip", 1, 4096, 2900.0, 2), ("update", 1, 4096, 600.0, 2),
                    ("roundtrip", 2, 4096, 7400.0, 2)], rows


if __name__ == "__main__":
    check_updates()
