"""Trains a small model with MXNet's gluon on the cores of this machine, as users write it.

  train_mxnet.py --model lenet --batch 32 --steps 200                       # one process
  train_mxnet.py --model mlp --kvstore dist_sync --workers 2 --steps 300    # and a server, a scheduler

Prints a line every --log steps, and at the end "samples_per_s VALUE" and "tensors BYTES,...", those of the
parameters. With several workers a process is a worker where DMLC_ROLE says so, else it starts them;
nobody starts a step of a dist_async run after the first worker has done all of its steps.
"""

import argparse
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "profiler", "torch"))
import bench_kvstore

SHAPES = {"mlp": (1, 28, 28), "lenet": (1, 28, 28)}
RATE = 0.01


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", choices=sorted(SHAPES), default="mlp")
    p.add_argument("--kvstore", choices=["none", "local", "device", "dist_sync", "dist_async"],
                   default="none")
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--batch", type=int, default=32, help="samples of a step of one worker")
    p.add_argument("--batches", type=int, default=4, help="that are trained in turn")
    p.add_argument("--steps", type=int, default=100, help="of a worker, after --warmup")
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--log", type=int, default=0, help="print a line every so many steps; 0: none")
    p.add_argument("--hybridize", action="store_true")
    p.add_argument("--folder", help=argparse.SUPPRESS)  # where the workers meet
    return p.parse_args()


def make_net(model):
    from mxnet.gluon import nn

    net = nn.HybridSequential()
    if model == "mlp":
        net.add(nn.Dense(512, activation="relu"), nn.Dense(512, activation="relu"), nn.Dense(10))
    else:
        net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2),
                nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Flatten(),
                nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


class Worker:
    def __init__(self, args):
        import mxnet
        from mxnet import gluon

        self.mx, self.args = mxnet, args
        mxnet.random.seed(1)
        self.store = mxnet.kv.create(args.kvstore) if args.kvstore != "none" else None
        self.net = make_net(args.model)
        self.net.initialize(mxnet.init.Xavier())
        if args.hybridize:
            self.net.hybridize()
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        shape = (args.batch, *SHAPES[args.model])
        self.batches = [(mxnet.nd.random.normal(shape=shape),
                         mxnet.nd.array([i % 10 for i in range(args.batch)]))
                        for _ in range(args.batches)]
        self.net(self.batches[0][0])  # makes the parameters
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": RATE},
                                     kvstore=self.store)
        self.number = 0

    def step(self):
        samples, labels = self.batches[self.number % len(self.batches)]
        self.number += 1
        with self.mx.autograd.record():
            loss = self.loss(self.net(samples), labels)
        loss.backward()
        self.trainer.step(samples.shape[0])
        if self.args.log and self.number % self.args.log == 0:
            print(f"step {self.number}", flush=True)
        return loss.mean().asscalar()  # as a metric does

    def run(self, steps):
        for _ in range(steps):
            self.step()
        self.mx.nd.waitall()

    def tensors(self):
        return [4 * p.data().size for p in self.net.collect_params().values()]


def train(args):
    worker = Worker(args)
    worker.run(args.warmup)
    if not args.kvstore.startswith("dist"):
        start = time.monotonic()
        worker.run(args.steps)
        seconds, done = time.monotonic() - start, args.steps
        print(f"samples_per_s {done * args.batch / seconds:.6g}")
    else:
        meeting = bench_kvstore.Meeting(args.folder, worker.store.rank, worker.store.num_workers)
        meeting.wait()
        ended, done, start = os.path.join(args.folder, "ended"), 0, time.monotonic()
        free = args.kvstore == "dist_async"
        while done < args.steps and not (free and os.path.exists(ended)):
            worker.step()
            done += 1
        worker.mx.nd.waitall()
        end = time.monotonic()
        open(ended, "w", encoding="ascii").close()
        with open(os.path.join(args.folder, f"done{worker.store.rank}"), "w",
                  encoding="ascii") as file:
            file.write(f"{done} {start!r} {end!r}")
        meeting.wait()
    if args.folder is None or worker.store.rank == 0:
        print("tensors " + ",".join(map(str, worker.tensors())))


def train_together(args):
    """Starts the workers; the throughput of all together, on the clock that they share."""
    with tempfile.TemporaryDirectory() as folder:
        text = bench_kvstore.run_workers(args.workers, [sys.executable, os.path.abspath(__file__), *sys.argv[1:],
                                         "--folder", folder])
        done = []
        for rank in range(args.workers):
            with open(os.path.join(folder, f"done{rank}"), encoding="ascii") as file:
                done.append([float(word) for word in file.read().split()])
    seconds = max(end for _, _, end in done) - min(start for _, start, _ in done)
    print(f"samples_per_s {sum(steps for steps, _, _ in done) * args.batch / seconds:.6g}")
    print("".join(text), end="")
    print(f"processor_s {sum(os.times()[:4]):.3f}")  # with all that have ended


def main():
    args = arguments()
    if args.kvstore.startswith("dist") and args.folder is None:
        train_together(args)
    else:
        os.environ.update(bench_kvstore.ONE_THREAD)
        train(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
