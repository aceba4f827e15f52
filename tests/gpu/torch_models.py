"""Measures training rates of PyTorch on one GPU, for the networks of `dlsim --workloads`, in the format
of the tables that estimates are judged on (scenarios/workloads).

Usage: torch_models.py rates RATES.csv [--kernels KERNELS.csv] [--seconds S] [--limit S]
                       [--cases CASE...]
       torch_models.py products PRODUCTS.csv [--limit S]
       torch_models.py train CASE [--steps N] [--trace TRACE.json.gz]

A CASE is WORKLOAD/ARITHMETIC/BATCH, as resnet50/tf32/64, optionally with /nhwc (channels_last).
Images and words are random and stay on the GPU. fp16 is autocast to bfloat16: products and
activations have 16 bits, parameters and gradients 32. Convolutional networks are trained by SGD
with momentum, transformers by AdamW, both fused. A rate is the median over windows of steps.
kernel_ms is the time of all kernels of a step, from PyTorch's profiler; step times are measured
without the profiler. memory_bytes is the peak memory of tensors in a step; first_memory_bytes is
that of the first steps, in which cuDNN also tries algorithms. The command products measures single
matrix products, of the sizes of transformers.
"""

import argparse
import collections
import csv
import statistics
import subprocess
import sys
import time

import torch

LLAMA = (
    "llama:layers=16,width=2048,heads=16,kv_heads=16,feed_forward=8192,vocabulary=65536"
    ",sequence=4096"
)
# The most informative cases come first, as the time limit may omit the last.
CASES = f"""
gpt2/fp16/16 {LLAMA}/fp16/2 gpt2:vocabulary=50304/fp16/16
bert_large:sequence=384/fp16/64 bert_large:sequence=384,attention=plain/fp16/112
gpt2_medium/fp16/16 bert_base:sequence=384/fp16/128
resnet152/fp16/64 resnet50/fp16/256/nhwc resnet50/fp16/256 vgg16/fp16/64
gpt2/tf32/8 bert_large:sequence=384/tf32/64 bert_base:sequence=384,attention=plain/tf32/96
resnet152/tf32/64 resnet18/tf32/128 vgg16/tf32/64
gpt2/fp16/1 bert_base:sequence=128/fp16/32 gpt2_large/fp16/8
gpt2/fp32/8 bert_base:sequence=384/fp32/32 vgg16/fp32/64 resnet18/fp32/128
vgg19_bn/tf32/128 vgg19_bn/fp32/128 resnet18/fp16/256
{LLAMA}/fp16/1 resnet50/tf32/256/nhwc
""".split()
COLUMNS = [
    "workload",
    "gpu",
    "arithmetic",
    "batch",
    "layout",
    "optimizer",
    "samples_per_s",
    "step_ms",
    "step_low_ms",
    "step_high_ms",
    "kernel_ms",
    "kernels",
    "parameters",
    "memory_bytes",
    "first_memory_bytes",
    "clock_mhz",
    "power_w",
    "case_s",
]
WARM_UP = 3
STEPS_LEAST, STEPS_MOST, WINDOW_S = 3, 10, 0.15  # of a window, between two waits for the GPU


def keys_of(workload):
    name, _, keys = workload.partition(":")
    return name, dict(key.split("=") for key in keys.split(",") if key)


def image_network(name):
    """(model, shape of an image, classes)"""
    if name == "vgg19_bn":
        import torch_cases

        return torch_cases.vgg19_bn()
    import torchvision

    return getattr(torchvision.models, name)(), (3, 224, 224), 1000


def word_network(name, keys):
    """(model, words of a sample, vocabulary)"""
    import transformers

    transformers.logging.set_verbosity_error()
    attention = "eager" if keys.get("attention") == "plain" else "sdpa"
    if name.startswith("gpt2"):
        sizes = {
            "gpt2": (12, 768, 12),
            "gpt2_medium": (24, 1024, 16),
            "gpt2_large": (36, 1280, 20),
        }
        layers, width, heads = sizes[name]
        config = transformers.GPT2Config(
            n_layer=layers,
            n_embd=width,
            n_head=heads,
            vocab_size=int(keys.get("vocabulary", 50257)),
            activation_function="gelu_pytorch_tanh",  # the default's function as one kernel
            attn_implementation=attention,
        )
        words = int(keys.get("sequence", 1024))
        return transformers.GPT2LMHeadModel(config), words, config.vocab_size
    if name.startswith("bert"):
        layers, width, heads = (12, 768, 12) if name == "bert_base" else (24, 1024, 16)
        config = transformers.BertConfig(
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            attn_implementation=attention,
        )
        words = int(keys.get("sequence", 512))
        return transformers.BertForQuestionAnswering(config), words, config.vocab_size
    config = transformers.LlamaConfig(
        num_hidden_layers=int(keys["layers"]),
        hidden_size=int(keys["width"]),
        num_attention_heads=int(keys["heads"]),
        num_key_value_heads=int(keys["kv_heads"]),
        intermediate_size=int(keys["feed_forward"]),
        vocab_size=int(keys["vocabulary"]),
        max_position_embeddings=int(keys["sequence"]),
        attn_implementation=attention,
    )
    return transformers.LlamaForCausalLM(config), int(keys["sequence"]), config.vocab_size


