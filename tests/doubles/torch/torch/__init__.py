"""Double of PyTorch: the parts that the recorder of `dlprof run` uses, with operators that only
sleep. The profiler writes the same format as PyTorch's."""

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
