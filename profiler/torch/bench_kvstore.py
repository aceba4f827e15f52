"""Times what processes on the cores of this machine exchange through MXNet's kvstore, for `dlcal links`.

  bench_kvstore.py --ranks 2,4 --tensors 1605632,2048,1048576,2048,20480,40 --compute-ms 3 -o kvstore.csv
  dlcal links kvstore.csv --costs model.ini -o costs.ini

Writes rows `collective,ranks,bytes,time_us,start`, means over ranks and repetitions of one start of the
processes, as bench_gloo.py does (which says why), of the tensors with the sizes of --tensors and with
half of these:

  pushpull   with a synchronous server (dist_sync), its update included
  roundtrip  with an asynchronous one (dist_async), while 1, ... of --ranks do so, less its update
  update     of SGD with these tensors: what the server does with a gradient

Each kvstore message has a cost of its own, so --tensors should be the program's parameters. The server and
the scheduler are processes beside the workers, on the same cores, as they are in training. A time is what
the exchange adds to steps that compute for --compute-ms, the length of the program's own.
"""

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LOOK_MS = 100      # of computing that is timed at a time
STEPS = (8, 32)    # then, at least and at most
SETTLE_MS = 300    # of computing before anything is timed, as in bench_gloo.py
SETTLE_STEPS = (20, 60)
WARM_STEPS = 2
LEAST_US = 50.0
FRACTIONS = (0.5, 1)  # of the tensors' sizes
STORES = {"dist_sync": "pushpull", "dist_async": "roundtrip"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MXNET_CPU_WORKER_NTHREADS": "1"}
WAIT_S = 0.0002
LIMIT_S = 300


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", default="2", help="numbers of processes, with commas")
    p.add_argument("--tensors", required=True, help="bytes of the parameters' tensors, with commas")
    p.add_argument("--compute-ms", type=float, default=4, help="between two exchanges")
    p.add_argument("--stores", default=",".join(STORES), help="of the kvstore, with commas")
    p.add_argument("--repeats", type=int, default=2, help="of each case in each start")
    p.add_argument("--starts", type=int, default=5, help="of the processes, for each number of them")
    p.add_argument("--seed", type=int, default=1, help="of the order of the cases")
    p.add_argument("--smoke", action="store_true", help="few steps, to see that all works")
    p.add_argument("-o", "--output", default="kvstore.csv")
    p.add_argument("--worker", help=argparse.SUPPRESS)  # folder: this process is a worker
    p.add_argument("--products", type=int, help=argparse.SUPPRESS)
    p.add_argument("--worker-store", help=argparse.SUPPRESS)
    args = p.parse_args()
    args.sizes = [int(size) for size in args.tensors.split(",")]
    args.counts = [int(number) for number in args.ranks.split(",")]
    for store in args.stores.split(","):
        if store not in STORES:
            p.error(f"unknown kvstore '{store}': {', '.join(STORES)}")

    def steps(ms, least, most):
        return min(max(round(ms / args.compute_ms), least), most)

    args.steps, args.settle_steps = steps(LOOK_MS, *STEPS), steps(SETTLE_MS, *SETTLE_STEPS)
    if args.smoke:
        args.steps = args.settle_steps = 3
    return args


class Compute:
    """Products of a batch with matrices of a few MB in all, as in a small network's step."""

    def __init__(self, products=20):
        import mxnet

        self.mx, self.products = mxnet, products
        self.batch = mxnet.nd.ones((64, 512))
        self.matrices = [mxnet.nd.ones((512, 512)) for _ in range(4)]
        self.result = mxnet.nd.zeros((64, 512))

    def __call__(self):
        for i in range(self.products):
            self.mx.nd.dot(self.batch, self.matrices[i % len(self.matrices)], out=self.result)
        self.result.wait_to_read()

    def calibrate(self, seconds):
        """Sets how many products one process alone makes in that time."""
        best = float("inf")
        for _ in range(20):
            start = time.monotonic()
            self()
            best = min(best, time.monotonic() - start)
        self.products = max(1, round(self.products * seconds / best))


class Exchange:
    """Pushes gradients of the sizes and pulls parameters, keys as gluon's Trainer has them."""

    def __init__(self, store, first_key, sizes):
        import mxnet

        self.mx, self.store, self.first = mxnet, store, first_key
        self.values = [mxnet.nd.zeros((max(1, size // 4),)) for size in sizes]
        self.gradients = [mxnet.nd.zeros((max(1, size // 4),)) for size in sizes]
        self.bytes = sum(4 * value.size for value in self.values)
        for i, value in enumerate(self.values):
            store.init(first_key + i, value)

    def __call__(self):
        for i, (gradient, value) in enumerate(zip(self.gradients, self.values)):
            self.store.pushpull(self.first + i, gradient, out=value, priority=-i)
        self.mx.nd.waitall()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_workers(workers, command):
    """The workers' output, rank by rank of starting. Ends the program if one of them fails."""
    common = {**os.environ, **ONE_THREAD, "DMLC_PS_ROOT_URI": "127.0.0.1",
              "DMLC_PS_ROOT_PORT": str(free_port()), "DMLC_NUM_SERVER": "1",
              "DMLC_NUM_WORKER": str(workers), "DMLC_INTERFACE": "lo"}
    others = [subprocess.Popen([sys.executable, "-c", "import mxnet"],
                               env={**common, "DMLC_ROLE": role}) for role in ("scheduler", "server")]
    own = [subprocess.Popen(command, env={**common, "DMLC_ROLE": "worker"}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True) for _ in range(workers)]
    try:
        texts = [worker.communicate(timeout=LIMIT_S)[0] for worker in own]
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)}: not done in {LIMIT_S} s")
    finally:
        for process in own + others:  # who waits for one that has died; the others end by themselves
            try:
                process.wait(timeout=10 if all(w.poll() == 0 for w in own) else 0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if any(worker.returncode for worker in own):
        sys.exit(f"{' '.join(command)}: a worker failed\n" + "\n".join(texts))
    return texts


def step_s(step, steps):
    start = time.monotonic()
    for _ in range(steps):
        step()
    return (time.monotonic() - start) / steps


class Meeting:
    """Where the workers of one start meet: files in a folder, so that nothing of what is measured is
    used for it."""

    def __init__(self, folder, rank, ranks):
        self.folder, self.rank, self.ranks, self.number = folder, rank, ranks, 0

    def path(self, what, rank):
        return os.path.join(self.folder, f"{what}{self.number}.{rank}")

    def wait(self):
        """Until all have come."""
        self.number += 1
        open(self.path("met", self.rank), "w", encoding="ascii").close()
        for rank in range(self.ranks):
            while not os.path.exists(self.path("met", rank)):
                time.sleep(WAIT_S)

    def step_s(self, step, steps):
        """Seconds of a step, of this process, all of which start together."""
        self.wait()
        return step_s(step, steps)

    def free_step_s(self, step, steps):
        """The same of processes that do not wait for one another, until the first has made its steps:
        the others would have the cores to themselves for their last ones."""
        self.wait()
        ended, done, start = self.path("ended", 0), 0, time.monotonic()
        while done < steps and not os.path.exists(ended):
            step()
            done += 1
        seconds = (time.monotonic() - start) / done
        open(ended, "w", encoding="ascii").close()
        self.wait()
        return seconds


def exchanges_of(store, args):
    made = []
    for fraction in FRACTIONS:
        made.append(Exchange(store, 1000 * len(made), [int(fraction * s) for s in args.sizes]))
    return made


def update_s(args, exchange):
    """Seconds of an update of the exchange's tensors, as the server makes it."""
    import mxnet

    updater = mxnet.optimizer.get_updater(mxnet.optimizer.create("sgd", learning_rate=0.01))

    def update():
        for i, (gradient, value) in enumerate(zip(exchange.gradients, exchange.values)):
            updater(i, gradient, value)
        mxnet.nd.waitall()

    step_s(update, WARM_STEPS)
    return statistics.median(step_s(update, 1) for _ in range(args.steps))


def work(args):
    """One worker's rows: `kind bytes seconds`, a line each, in a file of the folder."""
    import mxnet

    store = mxnet.kv.create(args.worker_store)
    store.set_optimizer(mxnet.optimizer.create("sgd", learning_rate=0.01))
    meeting = Meeting(args.worker, store.rank, store.num_workers)
    compute, kind, chance = Compute(args.products), STORES[args.worker_store], random.Random(args.seed)
    exchanges, times = exchanges_of(store, args), []
    free = kind == "roundtrip"
    timed = meeting.free_step_s if free else meeting.step_s
    meeting.step_s(lambda: (compute(), exchanges[-1]()), args.settle_steps)
    for exchange in exchanges:
        meeting.step_s(lambda e=exchange: (compute(), e()), WARM_STEPS)
    for _ in range(args.repeats):
        for exchange in chance.sample(exchanges, len(exchanges)):
            cases = {"alone": compute, "added": lambda e=exchange: (compute(), e())}
            seconds = {}
            for case in chance.sample(sorted(cases), len(cases)):
                seconds[case] = timed(cases[case], args.steps)
            times.append((kind, exchange.bytes, seconds["added"] - seconds["alone"]))
    if free:
        updates = {}
        if store.num_workers == 1:
            updates = {e.bytes: update_s(args, e) for e in exchanges}
            times += [("update", *of) for of in updates.items()]
    with open(os.path.join(args.worker, f"rows{store.rank}"), "w", encoding="ascii") as file:
        file.writelines(f"{kind} {size} {seconds!r}\n" for kind, size, seconds in times)
    store._barrier()


def rows_of(args, store, workers, start):
    """Rows of one start."""
    with tempfile.TemporaryDirectory() as folder:
        run_workers(workers, [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--worker",
                             folder, "--worker-store", store, "--products", str(args.products), "--seed",
                             str(args.seed)])
        times = {}
        for rank in range(workers):
            with open(os.path.join(folder, f"rows{rank}"), encoding="ascii") as file:
                for line in file:
                    kind, size, seconds = line.split()
                    times.setdefault((kind, int(size)), []).append(float(seconds))
    return [(kind, workers, size, 1e6 * statistics.mean(seconds), start)
            for (kind, size), seconds in sorted(times.items())]


def without_updates(rows):
    """The server's update is a cost of its own: of a round trip only the rest counts."""
    update = {(size, start): us for kind, _, size, us, start in rows if kind == "update"}
    return [(kind, ranks, size, us - update.get((size, start), 0) * (kind == "roundtrip"), start)
            for kind, ranks, size, us, start in rows]


def products_in(args):
    """How many one process alone makes in the time: not this one, which has not loaded MXNet."""
    code = ("import sys; sys.path.insert(0, %r); import bench_kvstore as b; c = b.Compute(); "
            "c.calibrate(%r); print(c.products)" % (os.path.dirname(os.path.abspath(__file__)),
                                                    1e-3 * args.compute_ms))
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, **ONE_THREAD})
    return int(done.stdout)


def main():
    args, rows = arguments(), []
    if args.worker is not None:
        work(args)
        return 0
    args.products = products_in(args)
    for start in range(1, args.starts + 1):
        for store in args.stores.split(","):
            alone = {1} if STORES[store] == "roundtrip" else set()
            for workers in sorted(alone | set(args.counts)):
                rows += rows_of(args, store, workers, start)
        args.seed += 1
    with open(args.output, "w", encoding="ascii") as out:
        out.write("collective,ranks,bytes,time_us,start\n")
        for name, ranks, size, us, start in without_updates(rows):
            out.write(f"{name},{ranks},{size},{max(us, LEAST_US):.3f},{start}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
