import contextlib
import gzip
import json
import os
import threading
import time

from .. import autograd
from ..autograd.profiler import profile as inner_profile

events = None  # of the running profiler


@contextlib.contextmanager
def operator(name, category="cpu_op", seconds=0.0005):
    start = time.time_ns()
    time.sleep(seconds)
    yield
    if events is not None:
        ids = {"pid": os.getpid(), "tid": threading.get_native_id()}
        times = {"ts": start / 1e3, "dur": (time.time_ns() - start) / 1e3}
        events.append({"ph": "X", "cat": category, "name": name, **ids, **times, "args": {}})


class ProfilerActivity:
    CPU = "cpu"


class profile:
    def __init__(self, activities=None, record_shapes=False):
        self.metadata = {}

    def start(self):
        global events
        if autograd.running:
            os.abort()  # PyTorch ends by a segmentation fault
        self.profiler = inner_profile()
        self.profiler._prepare_trace()
        events = self.events = []

    def stop(self):
        global events
        if autograd.running:
            os.abort()
        events = None
        self.profiler.__exit__()

    def add_metadata_json(self, key, value):
        self.metadata[key] = json.loads(value)

    def export_chrome_trace(self, path):
        trace = {"schemaVersion": 1, **self.metadata, "traceEvents": self.events}
        with gzip.open(path, "wt") as out:
            json.dump(trace, out)
