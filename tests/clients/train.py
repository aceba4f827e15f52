"""Trains a small model on the cores of this machine, with one or several processes.

  train.py --model cnn --mode ddp --workers 2 --batch 32 --steps 200

Modes: none (independent copies), ddp (DistributedDataParallel over gloo), localsgd (parameters
averaged every --interval steps), async (a parameter server by RPC), gradients (the compute part of an
async worker: copies without exchange and without optimizer). Prints a line every --log steps and
at the end "samples_per_s VALUE", counted from the common start to the end of the last worker's last
step; no worker starts a step after the first worker has completed all of its steps. async also prints
"staleness_mean VALUE": updates between a gradient's parameters and its own application.

With --loaders N (for the model cnn) a DataLoader with N processes reads and decodes images of --side
x --side pixels from files, at --storage-bytes-per-s for all processes together; without it, a few
batches in memory are used in turn.

--trace FILE records steps of rank 0 with torch.profiler.
"""

import argparse
import itertools
import multiprocessing.connection
import os
import sys
import tempfile
import threading
import time

import torch
import torch._dynamo  # otherwise each process imports it for its optimizer, which takes a second
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import images
import models

RATE = 0.01
FLAT = ("localsgd", "async", "gradients")  # modes with all parameters in one tensor
ALONE = ("none", "gradients")              # modes without exchange between processes


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", choices=sorted(models.MODELS), default="mlp")
    p.add_argument("--mode", choices=["none", "ddp", "localsgd", "async", "gradients"],
                   default="none")
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--batch", type=int, default=32, help="samples of a step of one worker")
    p.add_argument("--batches", type=int, default=4, help="that are trained in turn")
    p.add_argument("--steps", type=int, default=100, help="of a worker, after --warmup")
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--interval", type=int, default=10, help="steps between two averages")
    p.add_argument("--log", type=int, default=0, help="print a line every so many steps; 0: none")
    p.add_argument("--repeats", type=int, default=1, help="measured runs, a line each")
    p.add_argument("--loaders", type=int, help="processes of each worker's data loader; 0: its own")
    p.add_argument("--side", type=int, default=64, help="pixels of a stored image's side")
    p.add_argument("--storage-bytes-per-s", type=float, default=0, help="0: no limit")
    p.add_argument("--trace", help="file for a trace of rank 0")
    p.add_argument("--trace-steps", type=int, default=6)
    p.add_argument("--shapes", action="store_true", help="record shapes in the trace")
    args = p.parse_args()
    if args.loaders is not None and (args.model != "cnn" or args.side < images.SIDE):
        p.error(f"--loaders needs --model cnn and images of {images.SIDE} pixels at least")
    return args


class Flat:
    """A model with all parameters contiguous in one tensor, and all gradients in another."""

    def __init__(self, model):
        parameters = list(model.parameters())
        size = sum(p.numel() for p in parameters)
        self.values, self.gradients = torch.zeros(size), torch.zeros(size)
        at = 0
        for p in parameters:
            here = slice(at, at + p.numel())
            self.values[here] = p.data.flatten()
            p.data = self.values[here].view_as(p)
            p.grad = self.gradients[here].view_as(p)
            at += p.numel()


class Server:
    """The parameter server: applies every gradient when it arrives."""

    def __init__(self, values, steps):
        self.lock = threading.Lock()
        self.values, self.steps = values.clone(), steps
        self.version, self.staleness, self.stopping = 0, [], False
        self.done = {}

    def apply(self, worker, gradients, read):
        with self.lock:
            self.values.add_(gradients, alpha=-RATE)
            self.staleness.append(self.version - read)
            self.version += 1
            self.done[worker] = self.done.get(worker, 0) + 1
            self.stopping = self.stopping or self.done[worker] == self.steps
            return self.values.clone(), self.version, self.stopping


server = None


def serve(worker, gradients, read):
    return server.apply(worker, gradients, read)


def start_server(values, steps):
    global server
    server = Server(values, steps)


def server_staleness():
    return server.staleness


