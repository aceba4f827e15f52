"""What a recording of dlprof run holds, from its summary (--json), and checks of it."""

# Numbers of a trace that must be 0 or missing in its meta keys.
LOSSES = (
    "dropped_records",
    "lost_timestamps",
    "lost_activities",
    "lost_records",
    "invalid_records",
    "unknown_records",
)


def processes(run):
    """Those that left a trace with something in it."""
    return [process for process in run["processes"] if "summary" in process]


def devices(run):
    return [device for process in processes(run) for device in process["summary"]["devices"]]


def kernels(run):
    """All kernels of all processes, the nodes of graphs too."""
    return sum(process["activities"]["kernel"] for process in processes(run))


def kernels_named(run, part):
    return sum(
        kernel["count"]
        for device in devices(run)
        for kernel in device["kernels"]
        if part in kernel["name"]
    )


def losses(run):
    """Texts of what was lost or refused; [] = nothing."""
    found = []
    for process in run["processes"]:
        if process.get("log"):
            found.append(f"log: {process['log'].strip().splitlines()[0]}")
        if process.get("error"):
            found.append(process["error"])
        if process.get("lost"):
            found.append(f"lost: {process['lost']}")
    for process in processes(run):
        meta, quality = process["summary"]["meta"], process["summary"]["quality"]
        found += [
            f"{key}: {quality.get(key) or meta.get(key)}"
            for key in LOSSES
            if int(quality.get(key) or meta.get(key) or 0) > 0
        ]
        found += [f"{key}: {meta[key]}" for key in ("refused_kinds", "takeover") if meta.get(key)]
    return found


def check(step, name, run, least=1):
    """Whether a recording has kernels and nothing of it was lost, which is noted if not."""
    if run is None:
        return step.check(False, f"{name}: no summary")
    held = step.check(
        kernels(run) >= least, f"{name}: {kernels(run)} kernels recorded, {least} or more expected"
    )
    for text in losses(run):
        held = step.check(False, f"{name}: {text}")
    return held


def works(run):
    """{(kind, what, memory, device): (count, bytes)} of kernels, copies and memsets."""
    found = {}

    def add(key, count, size):
        before = found.get(key, (0, 0))
        found[key] = (before[0] + int(count), before[1] + int(size))

    for device in devices(run):
        number = device["device"]
        for kernel in device["kernels"]:
            add(("kernel", kernel["name"], "", number), kernel["count"], 0)
        for copy in device["copies"]:
            memset = copy["kind"] == "memset"
            add(
                (
                    copy["kind"],
                    "" if memset else copy["direction"],
                    "" if memset else copy["memory"],
                    number,
                ),
                copy["count"],
                copy["bytes"],
            )
    return found


def steps(run):
    """[(method, regular steps, warm-up and parts unlike a step)] of all devices."""
    return [
        (
            device["steps"]["method"],
            int(device["steps"]["duration_ns"]["count"]),
            int(device["steps"]["warmup"] + device["steps"]["other"]),
        )
        for device in devices(run)
    ]


def check_steps(step, name, run, known, ranks=1, methods=None):
    """Whether the known number of steps was found on each device, but for a tenth that are called
    warm-up, by one of the methods; noted if not."""
    found = steps(run)
    held = step.check(len(found) == ranks, f"{name}: {len(found)} devices with steps of {ranks}")
    for method, regular, rest in found:
        held = (
            step.check(
                regular <= known <= regular + rest and 10 * regular >= 9 * known,
                f"{name}: {regular} steps and {rest} others found ({method}), {known} true",
            )
            and held
        )
        held = (
            step.check(methods is None or method in methods, f"{name}: steps by {method}") and held
        )
    return held


def tied_frac(run):
    """The part of the devices' work whose call is known."""
    quality = [process["summary"]["quality"] for process in processes(run)]
    all_works = sum(one["works"] for one in quality)
    return sum(one["launched_works"] for one in quality) / all_works if all_works else 0
