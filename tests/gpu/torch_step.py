"""Trains a model on random data in PyTorch and prints the median time of a step in ns.

Steps are timed in windows of ten, between waits for the device, so that the host may run ahead
within a window as it does in training. With --profile the steps run under torch.profiler with CUDA
activity, whose trace goes to the file.
"""
import argparse
import statistics
import time

import torch

WARMUP_STEPS = 20
WINDOW_STEPS = 10


def lenet():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)), (1, 28, 28)


def resnet50():
    import torchvision
    return torchvision.models.resnet50(), (3, 224, 224)


def train(step, windows):
    """Seconds of a step, for each window."""
    taken = []
    for _ in range(windows):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(WINDOW_STEPS):
            step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) / WINDOW_STEPS)
    return taken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["lenet", "resnet50"], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", metavar="FILE")
    options = parser.parse_args()
    torch.manual_seed(1)
    model, shape = {"lenet": lenet, "resnet50": resnet50}[options.model]()
    model.to(options.device)
    images = torch.randn(options.batch, *shape, device=options.device)
    labels = torch.randint(10, (options.batch,), device=options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()

    for _ in range(WARMUP_STEPS):
        step()
    windows = max(1, options.steps // WINDOW_STEPS)
    if options.profile:
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            taken = train(step, windows)
        profiler.export_chrome_trace(options.profile)
    else:
        taken = train(step, windows)
    print(round(1e9 * statistics.median(taken)))


main()
