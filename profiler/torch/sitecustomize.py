"""Records some steps of a program that trains with PyTorch on processors, with PyTorch's profiler.

`dlprof run` adds this folder to PYTHONPATH, so Python runs this file at start-up, in the program and
in the Python programs that it starts. When the program imports torch.optim, this file registers a
hook that PyTorch calls after each step of an optimizer. A step lasts from one update of the first
optimizer with parameters on the processor to its next update. If no optimizer of torch.optim updates
parameters, as in hand-written loops, or only in hooks of the backward pass, a step lasts from the end
of one backward pass to the end of the next, and gets a range in the trace; another range, from the
end of the backward pass to the next batch or module, is the update. The first WARM_UP steps are
ignored, the next TIMED steps, or those of TIMED_S seconds, are timed without a profiler, then
DLPROF_STEPS (0: RECORDED) are recorded, for at most DLPROF_DURATION seconds (0: RECORDED_S, but at
least MIN_RECORDED steps). If other optimizers have updated parameters too, each step gets a range.
If the program ends earlier, the steps recorded until then are kept.

Writes to DLPROF_OUTPUT, once per process, <host>.<pid>.<start in ns>.json.gz, a trace of PyTorch
with these members: "dlprof_step_ns", the median step without a profiler; "dlprof_children_ns", the
processor time of child processes (of a data loader) per recorded step; "dlprof_loaders", the number
of these processes, "dlprof_take_ns" and "dlprof_take_processor_ns", the medians over the batches of
the timed steps of the time to get one from them, and of the thread's processor time in it; "dlprof_faults" and
"dlprof_kernel_ns", minor page faults and processor time in the kernel per timed step;
"dlprof_threads", the threads that operators use; if there are optimizers, "dlprof_parameter_bytes",
the bytes of all parameters that backward passes train. If there is no trace, a .log has the reason.
Processes that do not train on processors write nothing. Errors of this file never reach the
program; if the program starts a profiler itself, this one gives way.
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
BACKWARD = "backward"  # source of steps that end with a backward pass


def run_replaced_module():
    """Runs the sitecustomize that Python would find without this folder."""
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
    """The recording of one process. Only the thread that ended the first step records."""

    def __init__(self, folder):
        import socket
        import threading
        import time

        self.folder = folder
        self.clock = time.perf_counter_ns
        self.stem = os.path.join(
            folder, "%s.%d.%d" % (socket.gethostname(), os.getpid(), time.time_ns())
        )
        self.steps_wanted = int(os.environ.get("DLPROF_STEPS") or 0) or RECORDED
        duration_s = float(os.environ.get("DLPROF_DURATION") or 0)
        self.limit_ns = (duration_s or RECORDED_S) * NS_PER_S
        self.steps_least = 1 if duration_s > 0 else min(MIN_RECORDED, self.steps_wanted)
        self.source = None  # ends steps: an optimizer, or BACKWARD
        self.thread = None
        self.steps = 0  # completed steps
        self.last_ns = 0
        self.times_ns = []
        self.takes = None  # Takes: times of batches, collected while steps are timed
        self.kernel_before = self.kernel = None  # kernel_work() before the timed steps, and its increase
        self.profiler = None  # while recording
        self.starting = False
        self.recorded = 0
        self.others = []  # Other: further optimizers, as in a GAN
        self.within = {}  # optimizers that update in hooks of backward passes, by id
        self.ranges = None  # if source is BACKWARD or there are others
        self.own_profiler = False  # whether the program's own profiler was running
        self.done = False
        self.passes = threading.local()  # .depth: of the backward passes that run

    def after_update(self, optimizer, args, kwargs):
        """PyTorch calls this after each step of any optimizer."""
        if self.done and self.source is not BACKWARD:
            return
        if getattr(self.passes, "depth", 0) > 0:
            # Called by a hook of the pass, in which no profiler may start or stop.
            self.within[id(optimizer)] = optimizer
            return
        try:
            if self.source in (None, BACKWARD):
                if not on_processor(p for g in optimizer.param_groups for p in g["params"]):
                    return
                if self.source is BACKWARD:  # the first update came after several backward passes
                    self.start_over()
                self.take(optimizer)
            if optimizer is self.source:
                self.count()
            elif not self.done:
                self.update_other(optimizer)
        except Exception as error:  # must not reach the program
            self.give_up("%s: %s" % (type(error).__name__, error))

    def update_other(self, optimizer):
        for other in self.others:
            if other.optimizer is optimizer:
                if other.trains:
                    other.stop()
                return
        self.others.append(Other(optimizer))

    def after_backward(self, roots):
        """Called at the end of each outermost backward pass."""
        if self.done or self.source not in (None, BACKWARD):
            return
        try:
            if self.source is None:
                if not on_processor(roots):
                    return
                self.take(BACKWARD)
            self.count()
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))

    def take(self, source):
        import threading

        self.source = source
        self.thread = threading.get_ident()
        if source is BACKWARD:
            self.ranges = Ranges()

    def start_over(self):
        """Discards the steps so far: the backward passes that ended them were parts of a step."""
        if self.profiler is not None:
            self.ranges.stop()
            self.profiler.stop()
        if self.takes is not None:
            self.takes.stop()
        if self.done and os.path.exists(self.stem + ".json.gz"):
            os.unlink(self.stem + ".json.gz")
        self.__init__(self.folder)

    def count(self):
        import threading

        if threading.get_ident() != self.thread:
            return
        now = self.clock()
        self.steps += 1
        if self.profiler is not None:
            return self.end_recorded_step(now)
        if self.steps == WARM_UP + 1:
            self.takes, self.kernel_before = Takes(), kernel_work()
        elif self.steps > WARM_UP + 1:
            self.times_ns.append(now - self.last_ns)
        if self.source is BACKWARD and self.steps in (WARM_UP, WARM_UP + 1):
            self.ranges.look_for_modules(self.steps == WARM_UP)
        if self.timed():
            self.start()
        self.last_ns = self.clock()

    def timed(self):
        """Whether enough steps have been timed without a profiler."""
        return len(self.times_ns) >= TIMED or sum(self.times_ns) > TIMED_S * NS_PER_S

    def own_profiler_runs(self):
        """Whether the program's own profiler is running."""
        import torch

        return torch._C._autograd._profiler_enabled()

    def make_profiler(self):
        """Returns a started profiler."""
        import torch

        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        )
        profiler.start()
        return profiler

    def start(self):
        self.takes.stop()
        self.kernel = tuple(now - then for now, then in zip(kernel_work(), self.kernel_before))
        if self.own_profiler_runs():
            self.own_profiler = True
            return  # retried after the next step
        self.starting = True
        try:
            self.profiler = self.make_profiler()
        finally:
            self.starting = False
        if self.others and self.ranges is None:
            self.ranges = Ranges()
        if self.ranges is not None:
            self.ranges.start()
        self.children_s = children_s()
        self.start_ns = self.clock()

    def end_recorded_step(self, now):
        self.recorded += 1
        late = now - self.start_ns > self.limit_ns
        if self.recorded >= self.steps_wanted or (late and self.recorded >= self.steps_least):
            self.finish()
        elif self.ranges is not None:
            self.ranges.next_step()

    def finish(self):
        """Ends the recording and writes the trace atomically."""
        profiler, self.profiler, self.done = self.profiler, None, True
        if profiler is None:
            return
        if self.ranges is not None:
            self.ranges.stop()
        used_s = children_s() - self.children_s
        if used_s > 0 and self.recorded > 0:
            used_ns = int(used_s * NS_PER_S / self.recorded)
            profiler.add_metadata_json("dlprof_children_ns", str(used_ns))
        if self.times_ns:
            import statistics

            median = int(statistics.median(self.times_ns))
            profiler.add_metadata_json("dlprof_step_ns", str(median))
            for name, value in zip(("dlprof_faults", "dlprof_kernel_ns"), self.kernel):
                profiler.add_metadata_json(name, str(int(value / len(self.times_ns))))
        threads = getattr(sys.modules.get("torch"), "get_num_threads", None)
        if threads is not None:
            profiler.add_metadata_json("dlprof_threads", str(threads()))
        if self.source is not BACKWARD:
            profiler.add_metadata_json("dlprof_parameter_bytes", str(self.parameter_bytes()))
            for other in self.others:
                other.stop()
        for name, number in self.takes.numbers():
            profiler.add_metadata_json(name, str(number))
        profiler.stop()
        if self.recorded == 0:
            return self.give_up("the program ended before its first recorded step did")
        folder, name = os.path.split(self.stem)
        part = os.path.join(folder, ".%s.part.json.gz" % name)
        profiler.export_chrome_trace(part)
        os.replace(part, self.stem + ".json.gz")

    def parameter_bytes(self):
        """Bytes of all optimizers' trained parameters, each counted once. (Gradients in the trace may
        count some twice, as several networks' passes, or those of LBFGS, add to them.)"""
        parameters = {
            id(p): p
            for optimizer in [
                self.source,
                *(o.optimizer for o in self.others if o.trains),
                *self.within.values(),
            ]
            for group in optimizer.param_groups
            for p in group["params"]
            if p.requires_grad
        }
        return sum(p.numel() * p.element_size() for p in parameters.values())

    def at_end(self):
        """Called when the program ends."""
        if self.done:
            return
        try:
            if self.profiler is not None:
                self.finish()
            elif self.source is not None:
                self.give_up(
                    "the program's own profiler was at work"
                    if self.own_profiler
                    else "the program ended after %d; recording starts after %d"
                    % (self.steps, WARM_UP + TIMED)
                )
        except Exception as error:
            self.give_up("%s: %s" % (type(error).__name__, error))

    def make_way(self):
        """Ends the recording as the program starts a profiler itself: there can be only one."""
        if self.profiler is not None and not self.starting:
            try:
                self.finish()
            except Exception as error:
                self.give_up("%s: %s" % (type(error).__name__, error))

    def give_up(self, why):
        self.profiler, self.done = None, True
        try:
            with open(self.stem + ".log", "a", encoding="utf-8") as log:
                log.write(
                    "no steps of PyTorch on the processor were recorded: %s\n" % why
                )
        except OSError:
            pass


