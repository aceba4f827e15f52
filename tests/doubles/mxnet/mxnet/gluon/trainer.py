import types

from .. import profiler
from ..context import Context


class Trainer:
    def __init__(self, parameters, device="cpu", kvstore=None):
        self._params = [types.SimpleNamespace(shape=shape, dtype="float32", grad_req=req)
                        for shape, req in parameters]
        self._contexts = [Context(device)]
        self._kvstore = types.SimpleNamespace(type=kvstore) if kvstore else None

    def step(self, batch_size):
        self._allreduce_grads()
        self._update()

    def _allreduce_grads(self):
        if self._kvstore:
            profiler.operator("KVStoreDistDefaultStoragePushPull", 0.002)

    def _update(self):
        profiler.operator("sgd_update")
