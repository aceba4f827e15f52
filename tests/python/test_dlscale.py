"""Tests the package python/dlscale against the program that it runs (standard library only). With a folder
of programs as argument it tests the package in the sources, else the installed one.
"""

import ast
import contextlib
import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
    os.environ["DLSCALE_BIN"] = os.path.abspath(sys.argv.pop(1))
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import dlscale  # noqa: E402

POINT = dict(workload="resnet50", machine="2xrtx3090", batch_per_worker=32)
ROOT = Path(__file__).resolve().parents[2]
HAS_PANDAS = importlib.util.find_spec("pandas") is not None


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

    def test_best(self):
        r = dlscale.simulate(workers=[2, 1], mode=["none", "allreduce"], batch_per_worker=[32, 100000],
                             workload="resnet50", machine="2xrtx3090")
        self.assertEqual((r.best["workers"], r.best["sync"], r.best["batch"]), (2, "none", 64))
        self.assertIsNone(dlscale.Result([], "").best)

    def test_text_notes_and_assumptions(self):
        r = dlscale.simulate(workers=2, mode="allreduce", **POINT)
        self.assertTrue(str(r).startswith("resnet50 on 2xrtx3090\n2 GPUs, allreduce: "))
        self.assertNotIn("results.csv", str(r))
        self.assertIn('<pre style="font-family:monospace">resnet50 on', r._repr_html_())
        self.assertNotIn("\n> ", r._repr_html_())
        self.assertTrue(any("estimated" in note for note in r.notes))
        self.assertIn("overlap", [each["key"] for each in r.assumed])

    def test_page(self):
        r = dlscale.simulate(workers=2, mode="allreduce", html=True, **POINT)
        self.assertIn("<title>resnet50 on 2xrtx3090</title>", r.page)
        self.assertIn("&lt;title&gt;resnet50 on 2xrtx3090&lt;/title&gt;", r._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            r = dlscale.simulate(workers=2, mode="allreduce", html=path, **POINT)
            self.assertEqual(path.read_text(encoding="utf-8"), r.page)

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

    @unittest.skipUnless(HAS_PANDAS, "no pandas")
    def test_data_frame(self):
        r = dlscale.simulate(workers=[1, 2], mode="allreduce", **POINT)
        self.assertEqual(list(r.df["workers"]), [1, 2])

    @unittest.skipUnless(HAS_PANDAS, "no pandas")
    def test_values_of_numpy_and_pandas(self):
        import numpy
        import pandas

        for workers in (numpy.array([1, 2]), numpy.logspace(0, 1, 2, base=2), pandas.Series([1, 2]),
                        pandas.Index([1, 2])):
            r = dlscale.simulate(workers=workers, mode="allreduce", **POINT)
            self.assertEqual([row["workers"] for row in r], [1, 2])
        r = dlscale.simulate(workload=["resnet18", "resnet34"], machine="2xrtx3090",
                             workers=numpy.array([1, 2]), batch_per_worker=8, mode="allreduce")
        self.assertEqual([row["workers"] for row in r], [1, 2, 1, 2])
        r = dlscale.simulate(workers=numpy.int64(2), mode="allreduce", no_scale=numpy.bool_(False),
                             set={"exchange.overlap": numpy.array([True, False])}, **POINT)
        self.assertEqual([row["overlap"] for row in r], ["yes", "no"])

    def test_values(self):
        def given(**options):
            return dlscale._arguments(options)

        self.assertEqual(given(workers=range(1, 4), batch=(8.0, 2.5), mode=(m for m in ("ps", "none"))),
                         ["--workers=1,2,3", "--batch=8,2.5", "--mode=ps,none"])
        self.assertEqual(given(costs=Path("a", "b.ini"), quick=True, long=False, price=None,
                               set={"sync.k": None, "sync.n": 4}),
                         ["--costs=a/b.ini", "--quick", "--set=sync.n=4"])
        self.assertEqual(given(layout={"tp": 2, "pp": 2}), ["--layout=tp=2,pp=2"])
        with self.assertRaisesRegex(TypeError, "set: expected a dict .* 'sync.k=2'"):
            given(set="sync.k=2")

    def test_true_for_an_option_with_a_value(self):
        with self.assertRaisesRegex(TypeError, "^batch_per_worker=True: a value is needed"):
            dlscale.simulate(workload="gpt2", machine="8xh100", batch_per_worker=True)

    def test_a_list_of_workloads(self):
        options = dict(machine="2xrtx3090", workers=2, batch_per_worker=8, mode="allreduce")
        names = ["resnet50", "resnet18"]
        r = dlscale.simulate(workload=names, **options)
        alone = [dlscale.simulate(workload=name, **options) for name in names]
        self.assertEqual([row["workload"] for row in r], names)
        self.assertEqual([row["throughput_per_s"] for row in r],
                         [each[0]["throughput_per_s"] for each in alone])
        self.assertEqual(str(r), f"{alone[0]}\n\n{alone[1]}")
        self.assertEqual(len(r.assumed), sum(len(each.assumed) for each in alone))
        for wrong, words in (({"workload": []}, "empty"), ({"workload": names, "html": True}, "html")):
            with self.assertRaisesRegex(TypeError, words):
                dlscale.simulate(**{**options, **wrong})

    @unittest.skipUnless(HAS_PANDAS, "no pandas")
    def test_measured_data_frame(self):
        import pandas

        measured = pandas.DataFrame({"workers": [1, 2], "batch": [32, 64], "sync": "allreduce",
                                     "throughput_per_s": [300.5, 580], "source": "here"})
        r = dlscale.simulate(workers=[1, 2], mode="allreduce", measured=measured, **POINT)
        self.assertEqual([row["measured_per_s"] for row in r], [300.5, 580])

    def test_a_list_of_layouts_is_swept(self):
        layouts, options = [{"tp": 2}, "pp=2"], dict(workload="gpt2", machine="8xh100", workers=2,
                                                     batch_per_worker=8, mode="allreduce")
        for r in (dlscale.simulate(layout=layouts, **options),
                  dlscale.simulate(set={"machine.layout": layouts}, **options)):
            self.assertEqual([row["layout"] for row in r], ["tp=2", "pp=2"])


class Page(unittest.TestCase):
    """docs/python.md: its examples of predictions run, and the first one prints the lines on the
    page."""

    def test_examples(self):
        """Examples up to the training loop; those with pandas if it is installed."""
        page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").split("## From a training loop")[0]
        names, printed, compared = {}, "", 0
        for kind, text in re.findall(r"```(\w+)\n(.*?)```", page, re.S):
            if kind == "python" and ("pandas" not in text or HAS_PANDAS):
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(text, names)
                printed = output.getvalue()
            elif kind == "text" and printed:
                self.assertEqual(printed[:len(text)], text)
                printed, compared = "", compared + 1
        self.assertEqual(compared, 2 if HAS_PANDAS else 1)
        self.assertEqual(round(names["r"].rows[-1]["throughput_per_s"], 2), 1187.42)
        self.assertEqual(names["best"][0]["rank"], 1)


class Notebook(unittest.TestCase):
    """docs/examples/dlscale.ipynb: its cells run, and give the stored outputs (except pandas'
    tables)."""

    def run_cell(self, source, names):
        tree = ast.parse(source)
        last = tree.body.pop().value if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, "cell", "exec"), names)
            value = eval(compile(ast.Expression(last), "cell", "eval"), names) if last else None
        return printed.getvalue() + ("" if value is None else repr(value))

    def test_cells(self):
        path = ROOT / "docs" / "examples" / "dlscale.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        names, compared = {}, 0
        for cell in [cell for cell in cells if cell["cell_type"] == "code"]:
            of_pandas = "pandas" in cell["metadata"].get("tags", [])
            if of_pandas and not HAS_PANDAS:
                continue
            output = self.run_cell("".join(cell["source"]), names)
            stored = [each.get("text") or each["data"]["text/plain"] for each in cell["outputs"]]
            if not of_pandas:
                self.assertEqual(output, "".join(map("".join, stored)))
                compared += 1
        self.assertGreaterEqual(compared, 5)

    def test_names_no_folder(self):
        text = (ROOT / "docs" / "examples" / "dlscale.ipynb").read_text(encoding="utf-8")
        self.assertNotRegex(text, r"/(home|root|work|tmp|Users)/")


