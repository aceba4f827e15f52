"""Stands for PyTorch: as much of it as the recorder of `dlprof run` touches, with operators that
only sleep. The profiler writes what PyTorch's would."""

import types

from . import _C, autograd, nn, optim, profiler  # noqa: F401


def parameter(device):
    return types.SimpleNamespace(
        device=types.SimpleNamespace(type=device),
        requires_grad=True,
        numel=lambda: 250,
        element_size=lambda: 4,
    )


def get_num_threads():
    return 2
