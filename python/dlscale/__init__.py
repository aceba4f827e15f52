"""Predict the speed and gradient staleness of training on several GPUs.

    import dlscale
    r = dlscale.simulate(workload="gpt2", machine="8xh100", workers=[1, 2, 4, 8],
                         batch_per_worker=8, mode="allreduce")
    print(r)                        # the program's table
    r.rows[-1]["throughput_per_s"]  # numbers by the names of docs/columns.md
    r.df                            # a pandas DataFrame

Every function runs a program of dlscale (`dlsim`, `dlcal`) and reads its results file, so names,
units, defaults and messages are those of the command line. A keyword is an option of the program:
`batch_per_worker=[16, 32]` is `--batch-per-worker=16,32`, True gives an option without a value,
False and None omit the option. Scenario keys go into `set`: `set={"exchange.overlap": True}`.
"""

from __future__ import annotations

import contextlib
import csv
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

__all__ = ["Error", "Result", "Unfit", "advise", "costs", "machines", "profile", "simulate", "solve",
           "version", "workloads"]

PathLike = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """A program refused its input or failed. `text`: its message; `code`: its exit status, 1 a run
    that failed, 2 wrong use; `None`: the program was not found."""

    def __init__(self, text: str, code: int | None = None):
        super().__init__(text)
        self.text, self.code = text, code


class Unfit(Error):
    """No point fits into the memory of its GPUs; the text names the changes that would fit."""


class Result:
    """A table of results. `rows`: a dict for each row, by column, with None for empty cells and lists
    for cells such as "1;2.5"; `text`: the table as the program prints it; `notes` and `assumed` (of
    `simulate` only): the program's notes on the rows, and the costs that it had to assume; `page`:
    the page with the simulator, if `html` was given. A notebook shows the table and the page."""

    def __init__(self, rows: list[dict[str, Any]], text: str, more: Mapping[str, Any] | None = None,
                 page: str | None = None):
        more = more or {}
        self.rows, self.text, self.page = rows, text, page
        self.notes: list[str] = list(more.get("notes", []))
        self.assumed: list[dict[str, Any]] = list(more.get("assumed", []))

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0]) if self.rows else []

    @property
    def best(self) -> dict[str, Any] | None:
        """The row with the highest throughput, of `advise` the advised one; None if there is none."""
        if "rank" in self.columns:
            return next((row for row in self.rows if row["rank"] == 1), None)
        ran = [row for row in self.rows if row.get("throughput_per_s")]
        return max(ran, key=lambda row: row["throughput_per_s"], default=None)

    @property
    def df(self) -> Any:
        """The rows as a pandas DataFrame; pandas must be installed."""
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        page = (f'<iframe srcdoc="{html.escape(self.page)}" style="width:100%;height:48em"></iframe>'
                if self.page else "")
        text = html.escape(self.text)
        return f'<pre style="font-family:monospace">{text}</pre>{page}'


def _program(name: str) -> str:
    """The program's path: in $DLSCALE_BIN, else in the package, else in $PATH."""
    folder = os.environ.get("DLSCALE_BIN")
    own = Path(folder) if folder else Path(__file__).parent / "bin"
    found = str(own / name) if (own / name).is_file() else None
    found = found or (None if folder else shutil.which(name))
    if found is None:
        wheel = "dlscale" if name == "dlsim" else "dlscale-programs"
        raise Error(f"there is no {name}: install {wheel}, or name the folder of the programs in "
                    "DLSCALE_BIN")
    return found


def _plain(value: Any) -> Any:
    """The Python object of a NumPy scalar or array, a pandas Series or Index; others unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def _value(value: Any, between: str = ",") -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # counts from NumPy or pandas, such as logspace's
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_value(each)}" for key, each in value.items())
    if isinstance(value, Iterable):
        return between.join(_value(each) for each in value)
    return str(value)


def _file(value: Any, path: Path) -> Any:
    """A DataFrame becomes the CSV file `path`, for options that take a table; others unchanged."""
    if not hasattr(value, "to_csv") or hasattr(value, "tolist"):
        return value
    value.to_csv(path, index=False)
    return path


def _arguments(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        value, option = _plain(value), "--" + name.rstrip("_").replace("_", "-")
        if name == "set":
            if not isinstance(value, (Mapping, type(None))):
                raise TypeError(f"set: expected a dict of keys and values, not {value!r}")
            arguments += [f"--set={key}={_value(each, '|' if key == 'machine.layout' else ',')}"
                          for key, each in (value or {}).items() if each is not None]
        elif value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments.append(f"{option}={_value(value, '|' if name == 'layout' else ',')}")
    return arguments


def _run(name: str, arguments: Sequence[str]) -> str:
    """Runs a program and returns its standard output."""
    done = subprocess.run([_program(name), *arguments], stdin=subprocess.DEVNULL, text=True,
                          encoding="utf-8", errors="replace", capture_output=True)
    if done.returncode == 0:
        return done.stdout
    lacking = re.search(r"option '--([^']+)' needs an argument: (.*)", done.stderr)
    if lacking:  # only True gives an option without a value
        raise TypeError(f"{lacking[1].replace('-', '_')}=True: a value is needed: {lacking[2]}")
    text = done.stderr.strip() or f"{name} ended with status {done.returncode}"
    raise (Unfit if done.returncode == 3 else Error)(text, done.returncode)


def _cell(text: str) -> Any:
    if text == "":
        return None
    if ";" in text:
        return [_cell(part) for part in text.split(";")]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _table(path: Path) -> list[dict[str, Any]]:
    """The rows of a results file, whose lines before the column names start with '#'."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("#")]
    return [{name: _cell(cell) for name, cell in row.items()} for row in csv.DictReader(lines)]


