"""Contents of a recording of dlprof run, from its summary (--json), and checks of them."""

# Meta keys of a trace whose values must be 0 or missing.
LOSSES = (
    "dropped_records",
    "lost_timestamps",
    "lost_activities",
    "lost_records",
    "invalid_records",
    "unknown_records",
)


def processes(run):
    """Processes that left a trace that is not empty."""
    return [process for process in run["processes"] if "summary" in process]


def devices(run):
    return [device for process in processes(run) for device in process["summary"]["devices"]]


def kernels(run):
    """Number of kernels of all processes, including the nodes of graphs."""
    return sum(process["activities"]["kernel"] for process in processes(run))


def kernels_named(run, part):
    return sum(
        kernel["count"]
        for device in devices(run)
        for kernel in device["kernels"]
        if part in kernel["name"]
    )


def losses(run):
    """Messages about lost or refused records; [] if there are none."""
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
    """Checks that a recording has `least` kernels or more and nothing was lost; notes failures."""
    if run is None:
        return step.check(False, f"{name}: no summary")
    held = step.check(
        kernels(run) >= least, f"{name}: {kernels(run)} kernels recorded, {least} or more expected"
    )
    for text in losses(run):
        held = step.check(False, f"{name}: {text}")
    return held


def works(run):
    """{(kind, name or direction, memory, device): (count, bytes)} of kernels, copies and memsets."""
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
    """[(method, number of regular steps, number of warm-up and other parts)] of all devices."""
    return [
        (
            device["steps"]["method"],
            int(device["steps"]["duration_ns"]["count"]),
            int(device["steps"]["warmup"] + device["steps"]["other"]),
        )
        for device in devices(run)
    ]


def check_steps(step, name, run, known, ranks=1, methods=None):
    """Checks that `known` steps were found on each device by one of the methods, with at most a tenth
    classified as warm-up; notes failures."""
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
    """Fraction of the devices' activities whose API call was found."""
    quality = [process["summary"]["quality"] for process in processes(run)]
    all_works = sum(one["works"] for one in quality)
    return sum(one["launched_works"] for one in quality) / all_works if all_works else 0
