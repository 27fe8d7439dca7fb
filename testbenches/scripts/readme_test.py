#!/usr/bin/env python3
"""What README.md shows of the default run is what the program prints. A line of … stands for any lines; those that depend
on the speed of the host are not shown. HEDDLE_PROGRAM names the program; without it, that of a build folder is taken."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"^`scripts/run` ends like this:\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY = "…"


def shown_lines(text):
    """The lines of the block, without those that are empty."""
    return [line.strip() for line in SHOWN.search(text)[1].splitlines() if line.strip()]


def first_missing(shown, printed):
    """The first line of what is shown that is not printed where it should be; None: all is there.

    Lines follow each other as they are shown, but where a line of … stands between them."""
    at, free = 0, True
    for line in shown:
        if line == ANY:
            free = True
            continue
        places = range(at, len(printed)) if free else range(at, min(at + 1, len(printed)))
        at = next((i + 1 for i in places if printed[i] == line), None)
        if at is None:
            return line
        free = False
    return None


class MatchingTest(unittest.TestCase):
    def test_lines_follow_each_other(self):
        printed = ["a", "b", "c", "d", "e"]
        for shown in (["a", "b"], ["b", "c"], ["a", ANY, "d"], ["c", ANY, "e"], ["a", "b", ANY, "d", "e"], [ANY, "e"]):
            self.assertIsNone(first_missing(shown, printed), shown)
        for shown, missing in ((["a", "c"], "c"), (["b", "a"], "a"), (["a", ANY, "f"], "f"), (["d", ANY, "c"], "c"),
                               (["e", "f"], "f")):
            self.assertEqual(first_missing(shown, printed), missing, shown)


class DefaultRunTest(unittest.TestCase):
    def test_the_default_run_prints_what_the_readme_shows(self):
        named = os.environ.get("HEDDLE_PROGRAM")
        programs = [Path(named)] if named else sorted((ROOT / "build").glob("*/heddle"))
        programs = [program for program in programs if program.is_file()]
        if not programs:
            self.skipTest("no program has been built")
        shown = shown_lines((ROOT / "README.md").read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(shown), 6)
        self.assertIn(ANY, shown)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([programs[0], "run"], cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        self.assertIsNone(first_missing(shown, printed), done.stdout)


if __name__ == "__main__":
    unittest.main()
