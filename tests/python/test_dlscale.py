"""The package python/dlscale against the program that it runs (standard library only). With a folder
of programs as argument it tests the package of the sources, else the installed one."""

import contextlib
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
if len(sys.argv) > 1:
    os.environ["DLSCALE_BIN"] = os.path.abspath(sys.argv.pop(1))
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import dlscale  # noqa: E402

POINT = dict(workload="resnet50", machine="2xrtx3090", batch_per_worker=32)


class Simulate(unittest.TestCase):
    def test_rows_are_those_of_the_program(self):
        r = dlscale.simulate(workers=[1, 2], mode=["allreduce", "none"], **POINT)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.csv")
            subprocess.run([dlscale._program("dlsim"), "-q", "--workload=resnet50", "--machine=2xrtx3090",
                            "--batch-per-worker=32", "--workers=1,2", "--mode=allreduce,none", "-o", path],
                           check=True)
            with open(path, newline="") as file:
                table = list(csv.reader(line for line in file if not line.startswith("#")))
        self.assertEqual(r.columns, table[0])
        self.assertEqual(len(r), 4)
        self.assertEqual([row["throughput_per_s"] for row in r],
                         [float(row[table[0].index("throughput_per_s")]) for row in table[1:]])
        self.assertEqual([row["sync"] for row in r], ["allreduce", "none", "allreduce", "none"])
        self.assertIsInstance(r[0]["workers"], int)
        self.assertIsNone(r[0]["interval"])

    def test_text_notes_and_assumptions(self):
        r = dlscale.simulate(workers=2, mode="allreduce", **POINT)
        self.assertTrue(str(r).startswith("resnet50 on 2xrtx3090\n2 GPUs, allreduce: "))
        self.assertNotIn("results.csv", str(r))
        self.assertIn("&gt;" if ">" in str(r) else "<pre>", r._repr_html_())
        self.assertTrue(any("estimated" in note for note in r.notes))
        self.assertIn("overlap", [each["key"] for each in r.assumed])

    def test_keys_and_scenario_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a b.ini")
            path.write_text("[machine]\nfile = 2xrtx3090\nworkers = 1\n[workload]\nmodel = resnet50\n"
                            "batch_per_worker = 32\n[sync]\nmode = allreduce\n")
            r = dlscale.simulate(path, workers=2, set={"exchange.overlap": [True, False]})
            self.assertEqual([row["overlap"] for row in r], ["yes", "no"])
            self.assertEqual([name for name in os.listdir(folder)], ["a b.ini"])

    def test_cells(self):
        self.assertEqual(dlscale._cell("1;2.5;"), [1, 2.5, None])
        self.assertEqual([dlscale._cell(cell) for cell in ("", "4", "1e-3", "compute")],
                         [None, 4, 0.001, "compute"])

    def test_data_frame(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")
        r = dlscale.simulate(workers=[1, 2], mode="allreduce", **POINT)
        self.assertEqual(list(r.df["workers"]), [1, 2])


class Page(unittest.TestCase):
    """docs/python.md: its examples of predictions run, and the first prints what the page shows."""

    def test_examples(self):
        page = Path(__file__).resolve().parents[2] / "docs" / "python.md"
        blocks = re.findall(r"```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        shown = next(text for kind, text in blocks if kind == "text")
        names = {}
        for code in [text for kind, text in blocks if kind == "python"][:2]:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, names)
            if shown is not None:
                self.assertTrue(printed.getvalue().startswith(shown), printed.getvalue())
                shown = None
        self.assertEqual(round(names["r"].rows[-1]["throughput_per_s"], 2), 1187.42)
        self.assertEqual(names["best"][0]["rank"], 1)


class Errors(unittest.TestCase):
    def test_text_is_the_programs(self):
        with self.assertRaises(dlscale.Error) as caught:
            dlscale.simulate(workload="resnet51", machine="2xrtx3090", workers=1, batch_per_worker=1)
        self.assertIn("resnet50", caught.exception.text)
        with self.assertRaisesRegex(dlscale.Error, "unknown option '--worcers'.*--workers") as caught:
            dlscale.simulate(worcers=1)
        self.assertEqual(caught.exception.code, 2)

    def test_nothing_fits(self):
        with self.assertRaisesRegex(dlscale.Unfit, "GB"):
            dlscale.simulate(workload="resnet50", machine="2xrtx3090", workers=1,
                             batch_per_worker=100000, mode="allreduce")

    def test_results_are_not_written(self):
        with self.assertRaises(TypeError):
            dlscale.simulate(workers=1, output="x.csv", **POINT)

    def test_no_program(self):
        before = os.environ.get("DLSCALE_BIN")
        os.environ["DLSCALE_BIN"] = "/nowhere"
        try:
            with self.assertRaisesRegex(dlscale.Error, "DLSCALE_BIN"):
                dlscale.version()
        finally:
            del os.environ["DLSCALE_BIN"]
            if before is not None:
                os.environ["DLSCALE_BIN"] = before


class Other(unittest.TestCase):
    def test_advise_ranks(self):
        r = dlscale.advise(workers=2, mode="allreduce", max_points=20, **POINT)
        self.assertEqual(r[0]["rank"], 1)
        self.assertGreaterEqual(r[0]["throughput_per_s"], r[1]["throughput_per_s"])

    def test_solve_finds_the_target(self):
        r = dlscale.solve("sync.interval", {"utilisation_frac": 0.9}, workload="resnet50", workers=8,
                          machine="8xrtx3090", batch_per_worker=32, mode="average")
        near = dlscale.simulate(workload="resnet50", workers=8, machine="8xrtx3090", mode="average",
                                batch_per_worker=32, interval=round(r[0]["solved_interval"]))
        self.assertAlmostEqual(near[0]["compute_frac"], 0.9, delta=0.05)

    def test_lists(self):
        self.assertIn("dgx_h100", dlscale.machines())
        self.assertIn("resnet50", dlscale.workloads())
        self.assertRegex(dlscale.version(), r"^\d+\.\d+\.\d+$")

    def test_profile_writes_after_the_loop(self):
        """With a double of PyTorch's profiler."""
        written = []

        class Recorder:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return False

            def export_chrome_trace(self, path):
                written.append(path)

        profiler = types.ModuleType("torch.profiler")
        profiler.profile = lambda activities: Recorder()
        profiler.ProfilerActivity = types.SimpleNamespace(CPU=0, CUDA=1)
        torch = types.ModuleType("torch")
        torch.profiler = profiler
        saved = {name: sys.modules.get(name) for name in ("torch", "torch.profiler")}
        sys.modules.update({"torch": torch, "torch.profiler": profiler})
        try:
            with dlscale.profile("t.json"):
                self.assertEqual(written, [])
            self.assertEqual(written, ["t.json"])
            with self.assertRaises(ValueError), dlscale.profile("u.json"):
                raise ValueError
            self.assertEqual(written, ["t.json"])
        finally:
            for name, module in saved.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module


if __name__ == "__main__":
    unittest.main()
