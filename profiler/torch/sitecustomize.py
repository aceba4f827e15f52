"""Records some steps of a program that trains with PyTorch on processors, with PyTorch's profiler.

`dlprof run` names this folder in PYTHONPATH, so Python runs this file when it starts, in the program
and in the Python programs that it starts. When the program imports torch.optim, a hook is registered
that PyTorch calls after each step of an optimizer. A step reaches from one update of the first
optimizer with parameters on the processor to its next one. The first WARM_UP steps are left alone,
the next TIMED ones are timed without a profiler, then DLPROF_STEPS (0: RECORDED) are recorded, at
most DLPROF_DURATION seconds (0: RECORDED_S, but MIN_RECORDED steps). A program that ends earlier has
what it has come to recorded.

Left in DLPROF_OUTPUT, once per process: <host>.<pid>.<start in ns>.json.gz, a trace of PyTorch
whose member "dlprof_step_ns" is the median step without a profiler, or a .log that says why there
is none. Nothing is left by processes that do not train on processors. Errors of this file never reach
the program; a profiler that the program starts itself goes before this one.
"""

import os
import sys

WARM_UP = 5
TIMED = 10
TIMED_S = 10.0
RECORDED = 20
RECORDED_S = 30.0
MIN_RECORDED = 3
NS_PER_S = 1e9


def run_replaced_module():
    """Runs the sitecustomize that Python would have found without this folder."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class Recorder:
    """One process's recording. All of it happens in the thread that the first step ended in."""

    def __init__(self, folder):
        import socket
        import time

        self.clock = time.perf_counter_ns
        self.stem = os.path.join(
            folder, "%s.%d.%d" % (socket.gethostname(), os.getpid(), time.time_ns())
        )
        self.steps_wanted = int(os.environ.get("DLPROF_STEPS") or 0) or RECORDED
        duration_s = float(os.environ.get("DLPROF_DURATION") or 0)
        self.limit_ns = (duration_s or RECORDED_S) * NS_PER_S
        self.steps_least = 1 if duration_s > 0 else min(MIN_RECORDED, self.steps_wanted)
        self.optimizer = None  # the one whose updates end steps
        self.thread = None
        self.steps = 0  # that ended
        self.last_ns = 0
        self.times_ns = []
        self.profiler = None  # while it records
        self.starting = False
        self.recorded = 0
        self.own_profiler = False  # the program had one at work
        self.done = False

    def after_update(self, optimizer, args, kwargs):
        """PyTorch calls this after each step of any optimizer."""
        if self.done:
            return
        try:
            self.count(optimizer)
        except Exception as error:  # never the program's concern
            self.give_up("%s: %s" % (type(error).__name__, error))

    def count(self, optimizer):
        import threading

        if self.optimizer is None:
            if not on_processor(optimizer):
                return
            self.optimizer = optimizer
            self.thread = threading.get_ident()
        if optimizer is not self.optimizer or threading.get_ident() != self.thread:
            return
        now = self.clock()
        self.steps += 1
        if self.profiler is not None:
            return self.end_recorded_step(now)
        if self.steps > WARM_UP + 1:
            self.times_ns.append(now - self.last_ns)
        if self.timed():
            self.start()
        self.last_ns = self.clock()

    def timed(self):
        """Whether enough steps were timed without a profiler."""
        return len(self.times_ns) >= TIMED or sum(self.times_ns) > TIMED_S * NS_PER_S

    def start(self):
        import torch

        if torch._C._autograd._profiler_enabled():
            self.own_profiler = True
            return  # perhaps after the next step
        self.starting = True
        try:
            self.profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
            )
            self.profiler.start()
        finally:
            self.starting = False
        self.start_ns = self.clock()

    def end_recorded_step(self, now):
        self.recorded += 1
        late = now - self.start_ns > self.limit_ns
        if self.recorded >= self.steps_wanted or (late and self.recorded >= self.steps_least):
            self.finish()

    def finish(self):
        """Ends the recording and writes the trace; whole or not at all."""
        profiler, self.profiler, self.done = self.profiler, None, True
        if profiler is None:
            return
        if self.times_ns:
            import statistics

            median = int(statistics.median(self.times_ns))
            profiler.add_metadata_json("dlprof_step_ns", str(median))
        profiler.stop()
        if self.recorded == 0:
            return self.give_up("the program ended before its first recorded step did")
        folder, name = os.path.split(self.stem)
        part = os.path.join(folder, ".%s.part.json.gz" % name)
        profiler.export_chrome_trace(part)
        os.replace(part, self.stem + ".json.gz")

    def at_end(self):
        """The program ends."""
        if self.done:
            return
        try:
            if self.profiler is not None:
                self.finish()
            elif self.optimizer is not None:
                self.give_up(
                    "the program's own profiler was at work"
                    if self.own_profiler
                    else "the program ended after %d; recording starts after %d"
                    % (self.steps, WARM_UP + TIMED)
                )
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))

    def make_way(self):
        """The program starts a profiler itself, of which there can be one."""
        if self.profiler is not None and not self.starting:
            try:
                self.finish()
            except Exception as error:
                self.give_up("%s: %s" % (type(error).__name__, error))

    def give_up(self, why):
        self.profiler, self.done = None, True
        try:
            with open(self.stem + ".log", "a", encoding="utf-8") as log:
                log.write("no steps of PyTorch on the processor were recorded: %s\n" % why)
        except OSError:
            pass