class Other:
    """An optimizer besides the first, and whether backward passes give its parameters gradients. DiLoCo's
    outer optimizer updates copies of the parameters, whose gradients the program computes itself."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.trains = False
        self.hooks = [
            p.register_hook(self.see)
            for group in optimizer.param_groups
            for p in group["params"]
            if p.requires_grad
        ]

    def see(self, gradient):
        self.trains = True

    def stop(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks = []


class Takes:
    """Times that this thread takes to get batches from processes of data loaders."""

    def __init__(self):
        import threading
        import time

        self.times_ns, self.processor_ns = [], []
        self.processes = 0
        loaders = sys.modules.get("torch.utils.data.dataloader")
        self.loader = loaders._BaseDataLoaderIter if loaders is not None else None
        if self.loader is None:
            return
        self.following = following = self.loader.__next__
        thread = threading.get_ident()

        def next_batch(iterator):
            if threading.get_ident() != thread or not getattr(iterator, "_num_workers", 0):
                return following(iterator)
            self.processes = iterator._num_workers
            before = time.perf_counter_ns(), time.thread_time_ns()
            batch = following(iterator)
            self.times_ns.append(time.perf_counter_ns() - before[0])
            self.processor_ns.append(time.thread_time_ns() - before[1])
            return batch

        self.loader.__next__ = next_batch

    def stop(self):
        if self.loader is not None:
            self.loader.__next__ = self.following
            self.loader = None

    def numbers(self):
        """Yields (name, number) of the trace's members."""
        import statistics

        if self.times_ns:
            yield "dlprof_loaders", self.processes
            yield "dlprof_take_ns", int(statistics.median(self.times_ns))
            yield "dlprof_take_processor_ns", int(statistics.median(self.processor_ns))


