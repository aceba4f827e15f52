"""Double of PyTorch: the parts that the recorder of `dlprof run` uses, with operators that only
sleep. The profiler writes the same format as PyTorch's."""

import types

from . import _C, autograd, nn, optim, profiler  # noqa: F401


class parameter:
    requires_grad = True

    def __init__(self, device):
        self.device = types.SimpleNamespace(type=device)
        self.hooks = {}

    def numel(self):
        return 250

    def element_size(self):
        return 4

    def register_hook(self, hook):
        self.hooks[len(self.hooks)] = hook
        return types.SimpleNamespace(remove=self.hooks.clear)

    def add_gradient(self):
        for hook in self.hooks.values():
            hook(None)


def get_num_threads():
    return 2
