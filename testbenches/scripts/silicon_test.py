#!/usr/bin/python3
"""The rows of scripts/silicon name what there is: scenarios, their parameters and figures, presets, rows of pages; and what
the program makes of them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
from silicon_parts import curves, page, rows, runs, sensitivity, workloads

PAGE = ROOT / "docs/results/silicon.md"
FOLDER = ROOT / "scenarios/silicon"
WORKLOADS = ROOT / "scenarios/workloads"
HEDDLE = os.environ["HEDDLE_PROGRAM"]


def scenario(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def configuration(preset):
    text = subprocess.run([HEDDLE, "run", "--gpu", preset, "--dump-config", "-"], capture_output=True, text=True,
                          check=True).stdout
    return yaml.safe_load(text)["gpu0"]


class SiliconTest(unittest.TestCase):
    def setUp(self):
        self.document = yaml.safe_load((FOLDER / "rows.yaml").read_text(encoding="utf-8"))

    def check_scenario(self, row, lets):
        described = scenario(row["scenario"])
        self.assertIn(row["figure"], [figure["name"] for figure in described["figures"]])
        self.assertLessEqual(set(lets), set(described.get("parameters", {})))

    def test_rows(self):
        presets = {row["gpu"]: configuration(row["gpu"]) for row in self.document["rows"]}
        for row in self.document["rows"]:
            with self.subTest(row=row["row"]):
                self.assertEqual(sum(key in row for key in ("scenario", "page", "clusters")), 1)
                self.assertTrue(row["source"])
                for path in row.get("by", []):
                    node = presets[row["gpu"]]
                    for key in path.split(".")[1:]:
                        self.assertIn(key, node, path)
                        node = node[key]
                if "scenario" in row:
                    self.check_scenario(row, {**row.get("let", {}), **(row.get("brief", {}) if row.get("brief") != "none" else {})})
                if "page" in row:
                    text = (ROOT / "docs/results" / row["page"]).read_text(encoding="utf-8")
                    self.assertIn(f"| {row['line']} |", text.replace("`", ""))

    def test_names_are_of_one_row_each(self):
        names = [row["row"] for row in self.document["rows"]]
        self.assertEqual(len(names), len(set(names)))

    def test_curves(self):
        for curve in self.document["curves"]:
            for line in curve["lines"]:
                with self.subTest(curve=curve["name"], line=line["name"]):
                    lets = set(line.get("with", {})) | ({curve["parameter"]} if "parameter" in curve else set())
                    figures = line["at"].values() if isinstance(line["at"], dict) else [line["figure"]]
                    for figure in figures:
                        self.check_scenario({"scenario": curve["scenario"], "figure": figure}, lets)
                    for values in line.get("with", {}).values():
                        if isinstance(values, list):
                            self.assertEqual(len(values), len(line["at"]))

    def test_what_a_curve_shows_beside_the_model_is_a_row(self):
        measured = {value for row in self.document["rows"] for value in
                    (row["measured"] if isinstance(row["measured"], list) else [row["measured"]])}
        for curve in self.document["curves"]:
            for line in curve["lines"]:
                for _, *values in line.get("measured", []):
                    self.assertLessEqual(set(values), measured, (curve["name"], line["name"]))

    def test_workloads(self):
        names = [row["workload"] for row in self.document["workloads"]]
        self.assertEqual(len(names), len(set(names)))
        for row in self.document["workloads"]:
            with self.subTest(workload=row["workload"]):
                described = yaml.safe_load((WORKLOADS / f"{row['scenario']}.yaml").read_text(encoding="utf-8"))
                self.assertIn("time", [figure["name"] for figure in described["figures"]])
                self.assertLessEqual(set(row.get("let", {})), set(described["parameters"]))
                configuration(row["gpu"])

    def test_the_page_has_every_row_curve_and_workload_and_no_other(self):
        text = PAGE.read_text(encoding="utf-8")
        parts = page.Page(PAGE)
        names = [row["row"] for row in self.document["rows"]]
        for part in ("where", "rows"):
            first = [rows.cells(line)[0] for line in parts.part(part) if re.match(r"\| (?!row \||---)", line)]
            self.assertCountEqual(first, names, part)
        pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
        self.assertCountEqual(pictures, [f"silicon/{curve['name']}.svg" for curve in self.document["curves"]])
        for picture in pictures:
            self.assertTrue((PAGE.parent / picture).exists(), picture)
        fitted = {path for row in self.document["rows"] for path in row.get("by", [])}
        self.assertCountEqual(re.findall(r"^\| `(.*?)` \|", "\n".join(parts.part("sensitivity")), re.M), fitted)
        listed = [rows.cells(line)[0] for line in parts.part("workloads") if re.match(r"\| (?!workload \||---)", line)]
        self.assertCountEqual(listed, [entry["workload"] for entry in self.document["workloads"]])


def silicon(*arguments):
    return subprocess.run([ROOT / "scripts/silicon", "--build", pathlib.Path(HEDDLE).parent, *arguments], capture_output=True,
                          text=True, check=False)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name) / "silicon.md"
        shutil.copy(PAGE, self.page)

    def test_a_workload_is_run_and_printed(self):
        done = silicon("--workloads", "--only", "stencil, 2048")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.splitlines() if line.startswith("| stencil, 2048 x 2048 |")]
        self.assertEqual(len(lines), 1, done.stdout)
        busy = float(re.search(r"([0-9.]+) %", lines[0]).group(1))
        self.assertGreater(busy, 0)
        self.assertLessEqual(busy, 100)

    def test_a_row_is_run_and_printed(self):
        done = silicon("--only", "sm_latency")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| L1 hit | 32.01 cycles | 32 cycles | +0.0 % | `gpu.sm.memory.l1_latency` |", done.stdout)
        self.assertIn("| 2 | 2 | 2 | 0 | 0 | 0 | 2 |", done.stdout)

    def test_what_is_written_passes_the_check_and_what_is_changed_does_not(self):
        self.assertEqual(silicon("--only", "sm_latency", "--file", self.page, "--page", "rows").returncode, 0)
        self.assertEqual(silicon("--only", "sm_latency", "--file", self.page, "--check").returncode, 0)
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("## Sensitivity", text)
        self.page.write_text(text.replace("| L1 hit | 32.01 cycles", "| L1 hit | 32.02 cycles"), encoding="utf-8")
        done = silicon("--only", "sm_latency", "--file", self.page, "--check")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("+ | L1 hit | 32.01 cycles", done.stdout)
        self.assertIn("- | L1 hit | 32.02 cycles", done.stdout)

    def test_a_curve_is_drawn_beside_its_points(self):
        done = silicon("--only", "box", "--file", self.page, "--page", "curves")
        self.assertEqual(done.returncode, 0, done.stderr)
        picture = (self.page.with_suffix("") / "box.svg").read_text(encoding="utf-8")
        self.assertIn("rows side by side, measured", picture)
        self.assertIn("![Tensor loads of 4 KiB, one at a time, against the width of the box, GH200](silicon/box.svg)",
                      self.page.read_text(encoding="utf-8"))


class SummaryTest(unittest.TestCase):
    def row(self, value, measured, by=()):
        row = mock.Mock()
        row.name, row.entry = f"row of {value}", {"by": list(by)}
        row.difference = lambda: 100 * (value - measured) / measured
        return row

    def test_what_is_counted(self):
        lines, good = rows.summary([self.row(100, 100, ["gpu.a"])] + [self.row(value, 100) for value in (91, 109, 110, 76)])
        self.assertIn("| 5 | 4 | 5 | 0 | 4 | 3 | 1 |", lines)
        self.assertFalse(good)
        self.assertIn("**not met**; only 80 % are within 10 %.", lines[-1])

    def test_what_meets_the_aim(self):
        lines, good = rows.summary([self.row(100, 100)] * 9 + [self.row(124, 100)])
        self.assertTrue(good)
        self.assertTrue(lines[-1].endswith("It is **met**."))

    def test_what_misses_it(self):
        far = [self.row(100, 100)] * 99 + [self.row(126, 100)]
        fitted = [self.row(100, 100, ["gpu.a"]), self.row(100, 100)]
        self.assertIn("beyond 25 %: row of 126", rows.summary(far)[0][-1])
        self.assertIn("too much was fitted", rows.summary(fitted)[0][-1])
        for asked in (far, fitted):
            self.assertFalse(rows.summary(asked)[1])

    def test_a_range_is_met_inside(self):
        for value, expected in ((621, 0), (640, 0), (656, 0), (721.6, 10), (558.9, -10)):
            row = rows.Row({"row": "r", "measured": [621, 656], "clusters": 2, "gpu": "g"}, mock.Mock())
            row.value = lambda value=value: value
            self.assertAlmostEqual(row.difference(), expected)


class SensitivityTest(unittest.TestCase):
    def test_movers_are_those_that_change_alone(self):
        parameters = [f"p{number}" for number in range(21)]
        for wanted in ({}, {"p0"}, {"p20"}, {"p3", "p4", "p11"}, set(parameters)):
            asked = []

            def ask(changed):
                asked.append(changed)
                return {"figure": 1 + sum(name in wanted for name in changed)}
            found = sensitivity.movers(ask, {"figure": 1}, parameters)
            self.assertEqual(set(found), set(wanted))
            self.assertTrue(all(figures == {"figure": 2} for figures in found.values()))
            if len(wanted) < 2:
                self.assertLess(len(asked), 12)

    def test_what_is_refused_counts_as_moved(self):
        def ask(changed):
            if "bad" in changed:
                raise runs.Refused()
            return {"figure": 1}
        self.assertEqual(sensitivity.movers(ask, {"figure": 1}, ["a", "bad", "c"]), {"bad": None})

    def test_values(self):
        self.assertEqual(sensitivity.scaled(100, 1.2, True), 120)
        self.assertEqual(sensitivity.scaled(1, 1.2, True), 2)
        self.assertEqual(sensitivity.scaled(1, 0.8, True), 0)
        self.assertEqual(sensitivity.scaled(1, 0.8, False), "0.8")
        self.assertEqual(sensitivity.scaled(0.5, 1.2, False), "0.6")
        self.assertEqual(sensitivity.scaled("10 KiB", 0.8, True), "8 KiB")

    def test_a_parameter_is_moved_by_its_kind_and_what_moves_one_row_says_so(self):
        build = pathlib.Path(HEDDLE).parent
        row = {"row": "L1 hit", "by": ["gpu.sm.memory.l1_latency", "gpu.hbm.refresh_rate", "gpu.shape"], "gpu": "h800",
               "scenario": "sm_latency", "figure": "L1 hit"}
        asked = sensitivity.Sensitivity([row], runs.Runs(build, 2))
        self.assertEqual(asked.whole, {"gpu.sm.memory.l1_latency": True, "gpu.hbm.refresh_rate": False, "gpu.shape": False})
        self.assertEqual([line.split(" | ", 1)[1] for line in asked.table()[2:]], [
            "`h800`: 1 | L1 hit | none | none | moves no row by 2 % |",
            "`h800`: [18, 16, 14, 14, 14, 14, 12, 12] | L1 hit | none | none | a list: not varied |",
            "`h800`: 32 | L1 hit | L1 hit -19 % | L1 hit +19 % | a fit of one row: L1 hit |"])
        self.assertEqual(len(asked.list()), 3)


class WorkloadTest(unittest.TestCase):
    NODE = {"shape": [2, 2], "clock": 1.0, "xbar": {"sm_read_bandwidth": 64, "gpc_read_bandwidth": 100, "gpc_bandwidth": 50, "copies": 2},
            "l2": {"slices": 4, "bandwidth": 64}, "hbm": {"channels": 4, "standard": "hbm3", "pin_rate": 5},
            "sm": {"issue": {"tensor_flops": 1000}}}

    def work(self, **busy):
        stats = {"gpu0.gpc0.cpc0.tpc0.sm0.stall.memory": 300, "gpu0.gpc0.cpc0.tpc0.sm1.stall.memory": 300,
                 "gpu0.gpc0.cpc0.tpc0.sm0.stall.issue": 500, "gpu0.gpc0.cpc0.tpc0.sm0.warp_cycles": 1000,
                 "gpu0.gpc0.gpm.ctas": 1, "gpu0.gpc1.gpm.ctas": 1, **busy}
        return workloads.work_of({"stats": {path: {"value": value} for path, value in stats.items()},
                                  "figures": [{"name": "time", "value": 1, "unit": "us"}, {"name": "bandwidth", "value": 0.04, "unit": "TB/s"}]})

    def test_the_busiest_part_limits(self):
        work = self.work(**{"gpu0.hbm.read_bytes": 40000, "gpu0.hbm.written_bytes": 24000})
        self.assertAlmostEqual(workloads.busy_shares(work, self.NODE, 1000)["memory"], 80)
        text = workloads.line({"workload": "w"}, work, self.NODE)
        self.assertEqual(text, "| w | 1 us | 0.04 TB/s | 0.08 | 50 % | memory | memory 80 %, matrix units 0 % |")

    def test_or_else_the_longest_wait(self):
        self.assertIn("| no part: warps wait most for memory, 60 % of their time |",
                      workloads.line({"workload": "w"}, self.work(), self.NODE))


class CurveTest(unittest.TestCase):
    def test_points_of_model_and_measurement_share_a_table(self):
        runner = mock.Mock()
        runner.figures.side_effect = lambda entry: mock.Mock(result=lambda: {"f": 10 * entry["let"]["n"] + entry["let"]["m"]})
        curve = curves.Curve({"name": "c", "title": "t", "x": "n", "y": "u", "scenario": "s", "parameter": "n", "lines": [
            {"name": "one", "gpu": "g", "figure": "f", "at": [1, 2], "with": {"m": [5, 6]}, "measured": [[2, 25], [3, 30, 35]]},
            {"name": "two", "gpu": "g", "figure": "f", "at": [1], "with": {"m": 0}}]}, runner)
        self.assertEqual(curve.table(), ["| n | one, model | one, measured | two, model |", "| ---: | ---: | ---: | ---: |",
                                         "| 1 | 15 |  | 10 |", "| 2 | 26 | 25 |  |", "| 3 |  | 30 to 35 |  |"])


class RunsTest(unittest.TestCase):
    def setUp(self):
        self.build = tempfile.TemporaryDirectory()
        self.addCleanup(self.build.cleanup)
        self.heddle = pathlib.Path(self.build.name) / "heddle"
        self.count = pathlib.Path(self.build.name) / "count"
        self.program(7)

    def program(self, value, status=0):
        """A program that says it has found the value, and counts its runs."""
        self.heddle.write_text(f"""#!/bin/sh