class Ranges:
    """Adds ranges to the trace: for each step, and, if modules are called, for the update at its start,
    which ends at the next call of a data loader or a module."""

    def __init__(self):
        self.steps = 0
        self.open = []
        self.modules = False  # whether modules are called
        self.hook = None
        self.loader = None

    def look_for_modules(self, on):
        from torch.nn.modules import module

        if on:
            self.hook = module.register_module_forward_pre_hook(self.before_forward)
        elif self.hook is not None:
            self.hook.remove()
            self.hook = None

    def before_forward(self, *args):
        self.modules = True
        self.end_update()

    def end_update(self):
        if len(self.open) > 1:
            self.open.pop().__exit__(None, None, None)

    def start(self):
        if self.modules:
            self.look_for_modules(True)
            self.watch_loaders()
        self.next_step()

    def watch_loaders(self):
        """Replaces __next__ of the loaders' class, where Python looks it up, while steps are recorded."""
        loaders = sys.modules.get("torch.utils.data.dataloader")
        if loaders is None:
            return
        self.loader = loaders._BaseDataLoaderIter
        self.following = following = self.loader.__next__

        def next_batch(iterator):
            self.end_update()
            return following(iterator)

        self.loader.__next__ = next_batch

    def next_step(self):
        from torch.autograd.profiler import record_function

        self.close()
        self.steps += 1
        names = ["ProfilerStep#%d" % self.steps]
        if self.modules:
            names.append("Optimizer.step#own")
        for name in names:
            self.open.append(record_function(name))
            self.open[-1].__enter__()

    def close(self):
        while self.open:
            self.open.pop().__exit__(None, None, None)

    def stop(self):
        self.close()
        self.look_for_modules(False)
        if self.loader is not None:
            self.loader.__next__ = self.following
            self.loader = None


