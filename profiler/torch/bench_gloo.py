"""Measures exchanges between processes on the cores of this machine, for `dlcal links`.

  bench_gloo.py --ranks 2,4 -o gloo.csv          # gloo's all-reduces, calls of a server by RPC
  dlcal links gloo.csv --costs model.ini -o costs.ini

Writes rows `collective,ranks,bytes,time_us,start`, means over ranks and repetitions of one start of
the processes. The system's placement of threads differs between starts, by more than repetitions of
one start show, so dlcal links takes the uncertainty of a time from the spread over starts.

A time is the time that an exchange adds to a step: processes repeat a computation of --compute-ms and
an exchange, and before or after that the computation alone; the difference includes the processor
time of the exchange's threads and all waits for a core. It grows with the computation: after an
exchange two processes may share a core until the system migrates one. So set --compute-ms to the
computation of the modelled program between two exchanges: one step, or the steps between two
averages.

  allreduce         one all-reduce after the computation
  allreduce_pair    two concurrent all-reduces, each of half the bytes
  allreduce_beside  one all-reduce that overlaps the computation and is waited for at its end
  allreduce_late    one all-reduce after a computation that takes 50 % longer on one of the ranks, for
                    which the others wait: compared with the same computation and a barrier
  broadcast         one broadcast from rank 0 before the computation, with a small all-reduce after it
  roundtrip         an RPC to a parameter server that sends gradients of that size and receives as many
                    parameters, by one caller and each number in --ranks, less the update below
  update            the server's arithmetic for one caller. With several callers it takes longer, as
                    they share the cores: that is part of their round trips

RPC's threads poll and take processor time even while nothing is sent, so round trips are compared
with the computation before RPC is started.

There may be more ranks than cores. Cases run in a new random order in every repetition, so that
drift of the machine's speed affects all equally.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

LOOK_MS = 80     # computation between two readings of the clock
STEPS = (8, 24)  # minimum and maximum steps between them
# Steps take up to a third longer until the system has placed the threads of new processes (those of
# RPC poll), and after all processes have waited. So SETTLE_MS of computation, but a number of steps
# within SETTLE_STEPS, precede the first timed step; with RPC, the first timed step of each case.
SETTLE_MS = 300
SETTLE_STEPS = (20, 60)
RPC_STEPS = 2    # timed steps with RPC, as a multiple of the settling steps: calls vary more
WARM_STEPS = 2   # untimed steps before each case
LATE = 1.5       # computation of the late rank, relative to the others
LEAST_US = 50.0  # smaller mean times are noise, and written as this
BROADCASTS = (1024, 262144)  # bytes; broadcast buffers of models are small
SMALL = 16384   # bytes of the all-reduce that synchronises the ranks


def steps_in(ms, args, least, most):
    return min(max(round(ms / args.compute_ms), least), most)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", default="2", help="numbers of processes, with commas")
    p.add_argument("--sizes", default="65536,1048576,4194304", help="bytes, with commas")
    p.add_argument("--compute-ms", type=float, default=4, help="between two exchanges")
    p.add_argument("--repeats", type=int, default=2, help="of each case in each start")
    p.add_argument("--starts", type=int, default=5,
                   help="of the processes, for each number of them")
    p.add_argument("--seed", type=int, default=1, help="of the order of the cases")
    p.add_argument("--exchange", choices=["gloo", "average", "rpc", "both"],
                   default="both", help="average: the all-reduces alone")
    p.add_argument("--smoke", action="store_true", help="few steps, to see that all works")
    p.add_argument("-o", "--output", default="gloo.csv")
    args = p.parse_args()
    args.sizes = [int(size) for size in args.sizes.split(",")]
    args.counts = [int(number) for number in args.ranks.split(",")]
    args.steps = steps_in(LOOK_MS, args, *STEPS)
    args.settle_steps = steps_in(SETTLE_MS, args, *SETTLE_STEPS)
    if args.smoke:
        args.steps = args.settle_steps = 3
    return args


class Compute:
    """Products of a batch with matrices of 4 MB in total, as in a small network's step."""

    def __init__(self, products=0):
        self.batch = torch.ones(64, 512)
        self.matrices = [torch.ones(512, 512) for _ in range(4)]
        self.products = products

    def __call__(self, times=1):
        for i in range(round(times * self.products)):
            torch.mm(self.batch, self.matrices[i % len(self.matrices)])

    def calibrate(self, seconds):
        """Sets `products` to the number that one process alone computes in `seconds`."""
        self.products, best = 20, float("inf")
        for _ in range(20):
            start = time.monotonic()
            self()
            best = min(best, time.monotonic() - start)
        self.products = max(1, round(self.products * seconds / best))