class Errors(unittest.TestCase):
    def test_text_is_the_programs(self):
        with self.assertRaises(dlscale.Error) as caught:
            dlscale.simulate(workload="resnet51", machine="2xrtx3090", workers=1, batch_per_worker=1)
        self.assertIn("resnet50", caught.exception.text)
        with self.assertRaisesRegex(dlscale.Error, "unknown option '--worcers'.*--workers") as caught:
            dlscale.simulate(worcers=1)
        self.assertEqual(caught.exception.code, 2)

    def test_nothing_fits(self):
        with self.assertRaisesRegex(dlscale.Unfit, "too much; what fits: --batch-per-worker"):
            dlscale.simulate(workload="resnet50", machine="2xrtx3090", workers=1,
                             batch_per_worker=100000, mode="allreduce")

    def test_results_are_not_written(self):
        with self.assertRaises(TypeError):
            dlscale.simulate(workers=1, output="x.csv", **POINT)

    def test_options_without_results(self):
        with self.assertRaisesRegex(TypeError, "no results.*keys"):
            dlscale.simulate(keys=True)

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


class Programs(unittest.TestCase):
    def setUp(self):
        try:
            dlscale._program("dlcal")
        except dlscale.Error:
            self.skipTest("no dlcal")

    def test_costs_of_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "costs.ini")
            text = dlscale.costs(ROOT / "tests" / "clients" / "traces" / "resnet50_h200.dlt", path, batch=64)
            self.assertIn("64 samples, 11 steps of 32.5 ms", text)
            r = dlscale.simulate(costs=path, machine="p5e.48xlarge", workers=1, batch_per_worker=64,
                                 mode="allreduce")
        self.assertAlmostEqual(r[0]["throughput_per_s"], 1974, delta=1)

    def test_costs_of_two_batch_sizes(self):
        traces = [ROOT / "tests" / "clients" / "traces" / f"mlp_ddp1_b{batch}.json.gz" for batch in (16, 64)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "costs.ini")
            dlscale.costs(traces, path, batch=[16, 64])
            text = path.read_text(encoding="utf-8")
        self.assertIn("batch_min = 16\nbatch_max = 64", text)

    def test_refusals(self):
        with self.assertRaisesRegex(dlscale.Error, "nothing.json: cannot open"):
            dlscale.costs("nothing.json", "costs.ini")


class Other(unittest.TestCase):
    def test_advise_ranks(self):
        r = dlscale.advise(workers=2, mode="allreduce", max_points=20, **POINT)
        self.assertEqual([row["rank"] for row in r[:3]], [1, 2, 3])
        self.assertEqual(r[0]["mode"], "allreduce")
        self.assertIs(r.best, r[0])

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
        wanted = []
        profiler.profile = lambda activities, record_shapes: wanted.append(activities) or Recorder()
        profiler.ProfilerActivity = types.SimpleNamespace(CPU=0, CUDA=1)
        torch = types.ModuleType("torch")
        torch.profiler = profiler
        torch.cuda = types.SimpleNamespace(is_available=lambda: False)
        group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
        torch.distributed = group
        saved = {name: sys.modules.get(name) for name in ("torch", "torch.profiler")}
        sys.modules.update({"torch": torch, "torch.profiler": profiler})
        try:
            with dlscale.profile("t.json"):
                self.assertEqual(written, [])
            self.assertEqual(written, ["t.json"])
            self.assertEqual(wanted, [[0]])
            group.is_initialized, group.get_rank = lambda: True, lambda: 1
            with dlscale.profile("of_rank_1.json"):
                pass
            group.get_rank = lambda: 0
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