def _simulate(scenario: PathLike | None, options: Mapping[str, Any], has_json: bool) -> Result:
    clash = {"output", "json", "quiet"} & options.keys()
    if clash:
        raise TypeError(f"{clash.pop()}: results are returned, not written")
    with tempfile.TemporaryDirectory(prefix="dlscale") as folder:
        table, notes, page = (Path(folder, "results" + end) for end in (".csv", ".json", ".html"))
        if options.get("html"):
            page = page if options["html"] is True else Path(options["html"])
            options = {**options, "html": page}
        options = {name: _file(value, Path(folder, name + ".csv")) for name, value in options.items()}
        arguments = _arguments(options) + [f"--output={table}", "--journal=off"]
        arguments += [f"--json={notes}"] if has_json else []
        arguments += ["--", os.fspath(scenario)] if scenario is not None else []
        # The last line names the results file.
        text = _run("dlsim", arguments).rstrip().rsplit("\n", 1)[0]
        if not table.exists():
            raise TypeError("these options print no results, `python -m dlscale` takes them: "
                            + ", ".join(options))
        more = json.loads(notes.read_text(encoding="utf-8")) if has_json else None
        shown = page.read_text(encoding="utf-8") if options.get("html") else None
        return Result(_table(table), text, more, shown)


def simulate(scenario: PathLike | None = None, **options: Any) -> Result:
    """Simulates all points of a scenario file, of options equivalent to its keys, or of both:
    `simulate(workload="gpt2", machine="8xh100", workers=[1, 8], batch_per_worker=8,
    mode="allreduce")`. docs/columns.md lists the columns. `html=True` also makes the page, which a
    notebook shows; `html="page.html"` writes it to that file. Raises Unfit if no point fits into
    memory, and Error for any other failure. A list of workloads is simulated one after another, and
    the first column of the rows is `workload`."""
    names = _plain(options.get("workload"))
    if isinstance(names, (str, Mapping)) or not isinstance(names, Iterable):
        return _simulate(scenario, options, True)
    clash = {name for name in ("html", "timeline", "save") if options.get(name)}
    if clash:
        raise TypeError(f"{clash.pop()}: give one workload, not a list")
    of = {_value(name): _simulate(scenario, {**options, "workload": name}, True) for name in names}
    if not of:
        raise TypeError("workload: the list is empty")
    return Result([{"workload": name, **row} for name, r in of.items() for row in r],
                  "\n\n".join(map(str, of.values())),
                  {"notes": dict.fromkeys(note for r in of.values() for note in r.notes),
                   "assumed": [each for r in of.values() for each in r.assumed]})


def advise(scenario: PathLike | None = None, **options: Any) -> Result:
    """Searches workers, mode, batch, interval and exchange for the best setting within limits
    (`max_batch`, `max_staleness`, `deadline`, `budget`, ...; `for_="cost"`). Rows: the ranking, the
    advised setting first, then the settings that the limits exclude."""
    return _simulate(scenario, {"advise": True, **options}, False)


def solve(key: str, target: Mapping[str, Any], scenario: PathLike | None = None,
          **options: Any) -> Result:
    """Finds for each point the value of a key at which a column reaches a target:
    `solve("sync.interval", {"utilisation_frac": [0.5, 0.9]}, ...)`."""
    return _simulate(scenario, {"solve": key, "target": target, **options}, False)


def machines() -> str:
    """The machines and GPUs that `machine` accepts, as `dlsim --machines` lists them."""
    return _run("dlsim", ["--machines"])


def workloads() -> str:
    """The networks that `workload` accepts, and their keys, as `dlsim --workloads` lists them."""
    return _run("dlsim", ["--workloads"])


def version() -> str:
    return _run("dlsim", ["--version"]).split()[1]


def costs(trace: PathLike | Iterable[PathLike], output: PathLike, **options: Any) -> str:
    """Makes the cost file `output` from a recorded trace (`dlcal costs`): `costs("trace.json",
    "costs.ini", batch=32)`, for `simulate(costs="costs.ini", ...)`; or from traces at several batch
    sizes, `costs(["b16.json", "b64.json"], "costs.ini", batch=[16, 64])`. Returns dlcal's output."""
    traces = [trace] if isinstance(trace, (str, os.PathLike)) else trace
    return _run("dlcal", ["costs", *_arguments({**options, "output": output}), "--",
                          *[os.fspath(one) for one in traces]])


def _rank(torch: Any) -> int:
    """This process's rank in torch.distributed, 0 without it."""
    group = torch.distributed
    return group.get_rank() if group.is_available() and group.is_initialized() else 0


@contextlib.contextmanager
def profile(trace: PathLike) -> Iterator[Any]:
    """Records a training loop with PyTorch's profiler into `trace`, for `costs`:

        with dlscale.profile("trace.json") as recorder:
            for batch in batches:
                ...                # forward, backward, optimizer
                recorder.step()    # after each step

    About ten steps are enough. Of several processes under torch.distributed, rank 0 writes the trace.
    If the loop fails, nothing is written."""
    import torch  # type: ignore[import-not-found]
    import torch.profiler as profiler  # type: ignore[import-not-found]

    kinds = profiler.ProfilerActivity
    activities = [kinds.CPU] + ([kinds.CUDA] if torch.cuda.is_available() else [])
    rank = _rank(torch)
    with profiler.profile(activities=activities, record_shapes=True) as recorder:
        yield recorder
    if rank == 0 and _rank(torch) == 0:  # the loop may have joined or left the processes' group
        recorder.export_chrome_trace(os.fspath(trace))