class Worker:
    """Training loop of one process; the mode decides what follows a step."""

    def __init__(self, rank, args, shared):
        self.rank, self.args = rank, args
        self.model, make_batch = models.make(args.model)
        torch.manual_seed(rank + 2)
        if args.loaders is None:
            self.batches = itertools.cycle([make_batch(args.batch) for _ in range(args.batches)])
        else:
            self.batches = images.loader(shared["folder"], args, shared["storage"], rank)
        self.loss = nn.CrossEntropyLoss()
        self.stopping, self.version, self.step_number = False, 0, 0
        self.flat = Flat(self.model) if args.mode in FLAT else None
        self.net = self.model
        if args.mode == "ddp":
            self.net = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=RATE, momentum=0.9)

    def step(self):
        self.step_number += 1
        inputs, targets = next(self.batches)
        self.optimizer.zero_grad(set_to_none=self.flat is None)
        self.loss(self.net(inputs), targets).backward()
        if self.args.mode == "async":
            self.exchange()
        if self.args.mode in ("async", "gradients"):
            return
        self.optimizer.step()
        if self.args.mode == "localsgd" and self.step_number % self.args.interval == 0:
            dist.all_reduce(self.flat.values)
            self.flat.values.div_(self.args.workers)

    def exchange(self):
        values, self.version, self.stopping = dist.rpc.rpc_sync(
            "server", serve, args=(self.rank, self.flat.gradients, self.version))
        self.flat.values.copy_(values)

    def run(self, steps, profiler=None):
        done = 0
        while done < steps and not self.stopping:
            self.step()
            done += 1
            if profiler is not None:
                profiler.step()
            if self.args.log and done % self.args.log == 0:
                print(f"step {done}", flush=True)
        return done


def trace(worker, args):
    """Records --trace-steps steps after a few that are not recorded."""
    schedule = torch.profiler.schedule(wait=1, warmup=2, active=args.trace_steps, repeat=1)
    with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule,
            record_shapes=args.shapes,
            on_trace_ready=lambda p: p.export_chrome_trace(args.trace)) as profiler:
        worker.run(3 + args.trace_steps, profiler)


def measure(worker, args, shared, barrier):
    """Throughput of all workers together, printed by rank 0."""
    if args.mode == "async":
        barrier.wait()  # otherwise earlier gradients would count as the new server's
        if worker.rank == 0:
            dist.rpc.rpc_sync("server", start_server, args=(worker.flat.values, args.steps))
        worker.version, worker.stopping = 0, False
    barrier.wait()
    start = time.monotonic()
    done = worker.run(args.steps)
    shared["ends"][worker.rank] = time.monotonic()
    shared["starts"][worker.rank] = start
    shared["done"][worker.rank] = done
    barrier.wait()
    if worker.rank != 0:
        barrier.wait()
        return
    seconds = max(shared["ends"]) - min(shared["starts"])
    print(f"samples_per_s {sum(shared['done']) * args.batch / seconds:.6g}")
    if args.mode == "async":
        staleness = dist.rpc.rpc_sync("server", server_staleness)
        print(f"staleness_mean {sum(staleness) / len(staleness):.6g}")
    barrier.wait()


def rpc_options(meeting):
    return dist.rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, init_method=meeting)


def process(rank, args, meeting, shared, barrier):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # the few batches are learned quickly, and gradients become tiny
    world = args.workers
    if args.mode == "async":
        name = "server" if rank == world else f"worker{rank}"
        dist.rpc.init_rpc(name, rank=rank, world_size=world + (args.mode == "async"),
                          rpc_backend_options=rpc_options(meeting))
    elif args.mode not in ALONE:
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    if rank < world:
        worker = Worker(rank, args, shared)
        if args.mode == "async":
            if rank == 0:
                dist.rpc.rpc_sync("server", start_server, args=(worker.flat.values, 10**9))
            barrier.wait()
        worker.run(args.warmup)
        if args.trace:
            if rank == 0:
                trace(worker, args)
            else:
                worker.run(3 + args.trace_steps)
        else:
            for _ in range(args.repeats):
                measure(worker, args, shared, barrier)
    if args.mode == "async":
        dist.rpc.shutdown()
    elif args.mode not in ALONE:
        dist.destroy_process_group()


def main():
    args = arguments()
    context = mp.get_context("fork")  # safe, as nothing has been computed yet: no threads
    with tempfile.TemporaryDirectory() as folder:
        meeting = "file://" + os.path.join(folder, "meeting")
        shared = {name: context.Array("d", args.workers) for name in ("starts", "ends")}
        shared["done"] = context.Array("l", args.workers)
        if args.loaders is not None:
            shared["folder"] = folder
            shared["storage"] = images.Storage(context, args.storage_bytes_per_s)
            images.write(folder, args.side)
        barrier = context.Barrier(args.workers)
        count = args.workers + (args.mode == "async")
        if count == 1:
            process(0, args, meeting, shared, barrier)
            return 0
        processes = [context.Process(target=process, args=(r, args, meeting, shared, barrier))
                     for r in range(count)]
        for p in processes:
            p.start()
        # A wait for a dead process, or for an empty list, would never end.
        running = processes
        while running and not any(p.exitcode for p in processes):
            multiprocessing.connection.wait([p.sentinel for p in running])
            running = [p for p in running if p.is_alive()]
        for p in processes:
            if p.is_alive():
                p.kill()
            p.join()
        return max(abs(p.exitcode) for p in processes)


if __name__ == "__main__":
    sys.exit(main())