echo run >> {self.count}
while [ "$1" != --out ]; do shift; done
echo '{{"figures": [{{"name": "near", "value": {value}}}]}}' > "$2/stats.json"
exit {status}
""", encoding="utf-8")
        self.heddle.chmod(0o755)

    def ask(self, **changes):
        runner = runs.Runs(self.build.name, 1)
        return runner.results(runner.command({"scenario": "l2_near_far", "gpu": "h800"}, changes))

    def test_a_run_is_remembered_until_the_program_or_the_parameters_differ(self):
        runs_of = lambda: len(self.count.read_text(encoding="utf-8").splitlines())
        self.assertEqual([self.ask(), self.ask()], [{"near": 7}] * 2)
        self.assertEqual(runs_of(), 1)
        self.ask(**{"gpu.clock": 1})
        self.assertEqual(runs_of(), 2)
        self.program(8)
        self.assertEqual(self.ask(), {"near": 8})
        self.assertEqual(runs_of(), 3)

    def test_so_is_a_refusal(self):
        self.program(7, status=2)
        for _ in range(2):
            with self.assertRaises(runs.Refused):
                self.ask()
        self.assertEqual(len(self.count.read_text(encoding="utf-8").splitlines()), 1)

    def test_parameters_that_are_the_scenarios_own_are_left_out(self):
        runner = runs.Runs(self.build.name, 1)
        entry = {"scenario": "bulk", "gpu": "gh200"}
        self.assertEqual(runner.command({**entry, "let": {"kib": 16}}), runner.command(entry))
        self.assertIn("kib=4", runner.command({**entry, "let": {"kib": 16}, "brief": {"kib": 4}}, brief=True))


if __name__ == "__main__":
    unittest.main()
