"""Typical PyTorch programs with a known number of steps: torch_cases.py CASE [STEPS] [OPTIONS].

  there      prints "no torch" and returns 77 if there is no PyTorch with a GPU
  eager      a small network, step by step          loaders   the same, batches by 2 processes
  compile    the same under torch.compile           profiler  the same inside torch.profiler
  graphs     the same as one CUDA graph per step    ddp       two ranks on one GPU (NCCL)
  step       step times of dlprof's models (--cases lenet:64:fp32 ...)
  copy       the rate of a copy from page-locked memory to the GPU

Prints one line of JSON: steps, ranks, and other known numbers. To NCCL, ranks on one GPU appear as
ranks of different hosts that use sockets: this tests the recording, and its times mean nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    torch = None

HIDDEN = 512
BATCH = 256
WARM_STEPS = 5  # before a graph is captured; they count as steps
RANKS = 2


def say(**known):
    print(json.dumps(known), flush=True)


def network():
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.GELU(),
        nn.Linear(HIDDEN, 10),
    )


def one_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def batches(steps):
    """Yields batches copied from page-locked memory, as from a data loader."""
    images = torch.randn(BATCH, HIDDEN).pin_memory()
    labels = torch.randint(10, (BATCH,)).pin_memory()
    for _ in range(steps):
        yield images.cuda(non_blocking=True), labels.cuda(non_blocking=True)


def train(model, steps, source):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for images, labels in source:
        one_step(model, optimizer, images, labels)
    torch.cuda.synchronize()
    say(steps=steps, ranks=1, kernels=steps)


def eager(steps):
    train(network().cuda(), steps, batches(steps))


def compiled(steps):
    train(torch.compile(network().cuda()), steps, batches(steps))


class Samples(torch.utils.data.Dataset if torch else object):
    """Random images, generated on access."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.randn(HIDDEN), index % 10


def loaders(steps):
    loader = torch.utils.data.DataLoader(
        Samples(BATCH * steps), batch_size=BATCH, num_workers=2, pin_memory=True
    )
    train(
        network().cuda(),
        steps,
        (
            (images.cuda(non_blocking=True), labels.cuda(non_blocking=True))
            for images, labels in loader
        ),
    )


def profiler(steps):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        eager(steps)


def graphs(steps):
    model = network().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = next(batches(1))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_STEPS):
            one_step(model, optimizer, images, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one_step(model, optimizer, images, labels)
    for new_images, new_labels in batches(steps):
        images.copy_(new_images)
        labels.copy_(new_labels)
        graph.replay()
    torch.cuda.synchronize()
    say(steps=steps, ranks=1, kernels=steps)


def rank(steps):
    torch.distributed.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(network().cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for images, labels in batches(steps):
        one_step(model, optimizer, images, labels)
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


def ddp(steps):
    count = sum(parameter.numel() for parameter in network().parameters())
    port, ranks = 29571, []
    for number in range(RANKS):
        environment = {
            **os.environ,
            "RANK": str(number),
            "WORLD_SIZE": str(RANKS),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "NCCL_HOSTID": f"host{number}",
            "NCCL_SOCKET_IFNAME": "lo",
        }
        ranks.append(
            subprocess.Popen([sys.executable, __file__, "rank", str(steps)], env=environment)
        )
    codes = [one.wait() for one in ranks]
    say(steps=steps, ranks=RANKS, reduced_bytes=4 * count * steps, codes=codes)
    sys.exit(any(codes))


def lenet():
    nn = torch.nn
    return (
        nn.Sequential(
            nn.Conv2d(1, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(800, 500),
            nn.ReLU(),
            nn.Linear(500, 10),
        ),
        (1, 28, 28),
        10,
    )


def vgg19_bn():
    """(model, shape of an image, classes); for images of CIFAR-10."""
    nn = torch.nn
    layers, before = [], 3
    for width, convolutions in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10)), (3, 32, 32), 10


class Bottleneck(torch.nn.Module if torch else object):
    """ResNet block with the stride in the 3 x 3 convolution, as in dlprof's."""

    def __init__(self, before, width, step):
        super().__init__()
        nn = torch.nn

        def convolution(inputs, outputs, window, stride=1):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False),
                nn.BatchNorm2d(outputs),
            )

        self.branch = nn.Sequential(
            convolution(before, width, 1),
            nn.ReLU(),
            convolution(width, width, 3, step),
            nn.ReLU(),
            convolution(width, 4 * width, 1),
        )
        same = before == 4 * width and step == 1
        self.projection = nn.Identity() if same else convolution(before, 4 * width, 1, step)

    def forward(self, values):
        return torch.relu(self.branch(values) + self.projection(values))


def resnet50():
    nn = torch.nn
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    before = 64
    for width, blocks, step in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(before, width, step if block == 0 else 1))
            before = 4 * width
    return (
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)),
        (3, 224, 224),
        1000,
    )


def timed(step, seconds, window):
    """Median step time over `seconds`, in ns, with a wait for the GPU after every `window` steps."""
    taken, until = [], time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < until:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(window):
            step()
            if window == 1:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) / window)
    return 1e9 * statistics.median(taken)


def step_time(case, seconds):
    """Prints a model's step times, including the batch's copy from page-locked memory: with a wait after
    each step, as in dlprof, and with the host up to ten steps ahead."""
    name, batch, precision = case.split(":")
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    model, shape, classes = {"lenet": lenet, "vgg19_bn": vgg19_bn, "resnet50": resnet50}[name]()
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(int(batch), *shape).pin_memory()
    labels = torch.randint(classes, (int(batch),)).pin_memory()

    def step():
        one_step(model, optimizer, images.cuda(non_blocking=True), labels.cuda(non_blocking=True))

    timed(step, seconds / 3, 10)
    say(
        case=case,
        step_ns=timed(step, seconds / 3, 1),
        ahead_ns=timed(step, seconds / 3, 10),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def copy_rate():
    size = 256 << 20
    near, far = (
        torch.empty(size, dtype=torch.uint8).pin_memory(),
        torch.empty(size, dtype=torch.uint8).cuda(),
    )
    rates = []
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        far.copy_(near, non_blocking=True)
        torch.cuda.synchronize()
        rates.append(size / (time.perf_counter() - start))
    say(bytes_per_s=statistics.median(rates))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    cases = {
        "eager": eager,
        "compile": compiled,
        "graphs": graphs,
        "loaders": loaders,
        "profiler": profiler,
        "ddp": ddp,
        "rank": rank,
    }
    parser.add_argument("case", choices=["there", "step", "copy", *cases])
    parser.add_argument("steps", type=int, nargs="?", default=60)
    parser.add_argument("--cases", nargs="*", default=[], metavar="MODEL:BATCH:PRECISION")
    parser.add_argument("--seconds", type=float, default=3, help="for each of the cases")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("no torch with a GPU")
        sys.exit(77)
    if options.case in cases:
        cases[options.case](options.steps)
    elif options.case == "step":
        for case in options.cases:
            step_time(case, options.seconds)
    elif options.case == "copy":
        copy_rate()


if __name__ == "__main__":
    main()
