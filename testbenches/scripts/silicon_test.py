#!/usr/bin/python3
"""The rows of scripts/silicon name what there is: scenarios, their parameters and figures, presets, rows of pages."""

import os
import pathlib
import re
import subprocess
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
                    self.check_scenario(row, row.get("let", {}))
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
                    lets = set(line.get("let", {})) | set(line.get("with", {}))
                    self.check_scenario({**line, "scenario": curve["scenario"]},
                                        lets | ({curve["parameter"]} if "parameter" in curve else set()))
                    self.assertTrue(line["at"])

    def test_workloads(self):
        names = [row["workload"] for row in self.document["workloads"]]
        self.assertEqual(len(names), len(set(names)))
        for row in self.document["workloads"]:
            with self.subTest(workload=row["workload"]):
                described = yaml.safe_load((WORKLOADS / f"{row['scenario']}.yaml").read_text(encoding="utf-8"))
                self.assertIn("time", [figure["name"] for figure in described["figures"]])
                self.assertLessEqual(set(row.get("let", {})), set(described["parameters"]))
                configuration(row["gpu"])

    def test_a_workload_is_run_and_printed(self):
        done = subprocess.run([ROOT / "scripts/silicon", "--build", pathlib.Path(HEDDLE).parent, "--workloads", "--only",
                               "stencil, 2048"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stdout.splitlines() if line.startswith("| stencil, 2048 x 2048 |")]
        self.assertEqual(len(lines), 1, done.stdout)
        busy = float(re.search(r"([0-9.]+) %", lines[0]).group(1))
        self.assertGreater(busy, 0)
        self.assertLessEqual(busy, 100)

    def test_a_row_is_run_and_printed(self):
        done = subprocess.run([ROOT / "scripts/silicon", "--build", pathlib.Path(HEDDLE).parent, "--only", "sm_latency"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| L1 hit | 32.01 cycles | 32 cycles | +0.0 % | `gpu.sm.memory.l1_latency` |", done.stdout)
        self.assertIn("| 2 | 2 | 2 | 0 | 0 | 2 |", done.stdout)


if __name__ == "__main__":
    unittest.main()
