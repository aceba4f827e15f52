"""Times what processes on the cores of this machine exchange, for `dlcal links`.

  bench_gloo.py --ranks 2,4 -o gloo.csv          # gloo's all-reduces, round trips by RPC
  dlcal links gloo.csv --costs model.ini -o costs.ini

Writes rows `collective,ranks,bytes,time_us`, each the mean of a few calls: all-reduces from a
barrier to the end of the slowest rank; as `roundtrip`, a call of a worker that sends these bytes to
a server and gets the same number back, while 1, ... of --ranks workers do so, each of which computes
for some milliseconds between two calls; as `update`, a server's own arithmetic on them. More ranks
than cores are fine. Sizes come in a new random order in every repetition, so that a drift of the
machine touches all alike.
"""

import argparse
import os
import random
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

WARMUP = 2
CALLS = 8 # of which a row has the mean
COMPUTE_S = 0.004 # between two calls of a server; about a step of the smallest model


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", default="2", help="numbers of processes, with commas")
    p.add_argument("--sizes", default="1024,65536,262144,1048576,4194304,16777216",
                   help="bytes, with commas")
    p.add_argument("--repeats", type=int, default=9)
    p.add_argument("--no-rpc", action="store_true", help="only all-reduces")
    p.add_argument("-o", "--output", default="gloo.csv")
    return p.parse_args()


def orders(sizes, repeats, seed):
    """The sizes of every repetition, each in an order of its own; the same in all ranks."""
    chance = random.Random(seed)
    for _ in range(repeats):
        yield chance.sample(sizes, len(sizes))


def reduce_rank(rank, ranks, args, meeting, results, _barrier):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    buffers = {size: torch.ones(size // 4) for size in args.sizes}
    rows = []
    for repeat, order in enumerate(orders(args.sizes, args.repeats + WARMUP, ranks)):
        for size in order:
            times = torch.zeros(CALLS)
            for call in range(CALLS):
                buffers[size].fill_(1.0)
                dist.barrier()
                start = time.monotonic()
                dist.all_reduce(buffers[size])
                times[call] = time.monotonic() - start
            dist.all_reduce(times, dist.ReduceOp.MAX)
            if repeat >= WARMUP:
                rows.append(("allreduce", ranks, size, 1e6 * times.mean().item()))
    if rank == 0:
        results.put(rows)
    dist.destroy_process_group()


def echo(values):
    return values


def apply(values):
    """What a parameter server does with a gradient."""
    target = torch.ones_like(values)
    start = time.monotonic()
    target.add_(values, alpha=-0.01)
    copy = target.clone()
    return time.monotonic() - start, copy.numel()


def multiply(matrix, count):
    for _ in range(count):
        torch.mm(matrix, matrix)


def count_products(matrix):
    """How many products of the matrix take COMPUTE_S."""
    multiply(matrix, 10)
    best = float("inf")
    for _ in range(10):
        start = time.monotonic()
        multiply(matrix, 10)
        best = min(best, time.monotonic() - start)
    return max(1, round(10 * COMPUTE_S / best))


def call_server(buffer, matrix, products):
    """Mean time of a call between computations."""
    spent = 0.0
    for _ in range(CALLS):
        multiply(matrix, products)
        start = time.monotonic()
        rpc.rpc_sync("server", echo, args=(buffer,))
        spent += time.monotonic() - start
    return spent / CALLS


def rpc_rank(rank, ranks, args, meeting, results, barrier):
    """The last rank is the server."""
    torch.set_num_threads(1)
    callers = ranks - 1
    rpc.init_rpc("server" if rank == callers else f"caller{rank}", rank=rank, world_size=ranks,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     num_worker_threads=8, init_method=meeting))
    if rank < callers:
        rows = []
        matrix = torch.ones(256, 256)
        products = count_products(matrix)
        buffers = {size: torch.ones(size // 4) for size in args.sizes}
        for repeat, order in enumerate(orders(args.sizes, args.repeats + WARMUP, callers)):
            for size in order:
                barrier.wait()
                time_s = call_server(buffers[size], matrix, products)
                if repeat >= WARMUP:
                    rows.append(("roundtrip", callers, size, 1e6 * time_s))
                if callers == 1:
                    update, _ = rpc.rpc_sync("server", apply, args=(buffers[size],))
                    if repeat >= WARMUP:
                        rows.append(("update", 1, size, 1e6 * update))
        results.put(rows)
    rpc.shutdown()


def run(target, ranks, reporting, args):
    """Rows of the `reporting` processes that have some."""
    context = mp.get_context("spawn")
    results, barrier = context.SimpleQueue(), context.Barrier(reporting)
    rows, heard = [], 0
    with tempfile.TemporaryDirectory() as folder:
        meeting = "file://" + os.path.join(folder, "meeting")
        processes = [context.Process(target=target, args=(r, ranks, args, meeting, results, barrier))
                     for r in range(ranks)]
        for p in processes:
            p.start()
        try:
            # Before they are joined: who puts more than a pipe holds ends when it has been taken.
            while heard < reporting:
                ended = not any(p.is_alive() for p in processes)
                if not results.empty():
                    rows += results.get()
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
            for p in processes:  # who waits for one that has died
                p.kill()
    return rows


def main():
    args = arguments()
    args.sizes = [int(size) for size in args.sizes.split(",")]
    rows = []
    counts = [int(number) for number in args.ranks.split(",")]
    for ranks in counts:
        rows += run(reduce_rank, ranks, 1, args)
    for callers in sorted({1, *counts} if not args.no_rpc else ()):
        rows += run(rpc_rank, callers + 1, callers, args)
    with open(args.output, "w", encoding="ascii") as out:
        out.write("collective,ranks,bytes,time_us\n")
        for name, ranks, size, us in rows:
            out.write(f"{name},{ranks},{size},{us:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