def on_processor(optimizer):
    """Whether its parameters are on the processor; those of a GPU are recorded through CUPTI."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            return parameter.device.type == "cpu"
    return False


def guard(profile, name, recorder):
    """Has profile.name, by which a profiler of PyTorch starts, end our recording first."""
    start = getattr(profile, name, None)
    if start is None:
        return

    def start_alone(self, *args, **kwargs):
        recorder.make_way()
        return start(self, *args, **kwargs)

    setattr(profile, name, start_alone)


def register(optimizers):
    """`optimizers` is the module torch.optim.optimizer, just imported."""
    import atexit

    recorder = Recorder(os.environ["DLPROF_OUTPUT"])
    add = getattr(optimizers, "register_optimizer_step_post_hook", None)
    if add is None:
        return recorder.give_up("PyTorch 2.0 and newer can be recorded")
    add(recorder.after_update)
    from torch.autograd.profiler import profile

    guard(profile, "__enter__", recorder)
    guard(profile, "_prepare_trace", recorder)
    atexit.register(recorder.at_end)
    import multiprocessing.util

    # A process of multiprocessing ends without atexit's functions.
    multiprocessing.util.Finalize(recorder, recorder.at_end, exitpriority=100)
    # A forked child has the parent's hook: it records for itself, unless the parent was recording.
    os.register_at_fork(after_in_child=lambda: restart(recorder))


def restart(recorder):
    recording = recorder.profiler is not None
    recorder.__init__(os.environ["DLPROF_OUTPUT"])
    recorder.done = recording


class Watcher:
    """Finds torch.optim.optimizer as Python would have, and registers the hook once it is run."""

    MODULE = "torch.optim.optimizer"

    def find_spec(self, name, path, target=None):
        import importlib.machinery

        if name != self.MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module):
            execute(module)
            try:
                register(module)
            except Exception as error:
                print("dlprof run: %s: %s" % (type(error).__name__, error), file=sys.stderr)

        spec.loader.exec_module = execute_and_register
        return spec


def quieten_kineto():
    """Without a GPU PyTorch's profiler complains of that as of an error, and logs its own calls."""
    if not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/kfd"):
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")


run_replaced_module()
if os.environ.get("DLPROF_OUTPUT"):
    quieten_kineto()
    sys.meta_path.insert(0, Watcher())
