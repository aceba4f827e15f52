"""Records some steps of a program that trains with MXNet on processors: what sitecustomize.py does with
PyTorch's profiler, with MXNet's.

MXNet's engine runs operators when they are ready, of one step beside those of the next. While steps
are recorded they wait for the engine after the backward pass, the exchange and the update, so that
each lies in a range of its own: that makes a recorded step longer than others, which the median step
without the profiler puts right. What is hooked are gluon's Trainer and autograd's backward passes.
"""

import gzip
import json
import os
import socket


class Profile:
    """MXNet's profiler with the calls of PyTorch's that Recorder makes."""

    def __init__(self, folder, set_config, set_state):
        import mxnet

        self.mx, self.set_state = mxnet, set_state
        self.raw = os.path.join(folder, ".%d.mxnet.json" % os.getpid())
        self.members = {"host_name": json.dumps(socket.gethostname())}
        self.domains = {}
        self.steps = 0
        self.step = self.phase = None
        mxnet.nd.waitall()
        set_config(
            profile_all=False, profile_symbolic=True, profile_imperative=True,
            profile_memory=False, profile_api=False, aggregate_stats=False,
            continuous_dump=False, filename=self.raw)
        set_state("run")
        self.start_step()

    def task(self, category, name):
        """A range; the domain's name is the category of its events."""
        profiler = self.mx.profiler
        if category not in self.domains:
            self.domains[category] = profiler.Domain(category)
        task = profiler.Task(self.domains[category], name)
        task.start()
        return task

    def enter(self, name):
        """What follows is `name`, when the engine has done what came before."""
        self.mx.nd.waitall()
        if self.phase is not None:
            self.phase.stop()
        self.phase = None if name is None else self.task("cpu_op", name)

    def end_step(self):
        self.enter(None)
        self.step.stop()

    def start_step(self):
        self.steps += 1
        self.step = self.task("user_annotation", "ProfilerStep#%d" % self.steps)
        self.enter("forward")

    def add_metadata_json(self, key, text):
        self.members[key] = text

    def stop(self):
        self.enter(None)
        self.set_state("stop")  # the mark of a step that has not ended is left out

    def export_chrome_trace(self, path):
        self.mx.profiler.dump()
        try:
            with open(self.raw, encoding="utf-8") as file:
                head, _, _ = file.read().rpartition("}")
            members = "".join(",\n%s: %s" % (json.dumps(k), v) for k, v in self.members.items())
            with gzip.open(path, "wt", encoding="utf-8") as file:
                file.write("%s%s\n}\n" % (head.rstrip(), members))
        finally:
            os.unlink(self.raw)


def parameter_bytes(trainer):
    """Bytes of what a trainer updates. A type is float32, or called so."""
    import math
    import re

    total = 0
    for parameter in trainer._params:
        bits = re.search("[0-9]+$", getattr(parameter.dtype, "__name__", str(parameter.dtype)))
        if parameter.grad_req != "null" and parameter.shape and bits:
            total += math.prod(parameter.shape) * int(bits.group()) // 8
    return total


def on_processor(trainer):
    contexts = getattr(trainer, "_contexts", None) or []
    return bool(contexts) and all(c.device_type.startswith("cpu") for c in contexts)


def make_recorder(base):
    """A Recorder that records with MXNet. base: sitecustomize's."""

    class MxnetRecorder(base):
        FRAMEWORK = "MXNet"
        batch = 0
        bytes = 0
        set_config = set_state = None  # MXNet's own functions
        own_running = False

        def own_profiler_runs(self):
            return self.own_running

        def make_profiler(self):
            return Profile(self.folder, self.set_config, self.set_state)

        def is_recording(self):
            import threading

            return self.profiler is not None and threading.get_ident() == self.thread

        def phase(self, name, function, *args, **kwargs):
            """Calls function in a range of that name."""
            if not self.is_recording():
                return function(*args, **kwargs)
            self.guarded(lambda: self.profiler.enter(name))
            try:
                return function(*args, **kwargs)
            finally:
                if self.is_recording():
                    self.guarded(lambda: self.profiler.enter("forward"))

        def guarded(self, function):
            try:
                function()
            except Exception as error:
                self.give_up("%s: %s" % (type(error).__name__, error))

        def end_recorded_step(self, now):
            self.profiler.end_step()
            super().end_recorded_step(now)
            if self.profiler is not None:
                self.profiler.start_step()

        def end_step(self, source, is_local):
            """The program has updated the parameters of `source`, a trainer. It is not kept: its kvstore
            has to go before the process ends."""
            if not self.done:
                self.guarded(lambda: self.end_step_of(source, is_local))

        def end_step_of(self, source, is_local):
            import weakref

            if self.source is None and is_local():
                self.take(weakref.ref(source))
            if self.source is not None and self.source() is source:
                self.count()

        def finish(self):
            if self.profiler is not None:
                if self.batch > 0:
                    self.profiler.add_metadata_json("dlprof_batch", str(self.batch))
                if self.bytes > 0:
                    self.profiler.add_metadata_json("dlprof_parameter_bytes", str(self.bytes))
            super().finish()

    return MxnetRecorder


def wrap(owner, name, around):
    """Replaces owner.name by a function that calls around(the original, ...)."""
    import functools

    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        return around(original, *args, **kwargs)

    setattr(owner, name, wrapped)


def register(trainer_module, base, folder):
    """`trainer_module` is mxnet.gluon.trainer, just imported. Returns the recorder."""
    import mxnet.autograd
    import mxnet.ndarray
    import mxnet.profiler

    recorder = make_recorder(base)(folder)
    trainer = trainer_module.Trainer
    type(recorder).set_config = staticmethod(mxnet.profiler.set_config)
    type(recorder).set_state = staticmethod(mxnet.profiler.set_state)

    def exchange(function, self, *args, **kwargs):
        store = getattr(self, "_kvstore", None)
        if store is None or "dist" not in store.type:
            return function(self, *args, **kwargs)
        return recorder.phase("kvstore::exchange", function, self, *args, **kwargs)

    def update(function, self, *args, **kwargs):
        recorder.phase("Optimizer.step#Trainer", function, self, *args, **kwargs)
        recorder.bytes = recorder.bytes or parameter_bytes(self)
        recorder.end_step(self, lambda: on_processor(self))

    def with_batch(function, self, batch_size, *args, **kwargs):
        recorder.batch = int(batch_size)
        return function(self, batch_size, *args, **kwargs)

    def backward(function, *args, **kwargs):
        return recorder.phase("autograd::backward", function, *args, **kwargs)

    def set_config(function, **settings):
        recorder.make_way()
        return function(**settings)

    def set_state(function, state="stop", profile_process="worker"):
        if profile_process == "worker":
            if state == "run":
                recorder.make_way()
            recorder.own_running = state == "run"
        return function(state, profile_process)

    wrap(trainer, "_allreduce_grads", exchange)
    wrap(trainer, "_update", update)
    wrap(trainer, "step", with_batch)
    wrap(trainer, "update", with_batch)
    wrap(mxnet.autograd, "backward", backward)
    wrap(mxnet.ndarray.NDArray, "backward", backward)
    wrap(mxnet.profiler, "set_config", set_config)
    wrap(mxnet.profiler, "set_state", set_state)
    return recorder