def on_processor(tensors):
    """Whether the first tensor is on the processor; CUPTI records work on GPUs."""
    for tensor in [tensors] if hasattr(tensors, "device") else tensors or ():
        device = getattr(tensor, "device", None)
        return device is not None and device.type == "cpu"
    return False


def children_s():
    """Processor time of child processes, running or ended, and of the children that they waited
    for, in s."""
    times = os.times()
    used_s = times.children_user + times.children_system
    ticks = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/children" % task, encoding="ascii") as children:
                pids = children.read().split()
            for pid in pids:
                ticks += process_ticks(pid)
    except OSError:
        pass
    return used_s + ticks / os.sysconf("SC_CLK_TCK")


def kernel_work():
    """Minor page faults of this process, and its processor time in the kernel in ns."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt, used.ru_stime * NS_PER_S


def process_ticks(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(f) for f in fields[11:15])  # utime, stime, cutime, cstime


def call_after_backward(recorder):
    """Makes autograd.backward call the recorder after each outermost backward pass."""
    import functools

    from torch import autograd

    backward = getattr(autograd, "backward", None)
    if backward is None:
        return

    @functools.wraps(backward)
    def followed(*args, **kwargs):
        passes = recorder.passes
        passes.depth = getattr(passes, "depth", 0) + 1
        try:
            return backward(*args, **kwargs)
        finally:
            passes.depth -= 1
            if passes.depth == 0:
                recorder.after_backward(args[0] if args else kwargs.get("tensors"))

    autograd.backward = followed


def guard(profile, name, recorder):
    """Makes profile.name, which starts a profiler of PyTorch, end our recording first."""
    start = getattr(profile, name, None)
    if start is None:
        return

    def start_alone(self, *args, **kwargs):
        recorder.make_way()
        return start(self, *args, **kwargs)

    setattr(profile, name, start_alone)


def register(optimizers):
    """Installs the recorder's hooks; `optimizers` is the imported module torch.optim.optimizer."""
    recorder = Recorder(os.environ["DLPROF_OUTPUT"])
    add = getattr(optimizers, "register_optimizer_step_post_hook", None)
    if add is None:
        return recorder.give_up("PyTorch 2.0 and newer can be recorded")
    add(recorder.after_update)
    from torch.autograd.profiler import profile

    guard(profile, "__enter__", recorder)
    guard(profile, "_prepare_trace", recorder)
    call_after_backward(recorder)
    follow_process(recorder)


def follow_process(recorder):
    """Makes the recorder end with the process, and restart in forked children."""
    import atexit

    atexit.register(recorder.at_end)
    import multiprocessing.util

    # Processes of multiprocessing do not run atexit's functions.
    multiprocessing.util.Finalize(recorder, recorder.at_end, exitpriority=100)
    # A forked child inherits the hooks: it makes its own recording, unless the parent was recording.
    os.register_at_fork(after_in_child=lambda: restart(recorder))


def restart(recorder):
    recording = recorder.profiler is not None
    if recorder.ranges is not None:
        recorder.ranges.open.clear()
        recorder.ranges.stop()
    recorder.__init__(recorder.folder)
    recorder.done = recording


class Watcher:
    """Import hook: finds a module as Python would, and calls `register` with it after its execution."""

    def __init__(self, module, register):
        self.module, self.register = module, register

    def find_spec(self, name, path, target=None):
        import importlib.machinery

        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module):
            execute(module)
            try:
                self.register(module)
            except Exception as error:
                print("dlprof run: %s: %s" % (type(error).__name__, error), file=sys.stderr)

        spec.loader.exec_module = execute_and_register
        return spec


def quieten_kineto():
    """Silences PyTorch's profiler, which without a GPU reports that as an error and logs its own calls."""
    if not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/kfd"):
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")


run_replaced_module()
if os.environ.get("DLPROF_OUTPUT"):
    quieten_kineto()
    sys.meta_path.insert(0, Watcher("torch.optim.optimizer", register))
