"""Times what processes on the cores of this machine exchange, for `dlcal links`.

  bench_gloo.py --ranks 2,4 -o gloo.csv          # gloo's all-reduces, round trips by RPC
  dlcal links gloo.csv --costs model.ini -o costs.ini

Writes a row per call, `collective,ranks,bytes,time_us`: all-reduces from a barrier to the end of the
slowest rank; as `roundtrip`, a call of a worker that sends these bytes to another process and gets
the same number back; as `update`, that process' own arithmetic on them. More ranks than cores are fine.
Sizes come in a new random order in every repetition, so that a drift of the machine touches all
alike.
"""

import argparse
import os
import random
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WARMUP = 2


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


def reduce_rank(rank, ranks, args, meeting, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=ranks)
    buffers = {size: torch.ones(size // 4) for size in args.sizes}
    rows = []
    for repeat, order in enumerate(orders(args.sizes, args.repeats + WARMUP, ranks)):
        for size in order:
            buffers[size].fill_(1.0)
            dist.barrier()
            start = time.monotonic()
            dist.all_reduce(buffers[size])
            mine = torch.tensor([time.monotonic() - start])
            dist.all_reduce(mine, dist.ReduceOp.MAX)
            if repeat >= WARMUP:
                rows.append(("allreduce", ranks, size, 1e6 * mine.item()))
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


def rpc_rank(rank, _ranks, args, meeting, results):
    torch.set_num_threads(1)
    import torch.distributed.rpc as rpc
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=2,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=meeting))
    rows = []
    if rank == 0:
        buffers = {size: torch.ones(size // 4) for size in args.sizes}
        for repeat, order in enumerate(orders(args.sizes, args.repeats + WARMUP, 0)):
            for size in order:
                start = time.monotonic()
                rpc.rpc_sync("rank1", echo, args=(buffers[size],))
                whole = time.monotonic() - start
                update, _ = rpc.rpc_sync("rank1", apply, args=(buffers[size],))
                if repeat >= WARMUP:
                    rows.append(("roundtrip", 2, size, 1e6 * whole))
                    rows.append(("update", 1, size, 1e6 * update))
        results.put(rows)
    rpc.shutdown()


def run(target, ranks, args):
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = "file://" + os.path.join(folder, "meeting")
        processes = [context.Process(target=target, args=(r, ranks, args, meeting, results))
                     for r in range(ranks)]
        for p in processes:
            p.start()
        try:
            # Before they are joined: who puts more than a pipe holds ends when it has been taken.
            while True:
                ended = not any(p.is_alive() for p in processes)
                if not results.empty():
                    break
                if ended or any(p.exitcode for p in processes):
                    sys.exit(f"bench_gloo: a process of {ranks} failed")
                time.sleep(0.01)
            rows = results.get()
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
    for ranks in (int(number) for number in args.ranks.split(",")):
        rows += run(reduce_rank, ranks, args)
    if not args.no_rpc:
        rows += run(rpc_rank, 2, args)
    with open(args.output, "w", encoding="ascii") as out:
        out.write("collective,ranks,bytes,time_us\n")
        for name, ranks, size, us in rows:
            out.write(f"{name},{ranks},{size},{us:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