def step_s(barrier, step, steps):
    """Seconds per step of this process; all processes start together."""
    barrier.wait()
    start = time.monotonic()
    for _ in range(steps):
        step()
    return (time.monotonic() - start) / steps


def free_step_s(barrier, ended, step, steps):
    """As step_s, for processes that do not wait for each other. All stop when the first has finished
    its steps, as the last steps of the others would have the cores to themselves."""
    barrier.wait()
    done, start = 0, time.monotonic()
    while done < steps and not ended.value:
        step()
        done += 1
    seconds = (time.monotonic() - start) / done
    ended.value = 1
    barrier.wait()
    ended.value = 0
    return seconds


def reduce_pair(halves):
    calls = [dist.all_reduce(half, async_op=True) for half in halves]
    for call in calls:
        call.wait()


def reduce_beside(buffer, compute):
    call = dist.all_reduce(buffer, async_op=True)
    compute()
    call.wait()


def broadcast_before(buffer, small, compute):
    dist.broadcast(buffer, 0)
    compute()
    dist.all_reduce(small)


def reduce_after(buffer, compute):
    compute()
    dist.all_reduce(buffer)


def exchanging_steps(sizes, compute, barrier, is_late, averages_only):
    """Groups of steps, each {(kind, bytes): step}; the key None is the step without the exchange."""
    small = torch.zeros(SMALL // 4)
    late = {None: lambda: (compute(LATE if is_late() else 1), barrier.wait())}
    groups = []
    for size in sizes:
        buffer = torch.zeros(size // 4).fill_(0.0)  # written: has pages of its own
        halves = buffer.chunk(2)
        groups.append({
            None: compute,
            ("allreduce", size): lambda b=buffer: reduce_after(b, compute)})
        if not averages_only:
            groups[-1]["allreduce_pair", size] = lambda h=halves: (compute(), reduce_pair(h))
            groups[-1]["allreduce_beside", size] = lambda b=buffer: reduce_beside(b, compute)
        late["allreduce_late", size] = lambda b=buffer: (
            compute(LATE if is_late() else 1), dist.all_reduce(b))
    if averages_only:
        return groups
    groups.append(late)
    groups.append({None: lambda: reduce_after(small, compute)})
    for size in BROADCASTS:
        buffer = torch.zeros(size // 4).fill_(0.0)
        groups[-1]["broadcast", size] = lambda b=buffer: broadcast_before(b, small, compute)
    return groups


def reduce_rank(rank, ranks, args, meeting, results, barrier, _):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    chance, times, repeat = random.Random(args.seed), [], 0  # the same in all ranks
    groups = exchanging_steps(args.sizes, Compute(args.products), barrier,
                              lambda: rank == repeat % ranks, args.exchange == "average")
    step_s(barrier, groups[0]["allreduce", args.sizes[0]], args.settle_steps)
    for group in groups:
        for step in group.values():
            step_s(barrier, step, WARM_STEPS)
    for repeat in range(args.repeats):
        for group in chance.sample(groups, len(groups)):
            seconds = {}
            for case in chance.sample(list(group), len(group)):
                seconds[case] = step_s(barrier, group[case], args.steps)
            alone = seconds.pop(None)
            times += [(*case, taken - alone) for case, taken in seconds.items()]
    results.put(times)
    dist.destroy_process_group()


parameters = {}  # the server's, by number of elements


def serve(gradients):
    """Updates the server's parameters; returns a copy of them, and the seconds taken."""
    own = parameters.setdefault(gradients.numel(), torch.zeros_like(gradients))
    start = time.monotonic()
    own.add_(gradients, alpha=-0.01)
    copy = own.clone()
    return copy, time.monotonic() - start


class Caller:
    """Sends gradients to the server and copies the parameters that it returns."""

    def __init__(self, size):
        self.gradients = torch.zeros(size // 4).fill_(0.0)  # written: has pages of its own
        self.values = torch.zeros(size // 4)
        self.update_s, self.calls = 0.0, 0

    def __call__(self):
        values, seconds = rpc.rpc_sync("server", serve, args=(self.gradients,))
        self.values.copy_(values)
        self.update_s += seconds
        self.calls += 1


def rpc_rank(rank, ranks, args, meeting, results, barrier, ended):
    """Runs one rank; the last rank is the server, the others are callers."""
    torch.set_num_threads(1)
    callers, compute, steps, alone = ranks - 1, Compute(args.products), args.settle_steps, []
    if rank < callers:
        free_step_s(barrier, ended, compute, steps)
        alone = [free_step_s(barrier, ended, compute, steps) for _ in range(args.repeats)]
    rpc.init_rpc("server" if rank == callers else f"caller{rank}", rank=rank, world_size=ranks,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     num_worker_threads=8, init_method=meeting))
    if rank < callers:
        times, short = [], statistics.mean(alone)
        exchanges = {size: Caller(size) for size in args.sizes}
        chance = random.Random(args.seed)  # the same in all callers
        for _ in range(args.repeats):
            for size in chance.sample(args.sizes, len(args.sizes)):
                caller = exchanges[size]
                step = lambda: (compute(), caller())
                free_step_s(barrier, ended, step, steps)
                caller.update_s, caller.calls = 0.0, 0
                added = free_step_s(barrier, ended, step, RPC_STEPS * steps) - short
                times.append(("roundtrip", size, added))
                if callers == 1:
                    times.append(("update", size, caller.update_s / caller.calls))
        results.put(times)
    rpc.shutdown()


def calibrate(milliseconds, results):
    torch.set_num_threads(1)
    compute = Compute()
    compute.calibrate(1e-3 * milliseconds)
    results.put(compute.products)


def products_in(milliseconds):
    """Products that one process alone computes in `milliseconds`. Measured in a child, as this
    process must have no threads when it forks."""
    context = mp.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=calibrate, args=(milliseconds, results))
    process.start()
    products = results.get()
    process.join()
    return products


def run(target, ranks, reporting, args, start):
    """Runs `target` in `ranks` processes. Returns rows of mean times, over the repetitions and the
    `reporting` processes that measure."""
    context = mp.get_context("fork")  # this process has no threads
    results, barrier = context.SimpleQueue(), context.Barrier(reporting)
    ended = context.Value("b", 0, lock=False)
    times, heard = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        meeting = "file://" + os.path.join(folder, "meeting")
        processes = [context.Process(target=target, args=(r, ranks, args, meeting, results,
                                                          barrier, ended))
                     for r in range(ranks)]
        for p in processes:
            p.start()
        try:
            # Before joining: a process whose results exceed the pipe's capacity cannot end before.
            while heard < reporting:
                ended = not any(p.is_alive() for p in processes)
                if not results.empty():
                    for kind, size, seconds in results.get():
                        times.setdefault((kind, size), []).append(seconds)
                    heard += 1
                    continue
                if ended or any(p.exitcode for p in processes):
                    sys.exit(f"bench_gloo: a process of {ranks} failed")
                time.sleep(0.01)
            while any(p.is_alive() for p in processes) and not any(p.exitcode for p in processes):
                time.sleep(0.01)
            if any(p.exitcode for p in processes):
                sys.exit(f"bench_gloo: a process of {ranks} failed")
        finally:
            for p in processes:  # some may wait for a process that died
                p.kill()
    return [(kind, reporting, size, 1e6 * statistics.mean(seconds), start)
            for (kind, size), seconds in sorted(times.items())]


def without_updates(rows):
    """Subtracts the server's update (of one caller), which is a separate cost, from round trips."""
    update = {(size, start): us for kind, _, size, us, start in rows if kind == "update"}
    return [(kind, ranks, size, us - update.get((size, start), 0) * (kind == "roundtrip"), start)
            for kind, ranks, size, us, start in rows]


def show(start, args, began):
    """Prints progress on a terminal, with the remaining time once the first start has ended."""
    if not sys.stderr.isatty():
        return
    text = f"bench_gloo: start {start} of {args.starts}" if start <= args.starts else ""
    if 1 < start <= args.starts:
        each_s = (time.monotonic() - began) / (start - 1)
        text += f", about {each_s * (args.starts - start + 1):.0f} s left"
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main():
    # init_rpc calls deprecated functions of PyTorch.
    warnings.filterwarnings("ignore", "You are using a Backend", UserWarning)
    args, rows, began = arguments(), [], time.monotonic()
    args.products = products_in(args.compute_ms)
    for start in range(1, args.starts + 1):
        show(start, args, began)
        for ranks in args.counts if args.exchange != "rpc" else []:
            rows += run(reduce_rank, ranks, ranks, args, start)
        for callers in sorted({1, *args.counts}) if args.exchange in ("rpc", "both") else []:
            rows += run(rpc_rank, callers + 1, callers, args, start)
        args.seed += 1
    show(args.starts + 1, args, began)
    with open(args.output, "w", encoding="ascii") as out:
        out.write("collective,ranks,bytes,time_us,start\n")
        for name, ranks, size, us, start in without_updates(rows):
            out.write(f"{name},{ranks},{size},{max(us, LEAST_US):.3f},{start}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
