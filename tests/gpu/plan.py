"""Runs the steps of a run on a machine with GPUs in order and keeps their results: see run.sh.

Each step has a budget in seconds, which limits its programs, and checks. A failed check is noted and
the step continues; a step without a figure fails. After each step the table of all steps is
rewritten and packed, so that a run that is cut short keeps the results so far.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

END_S = 10  # reserved for packing the results
LEAST_S = 5  # least time for a step to start
PACKED_BYTES = 15_000_000  # largest packed file
PACKED_FILES = 5


class Stop(Exception):
    """The step cannot continue; the reason was noted."""


class Step:
    """A running step: its folder, its time, its failed checks and figures."""

    def __init__(self, plan, name, budget_s):
        self.plan, self.name, self.settings = plan, name, plan.settings
        self.folder = plan.out / name
        self.folder.mkdir(exist_ok=True)
        self.begun, self.deadline = time.monotonic(), time.monotonic() + budget_s
        self.wrong, self.figures, self.left_out = [], [], ""

    def bad(self, text):
        self.wrong.append(text)
        print(f"   NOT HELD: {text}", flush=True)

    def check(self, held, text):
        if not held:
            self.bad(text)
        return bool(held)

    def timing(self, held, text):
        """A check of times; always passes with doubles, whose times mean nothing."""
        return self.check(held or not self.settings["judge_times"], text)

    def figure(self, text):
        self.figures.append(text)
        print(f"   {text}", flush=True)

    def left_s(self):
        return self.deadline - time.monotonic()

    def run(self, name, command, codes=(0,), env=None, limit_s=None):
        """Runs a program with its output in NAME.out and NAME.err. Returns the output, or None after
        noting that its exit status was not in `codes` (signals: 128 + number) or it took too long."""
        allowed = min(self.left_s(), limit_s or self.left_s())
        out, err = self.folder / f"{name}.out", self.folder / f"{name}.err"
        if allowed < 0.5:
            self.bad(f"{name}: no time is left")
            return None
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdout=out_file,
                stderr=err_file,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
            self.plan.child = child
            try:
                code = child.wait(allowed)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.plan.end_child()
        if code is None:
            self.bad(f"{name}: stopped after {allowed:.0f} s")
        elif (128 - code if code < 0 else code) not in codes:
            last = err.read_text(errors="replace").strip().splitlines()[-1:] or [""]
            self.bad(f"{name}: exit code {128 - code if code < 0 else code} ({last[0][:200]})")
        else:
            return out.read_text(errors="replace")
        return None

    def need(self, value):
        """Returns `value`, the result of a program that the rest of the step needs; ends the step on None."""
        if value is None:
            raise Stop
        return value

    def json(self, name, command, **options):
        text = self.run(name, command, **options)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            self.bad(f"{name}: no JSON: {error}")
            return None


class Plan:
    """All steps, [(name, budget_s, function)], and their results."""

    def __init__(self, out, settings, steps, limit_s):
        self.out, self.settings, self.steps = Path(out), settings, steps
        self.end = time.monotonic() + limit_s - END_S
        self.rows = []
        self.child = None

    def end_child(self):
        child, self.child = self.child, None
        if child is None:
            return
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def run_step(self, name, budget_s, function):
        left_s = self.end - time.monotonic()
        if left_s < LEAST_S:
            self.rows.append((name, 0, "NOT RUN", ["no time is left"]))
            return
        print(f"== {name}, at most {min(left_s, budget_s):.0f} s", flush=True)
        step = Step(self, name, min(left_s, budget_s))
        try:
            function(step)
        except Stop:
            pass
        except Exception as error:  # an error must not prevent the other steps
            step.bad(f"{type(error).__name__}: {error}")
        if not step.figures and not step.left_out:
            step.bad("no figure came of it")
        verdict = "FAILED" if step.wrong else "left out" if step.left_out else "held"
        self.rows.append(
            (
                name,
                time.monotonic() - step.begun,
                verdict,
                step.wrong + [step.left_out] * bool(step.left_out) + step.figures,
            )
        )

    def table(self):
        lines = [f"{'step':<10} {'s':>5}  {'verdict':<8}  figures"]
        for name, seconds, verdict, texts in self.rows:
            lines.append(f"{name:<10} {seconds:5.0f}  {verdict:<8}  {texts[0] if texts else ''}")
            lines += [f"{'':<27}{text}" for text in texts[1:]]
        missing = [name for name, _, _ in self.steps if name not in [row[0] for row in self.rows]]
        lines += [f"{name:<10} {'':>5}  NOT RUN" for name in missing]
        return "\n".join(lines) + "\n"

    def write(self):
        (self.out / "table.txt").write_text(self.table())
        if self.settings["pack"]:
            self.pack(Path(self.settings["pack"]))

    def pack(self, folder):
        """Packs the table and all other files into a few files, the smallest first, so that logs are
        included even if the rest is too large."""
        folder.mkdir(parents=True, exist_ok=True)
        made = self.out / "packed.tgz"
        files = sorted(
            (
                path
                for path in self.out.rglob("*")
                if path.is_file()
                and path != made
                and path.relative_to(self.out).parts[0] not in ("build", "prefix", "wheels")
            ),
            key=lambda path: path.stat().st_size,
        )
        with tarfile.open(made, "w:gz", compresslevel=1) as archive:
            for path in files:
                archive.add(path, path.relative_to(self.out))
                if archive.fileobj.tell() > PACKED_FILES * PACKED_BYTES:
                    break
        with open(made, "rb") as archive:
            for part in range(PACKED_FILES):
                bytes_ = archive.read(PACKED_BYTES)
                if bytes_:
                    (folder / f"results.tgz.{part:02}").write_bytes(bytes_)
        made.unlink()
        shutil.copy(self.out / "table.txt", folder)

    def run(self, names):
        def stopped(number, _):
            self.end_child()
            self.rows.append(("signal", 0, "FAILED", [signal.Signals(number).name]))
            self.finish()

        signal.signal(signal.SIGTERM, stopped)
        signal.signal(signal.SIGINT, stopped)
        for step in self.steps:
            if not names or step[0] in names:
                self.run_step(*step)
                self.write()
        if names:
            self.steps = [step for step in self.steps if step[0] in names]
        self.finish()

    def finish(self):
        self.write()
        print(self.table(), flush=True)
        held = all(row[2] in ("held", "left out") for row in self.rows)
        sys.exit(0 if held and len(self.rows) >= len(self.steps) else 1)
