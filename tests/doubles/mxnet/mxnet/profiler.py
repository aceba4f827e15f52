import json
import threading
import time

waits = 0  # calls of waitall
events = None  # while it runs
kept, filename = [], None
calls = []


def event(phase, name, category):
    return {"name": name, "cat": category, "ph": phase, "ts": time.time_ns() // 1000, "pid": 0,
            "tid": (1 << 63) + threading.get_ident()}


def operator(name, seconds=0.0005):
    start = event("B", name, "operator")
    time.sleep(seconds)
    if events is not None:
        events.extend([start, event("E", name, "operator")])


def set_config(**settings):
    global filename
    filename = settings["filename"]


def set_state(state="stop", profile_process="worker"):
    global events
    calls.append(state)
    if state == "run":
        events = kept[:] = []
    else:
        kept[:], events = events or [], None


def dump(finished=True):
    with open(filename, "w") as file:
        json.dump({"traceEvents": kept, "displayTimeUnit": "ms"}, file, indent=4)


class Domain:
    def __init__(self, name):
        self.name = name


class Task:
    def __init__(self, domain, name):
        self.domain, self.name = domain, name

    def start(self):
        self.began = event("b", self.name, self.domain.name)

    def stop(self):
        if events is not None:
            events.extend([self.began, event("e", self.name, self.domain.name)])
