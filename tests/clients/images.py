"""Compressed images in files, and a data loader that reads and decodes them.

Storage may have a rate, shared by all reading processes: reads are served one after another, in order
of request. A reader sleeps until its bytes arrive, as with a disk, and uses no processor time.
"""

import os
import random
import time
import zlib

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

COUNT = 16      # files
SIDE = 32       # pixels of the crop that is a sample
BEHIND_S = 5e-3  # storage time made up after a process woke late, at most


def write(folder, side):
    """Images of `side` x `side` pixels with little noise, which compress to about half."""
    chance = numpy.random.default_rng(1)
    slope = numpy.arange(side)[:, None, None] + numpy.arange(side)[None, :, None]
    for i in range(COUNT):
        pixels = (slope + i + chance.integers(0, 16, (side, side, 3))).astype(numpy.uint8)
        with open(os.path.join(folder, f"{i}.z"), "wb") as file:
            file.write(zlib.compress(pixels.tobytes(), 1))


def stored_bytes(folder):
    """Mean bytes of a file."""
    return sum(os.path.getsize(os.path.join(folder, f"{i}.z")) for i in range(COUNT)) / COUNT


class Storage:
    """A rate shared by all processes that are forked later; 0: no limit."""

    def __init__(self, context, bytes_per_s):
        self.bytes_per_s = bytes_per_s
        self.free_s = context.Value("d", 0)

    def read(self, path):
        with open(path, "rb") as file:
            content = file.read()
        if self.bytes_per_s > 0:
            with self.free_s.get_lock():
                start = max(time.monotonic() - BEHIND_S, self.free_s.value)
                self.free_s.value = start + len(content) / self.bytes_per_s
                until = self.free_s.value
            time.sleep(max(0, until - time.monotonic()))
        return content


class Images(Dataset):
    def __init__(self, folder, side, storage):
        self.folder, self.side, self.storage = folder, side, storage

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        content = zlib.decompress(self.storage.read(os.path.join(self.folder, f"{i}.z")))
        pixels = numpy.frombuffer(content, numpy.uint8).reshape(self.side, self.side, 3)
        y, x = (random.randint(0, self.side - SIDE) for _ in range(2))
        cut = torch.from_numpy(pixels[y:y + SIDE, x:x + SIDE].copy())
        return cut.permute(2, 0, 1).float() / 255 - 0.5, i % 10


class Endless(Sampler):
    """All samples in random order, repeated endlessly."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def __iter__(self):
        while True:
            yield from self.chance.sample(range(COUNT), COUNT)


def loader(folder, args, storage, rank):
    """Endless batches; for each of args.loaders processes two are prefetched."""
    return iter(DataLoader(Images(folder, args.side, storage), args.batch, sampler=Endless(rank),
                           num_workers=args.loaders,
                           multiprocessing_context="fork" if args.loaders > 0 else None))