class Training:
    """One case; step() runs a training step."""

    def __init__(self, case):
        self.workload, self.arithmetic, batch, *layout = case.split("/")
        self.batch = int(batch)
        torch.backends.cuda.matmul.allow_tf32 = self.arithmetic != "fp32"
        torch.backends.cudnn.allow_tf32 = self.arithmetic != "fp32"
        torch.backends.cudnn.benchmark = True
        name, keys = keys_of(self.workload)
        self.images = name.startswith(("resnet", "vgg"))
        self.layout = layout[0] if layout else "nchw" if self.images else ""
        with torch.device("cuda"):
            if self.images:
                self.model, shape, classes = image_network(name)
                self.inputs = torch.randn(self.batch, *shape)
                self.labels = torch.randint(classes, (self.batch,))
            else:
                self.model, words, vocabulary = word_network(name, keys)
                self.inputs = torch.randint(vocabulary, (self.batch, words))
                self.answers = name.startswith("bert")
                self.labels = torch.randint(words, (self.batch,))
        self.model.cuda().train()
        if self.layout == "nhwc":
            self.model.to(memory_format=torch.channels_last)
            self.inputs = self.inputs.to(memory_format=torch.channels_last)
        parameters = self.model.parameters()
        self.optimizer = (
            torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=True)
            if self.images
            else torch.optim.AdamW(parameters, lr=1e-5, fused=True)
        )
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())

    def loss(self):
        if self.images:
            return torch.nn.functional.cross_entropy(self.model(self.inputs), self.labels)
        if self.answers:
            return self.model(
                self.inputs, start_positions=self.labels, end_positions=self.labels
            ).loss
        return self.model(self.inputs, labels=self.inputs).loss

    def step(self):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=self.arithmetic == "fp16"):
            loss = self.loss()
        loss.backward()
        self.optimizer.step()


def timed(training, steps):
    """Seconds per step."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        training.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps


def windows(training, seconds):
    """Seconds per step of the windows that fit into `seconds`, in increasing order."""
    steps = round(WINDOW_S / timed(training, 2))
    steps = min(max(steps, STEPS_LEAST), STEPS_MOST)
    taken, until = [], time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < until:
        taken.append(timed(training, steps))
    return sorted(taken)


def profiled(training, steps, trace=None):
    """{kernel name: [count, time in ns]} over all steps."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    if trace:
        activities.append(torch.profiler.ProfilerActivity.CPU)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(steps):
            training.step()
        torch.cuda.synchronize()
    if trace:
        profile.export_chrome_trace(trace)
    kernels = collections.defaultdict(lambda: [0, 0])
    # profile.events() would take seconds, as it builds a tree
    for event in profile.profiler.kineto_results.events():
        if event.device_type() != torch.autograd.DeviceType.CUDA:
            continue
        if not event.name().startswith(("Memcpy", "Memset", "Optimizer.")):  # Optimizer. are ranges
            kernels[event.name()][0] += 1
            kernels[event.name()][1] += event.duration_ns()
    return kernels


