"""Predicts the training of MXNet on 2 and 4 processes with a kvstore's server from runs of one process
and from benchmarks, runs it, and compares: run.py with MXNet. Called by ./check --clients.

  run_mxnet.py --bin build/release/bin --output out/mxnet [--models mlp,lenet] [--seconds 420]
  run_mxnet.py --bin build/release/bin --smoke

One process' traces come from dlprof run, which finds the steps of train_mxnet.py; its update is left out
of what is predicted, as the server makes it (part of [pushpull N], beside [roundtrip N] as [update]).
"""

import glob
import os
import re
import shutil
import sys

import run

MODELS = {"mlp": (64, 16, 20, 300), "lenet": (32, 8, 4, 80)}
MODES = {
    "dist_sync": ("dist_sync", "ps", 1, "none", "dist_sync"),
    "dist_async": ("dist_async", "async", 1, "none", "dist_async"),
}
BENCH_KVSTORE = os.path.join(os.path.dirname(run.BENCH_GLOO), "bench_kvstore.py")
RECORDED_STEPS = 60  # dlprof run takes 35 of them
ABSENT = ("--mode", "--interval")  # options of train.py; a mode is a kvstore here


class MxnetClients(run.Clients):
    def __init__(self, args):
        super().__init__(args, None)
        self.tensors = {}  # model: bytes of its parameters

    def train(self, model, *options):
        words = [os.path.join(run.HERE, "train_mxnet.py"), "--model", model]
        for name, value in zip(options[::2], options[1::2]):
            if name == "--mode":
                name = "--kvstore"
            if name not in ABSENT:
                words += [name, str(value)]
        return [sys.executable, *words]

    def record(self):
        for model in self.args.models:
            for size, path in self.traces(model, "none"):
                folder = self.path("profile")
                shutil.rmtree(folder, ignore_errors=True)
                text = run.call([self.tool("dlprof"), "run", "-o", folder, "--"] + self.train(
                    model, "--batch", size, "--steps", RECORDED_STEPS))
                self.tensors[model] = re.search(r"^tensors (\S+)$", text, re.M).group(1)
                (trace,) = glob.glob(os.path.join(folder, "*.json.gz"))
                os.replace(trace, path)

    def traces(self, model, mode):
        return [(size, path.replace(".json", ".json.gz"))
                for size, path in super().traces(model, mode)]

    def find_compute_ms(self, model, mode):
        """Of a step without its update, which is the server's."""
        step_ms = super().find_compute_ms(model, mode)
        size, trace = self.traces(model, mode)[0]
        text = run.call([self.tool("dlcal"), "costs", trace, "--batch", str(size), "-o",
                         self.path("step.ini")])
        update = re.search(r"^ +update .* ([0-9.]+) %$", text, re.M)
        return step_ms * (1 - float(update.group(1)) / 100)

    def bench_command(self, number, model, mode, path):
        return [sys.executable, BENCH_KVSTORE, "--ranks",
                ",".join(map(str, self.args.ranks)), "--stores", MODES[mode][4], "--tensors",
                self.tensors[model], "--starts", "1", "--repeats", "3", "--seed", str(1 + number),
                "--compute-ms", f"{self.between_ms(model, mode):.1f}", "-o", path]


def main():
    run.MODELS, run.MODES, run.__doc__ = MODELS, MODES, __doc__
    args = run.arguments(seconds=420)
    run.take_rounds(MxnetClients(args), args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
