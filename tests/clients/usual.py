"""Typical training scripts for `dlprof run`, without any code for a profiler.

  usual.py loader        a CNN whose batches are made by two worker processes of a DataLoader
  usual.py accumulate    a transformer, four micro-batches of 8 per step, clipped, with a schedule
  usual.py validate      an MLP, 20 steps per epoch, with a validation between epochs
  usual.py by_hand       an MLP whose parameters are updated without an optimizer
  usual.py inside        an MLP with an optimizer for each parameter, which updates it in a hook of the
                         backward pass
  torchrun --nproc_per_node 2 usual.py launched     the MLP with DistributedDataParallel
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import models


class Flipped(torch.utils.data.Dataset):
    """Images as bytes; a sample is an image, mirrored at random."""

    def __init__(self, count):
        self.images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8)
        self.labels = torch.randint(0, 10, (count,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i].float() / 255
        return (image.flip(-1) if torch.rand(()) < 0.5 else image) - 0.5, self.labels[i]


def step(model, optimizer, samples, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(samples), labels)
    loss.backward()
    optimizer.step()
    return loss


def loader():
    model, _ = models.make("cnn")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for samples, labels in DataLoader(Flipped(16 * 45), 16, shuffle=True, num_workers=2):
        step(model, optimizer, samples, labels)


def accumulate():
    model, batch = models.make("transformer")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 45)
    for _ in range(45):
        for _ in range(4):
            samples, labels = batch(8)
            (nn.functional.cross_entropy(model(samples), labels) / 4).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)


def validate():
    model, batch = models.make("mlp")
    training, validation = (DataLoader(TensorDataset(*batch(128 * n)), 128) for n in (20, 5))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        model.train()
        for samples, labels in training:
            step(model, optimizer, samples, labels)
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in validation)
        print("epoch", epoch, "right", right)


def by_hand():
    model, batch = models.make("mlp")
    for _ in range(45):
        samples, labels = batch(64)
        nn.functional.cross_entropy(model(samples), labels).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None


def inside():
    model, batch = models.make("mlp")
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(45):
        samples, labels = batch(64)
        nn.functional.cross_entropy(model(samples), labels).backward()


def launched():
    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    model, batch = models.make("mlp")
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(45):
        step(model, optimizer, *batch(32))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    {f.__name__: f for f in (loader, accumulate, validate, by_hand, inside, launched)}[sys.argv[1]]()