def ask_clock():
    """Starts nvidia-smi, which prints the GPU's clock and power."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
    try:
        return subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    except OSError:
        return None


def answer(asked):
    """(clock in MHz, power in W) as texts, or two empty texts."""
    lines = asked.communicate(timeout=5)[0].splitlines() if asked else []
    return tuple(lines[0].split(", ")) if lines and lines[0].count(", ") == 1 else ("", "")


def measure(case, seconds, gpu):
    """(row of the table, kernels of a step)"""
    started = time.perf_counter()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    training = Training(case)
    timed(training, WARM_UP)
    first_memory = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    asked = ask_clock()
    taken = windows(training, seconds)
    clock, power = answer(asked)
    memory = torch.cuda.max_memory_allocated()
    try:
        kernels = profiled(training, 1)
    except Exception as error:  # keeps the rate
        print(f"{case}: profiler: {error}", file=sys.stderr)
        kernels = {}
    middle = statistics.median(taken)
    row = {
        "workload": training.workload,
        "gpu": gpu,
        "arithmetic": training.arithmetic,
        "batch": training.batch,
        "layout": training.layout,
        "optimizer": "momentum" if training.images else "adam",
        "samples_per_s": f"{training.batch / middle:.6g}",
        "step_ms": f"{1e3 * middle:.6g}",
        "step_low_ms": f"{1e3 * taken[0]:.6g}",
        "step_high_ms": f"{1e3 * taken[-1]:.6g}",
        "kernel_ms": f"{sum(ns for _, ns in kernels.values()) / 1e6:.6g}",
        "kernels": sum(count for count, _ in kernels.values()),
        "parameters": training.parameters,
        "memory_bytes": memory,
        "first_memory_bytes": first_memory,
        "clock_mhz": clock,
        "power_w": power,
        "case_s": f"{time.perf_counter() - started:.3g}",
    }
    return row, kernels


def rates(options):
    started = time.perf_counter()
    gpu = torch.cuda.get_device_name()
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        file.write(f"# PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN ")
        file.write(f"{torch.backends.cudnn.version()}, {gpu}\n")
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        listed = open(options.kernels or "/dev/null", "w", newline="", encoding="utf-8")
        names = csv.writer(listed, lineterminator="\n")
        names.writerow(["case", "kernel", "count", "us"])
        for case in options.cases or CASES:
            if time.perf_counter() - started > options.limit:
                print(f"{case}: no time left", file=sys.stderr)
                continue
            try:
                row, kernels = measure(case, options.seconds, gpu)
            except Exception as error:  # measures the other cases
                print(f"{case}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            table.writerow(row)
            file.flush()
            for name, (count, ns) in sorted(kernels.items(), key=lambda item: -item[1][1]):
                names.writerow([case, name[:120], count, f"{ns / 1e3:.1f}"])
            listed.flush()
        listed.close()


# rows, columns and depth of y = x w, and the two products of its backward pass
PRODUCTS = [
    (rows, columns, depth)
    for rows in (1024, 4096, 16384)
    for columns, depth in (
        (768, 768),
        (2304, 768),
        (3072, 768),
        (768, 3072),
        (1024, 1024),
        (4096, 1024),
        (1024, 4096),
        (2048, 2048),
        (8192, 2048),
        (2048, 8192),
        (4096, 4096),
        (8192, 8192),
    )
] + [(8192, 50257, 768), (8192, 50304, 768), (8192, 65536, 2048)]


def product_s(make, seconds=0.02):
    """Median seconds per product, of products queued back to back."""
    make()
    taken, until = [], time.perf_counter() + seconds
    while len(taken) < 3 or (time.perf_counter() < until and len(taken) < 50):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            make()
        stop.record()
        stop.synchronize()
        taken.append(start.elapsed_time(stop) / 5e3)
    return statistics.median(taken)


def products(options):
    started = time.perf_counter()
    with open(options.output, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["arithmetic", "m", "n", "k", "kind", "us", "tflop_per_s"])
        for arithmetic in ("fp16", "tf32", "fp32"):
            torch.backends.cuda.matmul.allow_tf32 = arithmetic == "tf32"
            number = torch.bfloat16 if arithmetic == "fp16" else torch.float32
            for rows, columns, depth in PRODUCTS:
                if time.perf_counter() - started > options.limit:
                    return
                x, w, y = (
                    torch.randn(*shape, device="cuda", dtype=number)
                    for shape in ((rows, depth), (columns, depth), (rows, columns))
                )
                kinds = {
                    "forward": lambda: x @ w.T,
                    "inputs": lambda: y @ w,
                    "weights": lambda: y.T @ x,
                }
                for kind, make in kinds.items():
                    seconds = product_s(make)
                    rate = 2 * rows * columns * depth / seconds / 1e12
                    table.writerow(
                        [arithmetic, rows, columns, depth, kind]
                        + [f"{1e6 * seconds:.5g}", f"{rate:.5g}"]
                    )
                file.flush()
                del x, w, y


def train(options):
    training = Training(options.case)
    timed(training, options.steps)
    if options.trace:
        profiled(training, 3, options.trace)
    print(f"{options.steps} steps of {options.case}, {training.parameters} parameters")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("rates")
    command.add_argument("output")
    command.add_argument("--cases", nargs="+", metavar="CASE")
    command.add_argument("--kernels", help="table of each kernel of a step")
    command.add_argument("--seconds", type=float, default=0.8, help="for each of the cases")
    command.add_argument("--limit", type=float, default=600, help="no case starts after")
    command.set_defaults(run=rates)
    command = commands.add_parser("products")
    command.add_argument("output")
    command.add_argument("--limit", type=float, default=600)
    command.set_defaults(run=products)
    command = commands.add_parser("train")
    command.add_argument("case", metavar="CASE")
    command.add_argument("--steps", type=int, default=60)
    command.add_argument("--trace", help="of three more steps, by PyTorch's profiler")
    command.set_defaults(run=train)
    options = parser.parse_args()
    options.run(options)


main()
