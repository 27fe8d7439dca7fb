#!/usr/bin/env python3
"""The Python package: scenarios that it builds are those of a file, results that it reads are those that the program wrote,
and what goes wrong is an exception with the program's words. HEDDLE_PROGRAM names the program."""

import csv
import importlib.util
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "platforms/python"))

import heddle  # noqa: E402  pylint: disable=wrong-import-position
from heddle._program import options_of, settings_of  # noqa: E402  pylint: disable=wrong-import-position

os.environ.setdefault("HEDDLE_PROGRAM", str(ROOT / "build/release/heddle"))
HAS_PROGRAM = Path(os.environ["HEDDLE_PROGRAM"]).is_file()


def small():
    made = heddle.Scenario("two kernels", gpu="small")
    made.kernel("gemm", grid=(16, 4), block=256, registers=64, shared="48 KiB", cycles=2000)
    made.kernel("softmax", grid=64, block=128, cycles={"min": 500, "max": 1500})
    copied = made.copy("1 MiB", stream="copies", for_="3 us")
    made.launch("gemm", after=copied, repeat=3)
    made.launch("softmax", at="10 us")
    made.expect("gpu0.cwd.ctas_launched", equals=256)
    return made


class InFolder(unittest.TestCase):
    """Every test in a folder of its own, which is the current one meanwhile."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(scratch.name)


def stub(test, text):
    """A program in the place of heddle: a script of Python that has the arguments behind the command in `words`."""
    path = Path("stub").resolve()
    path.write_text(f"#!{sys.executable} -B\nimport json, os, signal, sys, time\n"
                    f"if sys.argv[1:] == ['version']: print('heddle {heddle.__version__}'); sys.exit()\n"
                    f"words = sys.argv[2:]\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    before = os.environ["HEDDLE_PROGRAM"]
    test.addCleanup(os.environ.__setitem__, "HEDDLE_PROGRAM", before)
    os.environ["HEDDLE_PROGRAM"] = str(path)
    return path


class Number:
    """A number as numpy has them."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class WithoutProgramTest(InFolder):
    @unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML is not installed")
    def test_every_shipped_scenario_comes_back(self):
        import yaml  # pylint: disable=import-outside-toplevel
        found = 0
        for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            if "heddle" not in data:
                continue
            made = heddle.Scenario.load(path)
            for kernel in data.get("kernels", []):
                if "ptx" in kernel:  # wherever it is saved
                    kernel["ptx"] = str((path.parent / kernel["ptx"]).resolve())
            self.assertEqual(made.to_dict(), data, path)
            self.assertEqual(list(made.to_dict()), list(data), path)
            made.save("copy.yaml")
            self.assertEqual(yaml.safe_load(Path("copy.yaml").read_text(encoding="utf-8")), data, path)
            self.assertEqual(json.loads(made.text()), data, path)
            found += 1
        self.assertGreater(found, 80)

    def test_operations_of_packets_are_a_list_in_a_map(self):
        made = heddle.Scenario("x", submit={"by": "aql", "operations": [{"id": "op1", "kernel": "k", "stream": "a"}]})
        self.assertEqual([made.launch("k", stream="a"), made.launch("k")], ["op2", "op3"])
        self.assertEqual(made.to_dict()["submit"]["by"], "aql")
        self.assertEqual([one["id"] for one in made.to_dict()["submit"]["operations"]], ["op1", "op2", "op3"])
        empty = heddle.Scenario("x", submit={"by": "tmdq"})
        self.assertEqual(empty.launch("k"), "op0")

    def test_ids_are_looked_at_once(self):
        made = heddle.Scenario("x")
        looks = []

        class Entry(dict):
            def get(self, *arguments):
                looks.append(1)
                return super().get(*arguments)

        made.data["submit"] = [Entry(id=f"a{i}") for i in range(100)]
        self.assertEqual([made.launch("k") for _ in range(100)], [f"op{i}" for i in range(100, 200)])
        self.assertEqual(len(looks), 100)
        made.data["submit"] = [{"id": "op1"}]  # another list
        self.assertEqual(made.launch("k"), "op2")

    def test_paths_and_numbers_of_numpy_are_values(self):
        made = heddle.Scenario("x", seed=Number(3))
        made.memory("a", init={"file": Path("a.bin")})
        made.kernel("k", grid=(Number(4), 2), block=32, cycles={"min": Number(5), "max": 6})
        data = json.loads(made.text())
        self.assertEqual(data["seed"], 3)
        self.assertEqual(data["memory"][0]["init"]["file"], str(Path("a.bin").resolve()))
        self.assertEqual((data["kernels"][0]["grid"], data["kernels"][0]["cycles"]), ([4, 2], {"min": 5, "max": 6}))
        self.assertEqual(settings_of({"a": Number(7), "b": (Number(1),), "c": Number(True)}),
                         ["--set", "a=7", "--set", "b=[1]", "--set", "c=true"])
        self.assertEqual(options_of({"counters": Path("x.csv"), "seed": Number(2), "quiet": Number(False)}),
                         ["--counters", "x.csv", "--seed", "2"])
        self.assertEqual(heddle.axis("x", values=[Number(1), Path("p")])["values"], [1, "p"])

    def test_a_program_that_ends_without_results(self):
        stub(self, "os.kill(os.getpid(), signal.SIGKILL)")
        with self.assertRaises(heddle.Stopped) as caught:
            heddle.run(small())
        self.assertEqual((caught.exception.status, caught.exception.run), (-9, None))
        for status, kind in ((1, heddle.ExpectationFailed), (3, heddle.NoProgress), (5, heddle.Stopped), (0, heddle.InternalError)):
            stub(self, f"sys.exit({status})")
            for check in (True, False):
                with self.assertRaises(kind):
                    heddle.run(small(), check=check)
        # Results of an earlier run in the folder are not those of this one.
        Path("out").mkdir()
        Path("out/stats.json").write_text("{}", encoding="utf-8")
        with self.assertRaises(heddle.ExpectationFailed) as caught:
            stub(self, "sys.exit(1)")
            heddle.run(small(), out="out")
        self.assertIsNone(caught.exception.run)

    def test_options_that_simulate_nothing_are_refused(self):
        for option in ("dump_config", "dump-config", "help", "out_", "set_"):
            with self.assertRaisesRegex(TypeError, option):
                heddle.run(small(), **{option: "x"})
        self.assertFalse(Path("heddle-out").exists())

    def test_no_files_are_not_the_shipped_scenario(self):
        with self.assertRaisesRegex(ValueError, "empty"):
            heddle.run([])
        with self.assertRaisesRegex(ValueError, "empty"):
            heddle.sweep([], {"gpu.l2.slices": [1]})
        with self.assertRaises(TypeError):
            heddle.sweep()

    def test_exceptions_say_what_failed(self):
        output = "title\n  met:     a = 1\n  FAILED:  b = 2, but is 3\n  FAILED:  c\n  note: none\n"
        self.assertEqual(str(heddle.ExpectationFailed(1, output, "")), "FAILED: b = 2, but is 3")
        self.assertEqual(str(heddle.ExpectationFailed(1, "  FAULT:   gpu0: x\n", "")), "FAULT: gpu0: x")
        self.assertEqual(str(heddle.ExpectationFailed(1, "  RACE:    gpu0: y\n", "")), "RACE: gpu0: y")
        self.assertEqual(str(heddle.ExpectationFailed(1, "  note: a\n  note: b\n", "")), "note: b")
        self.assertEqual(str(heddle.ExpectationFailed(1, "", "heddle: s:\n  FAILED:  b\n")), "FAILED: b")  # --quiet
        self.assertEqual(str(heddle.NoProgress(3, output, "heddle: no progress: x\n  chain\n")), "no progress: x\n  chain")

    def test_exceptions_go_through_pickle(self):
        said = heddle.BadInput(2, "out", "heddle: s.yaml:7:3: unknown\n  did you mean?\n", None)
        for one in (said, heddle.ProgramMissing("not there\n  install it")):
            again = pickle.loads(pickle.dumps(one))
            self.assertIs(type(again), type(one))
            self.assertEqual((again.__dict__, again.args), (one.__dict__, one.args))

    def test_the_program_beside_the_package(self):
        from heddle._program import _beside  # pylint: disable=import-outside-toplevel
        for site in ("lib/python3/dist-packages", "lib/python3.11/site-packages", "lib64/python3.9/site-packages"):
            self.assertEqual(_beside(Path("/opt/x") / site / "heddle"), [Path("/opt/x/bin/heddle")])
        # A folder above that has a bin is no prefix.
        self.assertEqual(_beside(Path("/home/me/project/lib/heddle")), [])
        self.assertEqual(_beside(Path("/home/me/python/heddle")), [])
        root = Path("tree").resolve()
        for preset in ("debug", "release"):
            (root / "build" / preset).mkdir(parents=True)
            (root / "build" / preset / "heddle").touch()
        (root / "CMakeLists.txt").touch()
        self.assertEqual(_beside(root / "platforms/python/heddle"), [root / "build/release/heddle", root / "build/debug/heddle"])

    def test_a_program_of_another_version_is_refused(self):
        path = stub(self, "sys.exit(0)")
        path.write_text("#!/bin/sh\necho heddle 9.9.9\n", encoding="utf-8")
        with self.assertRaisesRegex(heddle.ProgramMissing, "is version 9.9.9; this package is for 0"):
            heddle.presets()
        path.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
        os.utime(path, ns=(1, 1))
        with self.assertRaisesRegex(heddle.ProgramMissing, "does not say its version"):
            heddle.presets()
        path.write_text("no program", encoding="utf-8")
        os.utime(path, ns=(2, 2))
        with self.assertRaisesRegex(heddle.ProgramMissing, "cannot be started"):
            heddle.presets()

    def test_an_interruption_of_python_alone_reaches_the_program(self):
        # As in a notebook, where no terminal tells the program.
        stub(self, "def told(number, frame):\n    open('told', 'a').write('x'); signal.signal(number, signal.SIG_DFL); "
                   "time.sleep(2); sys.exit(130)\n"
                   "signal.signal(signal.SIGINT, told)\nopen('ready', 'w').close()\ntime.sleep(60)")
        script = Path("alone.py")
        script.write_text(f"import sys; sys.path.insert(0, {str(ROOT / 'platforms/python')!r})\nimport heddle\n"
                          "try:\n    heddle.run()\nexcept KeyboardInterrupt:\n    print('interrupted')\n", encoding="utf-8")
        for whole in (False, True):
            for name in ("told", "ready"):
                Path(name).unlink(missing_ok=True)
            with subprocess.Popen([sys.executable, "-B", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
                for _ in range(600):
                    if Path("ready").is_file():
                        break
                    time.sleep(0.05)
                if whole:
                    os.killpg(process.pid, signal.SIGINT)
                else:
                    process.send_signal(signal.SIGINT)
                output, _ = process.communicate(timeout=40)
            self.assertEqual(output, "interrupted\n")
            self.assertEqual(Path("told").read_text(encoding="utf-8"), "x")  # once, and it could write what it had

    def test_other_ends_of_python_end_the_program(self):
        stub(self, "open('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")

        class Late(Exception):
            pass

        def late(*_):
            raise Late

        before = signal.signal(signal.SIGALRM, late)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 2)
        with self.assertRaises(Late):
            heddle.run()
        self.assertLess(time.monotonic() - begin, 30)
        if Path("pid").is_file():
            with self.assertRaises(ProcessLookupError):
                os.kill(int(Path("pid").read_text(encoding="utf-8")), 0)

    def test_a_scenario_is_no_result_and_goes_with_its_results(self):
        stub(self, "out = words[words.index('--out') + 1]\n"
                   "open(out + '/host.json', 'w').write(json.dumps({'command': 'heddle run ' + ' '.join(words)}))\n"
                   "open(out + '/stats.json', 'w').write(json.dumps({'stats': {}}))")
        heddle.run(heddle.Scenario("stats"), out="there")
        self.assertEqual(heddle.run(heddle.Scenario("host"), out="there").data, {"stats": {}})
        self.assertFalse(Path("there/stats.scenario.json").exists())
        self.assertTrue(Path("there/host.scenario.json").exists())
        Path("there/mine.scenario.json").touch()  # somebody else's
        heddle.run("other.yaml", out="there")
        self.assertEqual(sorted(path.name for path in Path("there").iterdir()), ["host.json", "mine.scenario.json", "stats.json"])

    def test_sweeps_name_files_and_folders(self):
        written = stub(self, "sys.exit(2)")
        os.environ["HEDDLE_PROGRAM"] = str(written)

        def swept(*arguments, **keys):
            before = {path: path.read_text(encoding="utf-8") for path in Path(".").rglob("*.json")}
            with self.assertRaises(heddle.BadInput):
                heddle.sweep(*arguments, **keys)
            (file,) = [path for path in Path(".").rglob("*.json")
                       if not path.name.endswith(".scenario.json") and before.get(path) != path.read_text(encoding="utf-8")]
            return file, json.loads(file.read_text(encoding="utf-8"))

        here = Path(".").resolve()
        Path("m.yaml").touch()
        file, data = swept(["a.b.json.gz", "c.json"], {"gpu.l2.slices": [1, 2]})
        self.assertEqual(str(file), "heddle-out/a.b.sweep/a.b.json")
        self.assertEqual(data["run"], [str(here / "a.b.json.gz"), str(here / "c.json")])
        axes = [heddle.axis(option="file", values=["x.1.json", Path("y.json")]),
                {"zip": [heddle.axis(option="gpu", values=["small", "m.yaml"]), heddle.axis("gpu.clock", values=[1, 2])]}]
        file, data = swept(None, axes, options={"counters": "m.yaml", "no_baseline": True})
        self.assertEqual(str(file), "heddle-out/x.1.sweep/x.1.json")
        self.assertNotIn("run", data)
        self.assertEqual(data["axes"][0], {"option": "file", "values": [str(here / "x.1.json"), str(here / "y.json")],
                                           "labels": ["x.1.json", "y.json"]})
        self.assertEqual(data["axes"][1]["zip"][0]["values"], ["small", str(here / "m.yaml")])
        self.assertEqual(data["options"], {"counters": str(here / "m.yaml"), "no-baseline": True})
        # Another scenario of the same name is another folder; more values are the same one.
        first, _ = swept(small(), {"gpu.l2.slices": [1]})
        grown, _ = swept(small(), {"gpu.l2.slices": [1, 2]})
        other = small()
        other.data["kernels"][0]["cycles"] = 7
        second, _ = swept(other, {"gpu.l2.slices": [1]})
        self.assertEqual((first, grown), (Path("heddle-out/two_kernels.sweep/two_kernels.json"),) * 2)
        self.assertEqual(second, Path("heddle-out/two_kernels.2.sweep/two_kernels.json"))
        swept(small(), {"gpu.l2.slices": [1]}, out="out")
        for name in (None, "renamed"):
            with self.assertRaisesRegex(ValueError, "another scenario"):
                heddle.sweep(other, {"gpu.l2.slices": [1]}, out="out", name=name)

    def test_ok_is_what_the_status_says(self):
        def opened(ended="well", **changes):
            Path("stats.json").write_text(json.dumps({"completed": True, "partial": False, "expectations": [], "faults": [],
                                                      "gpus": [{}], "stats": {}, **changes}), encoding="utf-8")
            Path("kernels.csv").write_text(f"name,ended\n7,{ended}\n", encoding="utf-8")
            return heddle.Run(".")

        self.assertTrue(opened().ok)
        self.assertEqual(opened().kernels, [{"name": "7", "ended": "well"}])
        self.assertTrue(opened(faults=[{"expected": True}]).ok)
        self.assertTrue(opened(completed=False, expectations=[{"ok": True}]).ok)  # expected to stand still
        self.assertFalse(opened(completed=False).ok)
        self.assertFalse(opened(partial=True).ok)
        self.assertFalse(opened(expectations=[{"ok": False}]).ok)
        self.assertFalse(opened(faults=[{"expected": True}, {"expected": False}]).ok)
        self.assertFalse(opened(gpus=[{"races": ["x"]}]).ok)
        self.assertFalse(opened(ended="rejected").ok)
        self.assertEqual([heddle.Run(".", status).ok for status in (0, 1, 3, 5)], [True, False, False, False])

    def test_columns_have_one_type_and_slices_have_columns(self):
        Path("t.csv").write_text("a,b,c,d,e\n1,1,1,7,\n2,2.5,x,8,\n,3,3,9,\n", encoding="utf-8")
        table = heddle.Table.read("t.csv", text=["d"])
        self.assertEqual(table.column("a"), [1, 2, None])
        self.assertEqual([repr(one) for one in table.column("b")], ["1.0", "2.5", "3.0"])
        self.assertEqual(table.column("c"), ["1", "x", "3"])
        self.assertEqual(table.column("d"), ["7", "8", "9"])
        self.assertEqual(table.column("e"), [None, None, None])
        self.assertEqual(table[1:].column("c"), ["x", "3"])
        self.assertEqual(table[:0].columns, ["a", "b", "c", "d", "e"])
        self.assertEqual(table[0]["a"], 1)
        again = pickle.loads(pickle.dumps(table))
        self.assertEqual((again, again.columns), (table, table.columns))

    def test_versions_are_those_of_the_project(self):
        cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        self.assertEqual(heddle.__version__, re.search(r"project\(heddle VERSION ([\d.]+)", cmake)[1])
        project = (ROOT / "platforms/python/pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('attr = "heddle._version.__version__"', project)

    def test_a_scenario_is_the_map_of_its_file(self):
        self.assertEqual(small().to_dict(), {
            "heddle": 1, "name": "two kernels", "gpu": "small",
            "kernels": [{"name": "gemm", "grid": [16, 4], "block": 256, "registers": 64, "shared": "48 KiB", "cycles": 2000},
                        {"name": "softmax", "grid": 64, "block": 128, "cycles": {"min": 500, "max": 1500}}],
            "submit": [{"id": "op0", "copy": "1 MiB", "stream": "copies", "for": "3 us"},
                       {"id": "op1", "kernel": "gemm", "stream": "main", "after": "op0", "repeat": 3},
                       {"id": "op2", "kernel": "softmax", "stream": "main", "at": "10 us"}],
            "expect": [{"stat": "gpu0.cwd.ctas_launched", "equals": 256}]})

    def test_files_that_a_scenario_names_lie_in_its_folder(self):
        made = heddle.Scenario("x", folder="data")
        made.memory("a", init={"file": "a.bin"})
        made.memory("b", "4 KiB", write="b.bin")
        made.expect(memory="a", file="/elsewhere/c.bin")
        data = made.to_dict()
        self.assertEqual(data["memory"][0]["init"]["file"], str(Path("data/a.bin").resolve()))
        self.assertEqual(data["memory"][1], {"name": "b", "bytes": "4 KiB", "write": "b.bin"})
        self.assertEqual(data["expect"][0]["file"], "/elsewhere/c.bin")
        self.assertEqual(made.data["memory"][0]["init"]["file"], "a.bin")

    def test_ids_are_made_up_without_meeting_given_ones(self):
        made = heddle.Scenario("x")
        self.assertEqual([made.launch("k", id="op1"), made.launch("k"), made.launch("k", id="last")], ["op1", "op2", "last"])
        self.assertIsNone(made.submit(group=[{"kernel": "k", "stream": "main"}]))

    def test_a_file_comes_back_as_it_was(self):
        for name in ("s.json", "s.yaml"):
            small().save(name)
            if name == "s.yaml" and importlib.util.find_spec("yaml") is None:
                continue
            self.assertEqual(heddle.Scenario.load(name).to_dict(), small().to_dict())
        Path("other.json").write_text("{}", encoding="utf-8")
        with self.assertRaisesRegex(ValueError, "no key 'heddle'"):
            heddle.Scenario.load("other.json")

    def test_parameters_of_the_machine_are_nested_by_path(self):
        made = heddle.Scenario("x")
        made.config("gpu.l2.bandwidth", 32)
        made.config("gpu.l2.slices", 40)
        made.config("gpu1.clock", 1.5)
        made.parameter("mib", 4)
        self.assertEqual(made.data["config"], {"gpu": {"l2": {"bandwidth": 32, "slices": 40}}, "gpu1": {"clock": 1.5}})
        self.assertEqual(made.data["parameters"], {"mib": 4})

    def test_options_are_those_of_the_command_line(self):
        self.assertEqual(options_of({"timing": "fast", "seed": 0, "no_baseline": True, "quiet": False, "gpu": ["a", "b"],
                                     "out": None}),
                         ["--timing", "fast", "--seed", "0", "--no-baseline", "--gpu", "a", "--gpu", "b"])
        self.assertEqual(settings_of({"gpu.shape": [18, 16], "gpu.timing": "lt", "gpu.mmu.enabled": True, "gpu.clock": 1.5}),
                         ["--set", "gpu.shape=[18, 16]", "--set", "gpu.timing=lt", "--set", "gpu.mmu.enabled=true",
                          "--set", "gpu.clock=1.5"])

    def test_tables(self):
        Path("t.csv").write_text('name,n,x,note\n"a, b",1,2.5,\nnan,-3,1e3,1_0\n', encoding="utf-8")
        table = heddle.Table.read("t.csv")
        self.assertEqual(table.columns, ["name", "n", "x", "note"])
        self.assertEqual(table, [{"name": "a, b", "n": 1, "x": 2.5, "note": None},
                                 {"name": "nan", "n": -3, "x": 1000.0, "note": "1_0"}])
        self.assertEqual(table.column("n"), [1, -3])
        self.assertEqual(table.where(n=-3).column("name"), ["nan"])
        self.assertEqual(table.sorted("n").column("n"), [-3, 1])
        self.assertEqual(table.sorted("note", reverse=True).column("note"), ["1_0", None])
        self.assertEqual(str(table), "name  n   x     note\na, b  1   2.5\nnan   -3  1000  1_0")
        self.assertIn("<td>a, b</td><td>1</td>", table._repr_html_())  # pylint: disable=protected-access
        with self.assertRaisesRegex(KeyError, "there are name, n, x, note"):
            table.column("m")
        with self.assertRaises(KeyError):
            table.where(m=1)

    def test_tables_give_pandas_their_rows_and_columns(self):
        given = types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
        with unittest.mock.patch.dict(sys.modules, pandas=given):
            rows, columns = heddle.Table([], ["a", "b"]).frame()
            self.assertEqual((rows, columns), ([], ["a", "b"]))
            rows, columns = heddle.Table([{"a": 1, "b": None}]).frame()
            self.assertEqual((rows, columns), ([{"a": 1, "b": None}], ["a", "b"]))
        with unittest.mock.patch.dict(sys.modules, pandas=None), self.assertRaises(ImportError):
            heddle.Table().frame()

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_tables_are_frames_where_pandas_is(self):
        frame = heddle.Table([{"a": 1, "b": None}, {"a": 2, "b": 0.5}]).frame()
        self.assertEqual(list(frame.columns), ["a", "b"])
        self.assertEqual(frame["a"].sum(), 3)

    def test_errors_have_the_words_of_the_program(self):
        said = heddle.BadInput(2, "", "heddle: dir/s.yaml:7:3: unknown key 'sed'\n  did you mean seed?\n")
        self.assertEqual((said.status, said.file, said.line, said.column), (2, "dir/s.yaml", 7, 3))
        self.assertEqual(said.message, "dir/s.yaml:7:3: unknown key 'sed'")
        self.assertEqual(said.remedy, "did you mean seed?")
        self.assertEqual(str(said), "dir/s.yaml:7:3: unknown key 'sed'\n  did you mean seed?")
        plain = heddle.BadInput(2, "", "heddle: there is no option --x\n  did you mean --y?\n")
        self.assertEqual((plain.file, plain.line), (None, None))
        self.assertEqual(str(heddle.Stopped(-9, "", "")), "exit status -9")

    def test_a_program_that_is_not_there(self):
        before = os.environ["HEDDLE_PROGRAM"]
        self.addCleanup(os.environ.__setitem__, "HEDDLE_PROGRAM", before)
        os.environ["HEDDLE_PROGRAM"] = "/no/such/heddle"
        with self.assertRaisesRegex(heddle.ProgramMissing, "/no/such/heddle, which cannot be started"):
            heddle.version()
        self.assertTrue(issubclass(heddle.ProgramMissing, heddle.HeddleError))


@unittest.skipUnless(HAS_PROGRAM, "no program has been built")
class WithProgramTest(InFolder):
    def test_what_the_program_knows(self):
        self.assertEqual(heddle.version(), heddle.__version__)
        presets = heddle.presets()
        self.assertIn("h100-sxm", presets.column("name"))
        (one,) = heddle.parameters("gpu.l2.bytes", gpu="a100")
        self.assertEqual((one["value"], one["unit"]), ("41943040", "B"))
        self.assertTrue(heddle.parameters(assumptions=True))
        (size,) = heddle.occupancy(threads=1024, registers=64, cluster=[2], gpu="h100-sxm")
        self.assertEqual(size["cluster"], 2)

    def test_a_run(self):
        run = heddle.run(small())
        self.assertEqual((run.status, run.ok, run.partial), (0, True, False))
        self.assertEqual(run.folder, Path("heddle-out/two_kernels"))
        document = json.loads((run.folder / "stats.json").read_text(encoding="utf-8"))
        self.assertEqual(run.stats["gpu0.cwd.ctas_launched"], 256)
        self.assertEqual(run.time_us, document["stats"]["sim.time"]["value"])
        self.assertEqual(run.stat("gpu0.*.ctas_launched"), 256)
        slices = [one["value"] for path, one in document["stats"].items() if re.fullmatch(r"gpu0\.l2\.slice\d+\.hits", path)]
        self.assertEqual(run.stat("gpu0.l2.slice*.hits", take=len), len(slices))
        self.assertEqual(run.statistics("sim.time").column("unit"), ["us"])
        with self.assertRaisesRegex(KeyError, "gpu0.cwd.ctas_launched"):
            run.stat("gpu0.ctas_launched")
        with open(run.folder / "kernels.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(run.kernels.column("name"), [row["name"] for row in rows])
        self.assertEqual(run.kernels.where(kind="kernel").column("end_ns"),
                         [float(row["end_ns"]) for row in rows if row["kind"] == "kernel"])
        self.assertEqual(run.expectations.column("ok"), [True])
        self.assertTrue(run.page.is_file() and run.config.is_file())
        with self.assertRaisesRegex(FileNotFoundError, 'dump="ctas"'):
            _ = run.ctas
        # Another run of the same name is another folder, and both stay.
        again = heddle.run(small(), timing="lt", dump="ctas")
        self.assertEqual(again.folder, Path("heddle-out/two_kernels.2"))
        self.assertEqual(len(again.ctas), 256)
        self.assertEqual(heddle.Run("heddle-out/two_kernels").time_us, run.time_us)

    def test_settings_reach_the_program(self):
        made = small()
        made.parameter("n", 32)
        made.data["kernels"][1]["grid"] = "${n}"
        run = heddle.run(made, let={"n": 64}, set={"gpu.cwd.gpc_distance": 20}, seed=3, gpu="small", out="there")
        self.assertEqual(run.data["seed"], 3)
        self.assertEqual(run.stats["gpu0.cwd.ctas_launched"], 256)
        self.assertIn("gpc_distance: 20", run.config.read_text(encoding="utf-8"))

    def test_the_default_scenario_files_and_maps_run(self):
        self.assertEqual(heddle.run(small().to_dict(), out="map").ok, True)
        path = small().save("file.json")
        self.assertEqual(heddle.run(path).folder, Path("heddle-out/file"))

    def test_regions_come_back(self):
        made = heddle.Scenario("region", gpu="small")
        Path("in.bin").write_bytes(bytes(range(256)))
        made.memory("x", init={"file": "in.bin"}, write="x.out")
        made.kernel("k", grid=1, block=32, cycles=10)
        made.launch("k")
        made.figure("one", "2 * n", {"n": {"stat": "gpu0.task.kernels"}})
        run = heddle.run(made)
        self.assertEqual(run.region("x.out"), bytes(range(256)))
        self.assertEqual(run.figures, {"one": 2})

    def test_mistakes_are_exceptions(self):
        made = small()
        made.data["sed"] = 3
        with self.assertRaises(heddle.BadInput) as caught:
            heddle.run(made)
        self.assertEqual(caught.exception.status, 2)
        self.assertTrue(caught.exception.file.endswith("two_kernels.scenario.json"))
        self.assertIsNotNone(caught.exception.line)
        self.assertIn("seed", caught.exception.remedy)
        with self.assertRaisesRegex(heddle.BadInput, "did you mean session_step"):
            heddle.run(small(), set={"gpu.cwd.sesion_step": 2})
        with self.assertRaisesRegex(heddle.BadInput, "no-such.yaml"):
            heddle.run("no-such.yaml")
        self.assertFalse(Path("heddle-out/no-such").exists())
        with self.assertRaisesRegex(heddle.BadInput, "there is no option --timming"):
            heddle.run(small(), timming="lt")

    def test_failures_leave_results(self):
        made = small()
        made.expect("gpu0.task.kernels", equals=9)
        with self.assertRaises(heddle.ExpectationFailed) as caught:
            heddle.run(made)
        self.assertEqual(caught.exception.run.expectations.column("ok"), [True, False])
        self.assertFalse(heddle.run(made, check=False).ok)
        circle = small()
        circle.data["submit"][0]["after"] = "op2"
        with self.assertRaises(heddle.BadInput) as refused:
            heddle.run(circle)
        self.assertIn("wait in a circle", str(refused.exception))
        stuck = small()
        stuck.kernel("hang", grid=1, block=32, shared=64,
                     program=[{"if": {"cond": "lane == 0", "then": [{"mbarrier_init": {"at": 0, "count": 1}}]}},
                              {"mbarrier_wait": {"at": 0, "parity": 0}}])
        stuck.launch("hang")
        with self.assertRaises(heddle.NoProgress) as caught:
            heddle.run(stuck)
        self.assertEqual(caught.exception.status, 3)
        self.assertEqual(heddle.run(stuck, check=False).status, 3)

    def test_a_limit_leaves_partial_results(self):
        run = heddle.run(small(), limit={"time": "4us"})
        self.assertEqual((run.status, run.partial, run.ok), (5, True, False))
        self.assertLessEqual(run.time_us, 4)

    def test_runs_side_by_side_do_not_mix(self):
        made, found, lock = small(), [], threading.Lock()

        def one(grid):
            mine = heddle.Scenario.of(made.to_dict())
            mine.data["kernels"][1]["grid"] = grid
            del mine.data["expect"]
            run = heddle.run(mine)
            with lock:
                found.append((grid, run.stats["gpu0.cwd.ctas_launched"]))

        threads = [threading.Thread(target=one, args=(grid,)) for grid in (8, 16, 24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [(8, 200), (16, 208), (24, 216)])

    def test_comparisons(self):
        first = heddle.run(small(), out="a")
        second = heddle.run(small(), out="b", set={"gpu.cwd.gpc_distance": 200})
        comparison = heddle.compare(first, second, fail_if=["sim.time>+1%", "gpu0.cwd.ctas_launched>0"])
        self.assertEqual(comparison.runs, ["a", "b"])
        self.assertEqual(comparison.settings.column("path"), ["gpu0.cwd.gpc_distance"])
        (time_row,) = comparison.headline.where(statistic="sim.time")
        self.assertEqual((time_row["a"], time_row["b"]), (first.time_us, second.time_us))
        self.assertEqual(comparison.failed.column("name"), ["sim.time"])
        self.assertFalse(comparison.ok)
        self.assertEqual(comparison.kernels.column("kernel"), sorted(set(comparison.kernels.column("kernel"))))
        self.assertTrue(heddle.compare("a", "a", fail_if="sim.time>0").ok)
        self.assertFalse(Path("compare.html").exists())
        self.assertTrue(heddle.compare("a", "b", page="page.html").page.is_file())
        with self.assertRaises(heddle.BadInput):
            heddle.compare("a", "nowhere")

    def test_sweeps(self):
        axes = {"gpu.cwd.gpc_distance": [1, 100], "gpu.timing": ["at", "lt"]}
        figures = [heddle.figure("time", stat="sim.time", better="less"), heddle.figure("gemm", kernel="gemm", take="mean")]
        done = heddle.sweep(small(), axes, figures, name="cycles", jobs=2)
        self.assertEqual(done.folder, Path("heddle-out/cycles.sweep"))
        self.assertEqual(len(done.table), 4)
        self.assertEqual(done.axes.column("name"), ["gpc_distance", "timing"])
        best = done.best("time")
        self.assertEqual(best["time"], min(done.table.column("time")))
        self.assertEqual(done.run(best).time_us, best["time"])
        self.assertEqual(len(done.failed), 0)
        self.assertTrue(done.page.is_file())
        before = [(row["folder"], row["seconds"]) for row in done.table]
        grown = heddle.sweep(small(), {**axes, "gpu.cwd.gpc_distance": [1, 100, 200]}, figures, name="cycles")
        kept = [(row["folder"], row["seconds"]) for row in grown.table if row["gpc_distance"] != 200]
        self.assertEqual(kept, before)  # not run again
        with self.assertRaisesRegex(KeyError, "there are time, gemm"):
            done.best("tim")

    def test_sweeps_with_points_that_fail(self):
        axes = [heddle.axis("gpu.cwd.gpc_distance", values=[1, -1], name="cycles")]
        with self.assertRaisesRegex(heddle.ExpectationFailed, "1 of 2 points.*point 2: bad input: .*-1") as caught:
            heddle.sweep(small(), axes)
        self.assertEqual(caught.exception.run.failed.column("status"), ["bad input"])
        done = heddle.sweep(small(), axes, check=False)
        self.assertEqual(done.table.column("status"), ["done", "bad input"])
        with self.assertRaises(heddle.BadInput):
            heddle.sweep(small(), {"gpu.cwd.gpc_distence": [1]}, again="al")

    def test_recordings(self):
        recording = ROOT / "scenarios/recordings/layers.json"
        made = heddle.import_recording(recording, to="layers.yaml")
        self.assertIn("heddle: 1", made.read_text(encoding="utf-8"))
        if importlib.util.find_spec("yaml"):
            self.assertEqual(len(heddle.Scenario.load(made).data["submit"]), 28)
        with self.assertRaisesRegex(ValueError, "kind="):
            heddle.import_recording("x.bin", to="y.yaml")

    def test_an_interruption_ends_the_program_and_goes_on(self):
        made = heddle.Scenario("endless", gpu="small")
        made.kernel("k", grid=2000000000, block=128, cycles=100000)
        made.launch("k")
        script = Path("endless.py")
        script.write_text(f"import sys; sys.path.insert(0, {str(ROOT / 'platforms/python')!r})\n"
                          "import heddle\n"
                          f"try:\n    heddle.run(heddle.Scenario.of({made.to_dict()!r}), out='out')\n"
                          "except KeyboardInterrupt:\n    print(heddle.Run('out').partial)\n", encoding="utf-8")
        with subprocess.Popen([sys.executable, "-B", script], stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            for _ in range(600):
                if Path("out/host.json").is_file():
                    break
                time.sleep(0.05)
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            output, _ = process.communicate(timeout=60)
        self.assertEqual(output, "True\n")


if __name__ == "__main__":
    unittest.main()
