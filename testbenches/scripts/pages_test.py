#!/usr/bin/env python3
"""Pages that show commands, as a reader follows them: every block of YAML behind a line "In `NAME`:" becomes that file, every
line of a block of commands is run, in order, in a folder with the project's scenarios. A command must end with the status
that the line before its block names ("exit status 1"), 0 without one; what a block of text shows is what the last command
prints, where a line of … stands for any lines, and a number with a fraction, or of a time, for one that differs by no more
than two hundredths: it is the model that says it. Blocks of Python are cells of one session. HEDDLE_PROGRAM names the program."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^In `([\w./-]+)`:$")
STATUS = re.compile(r"exit status (\d)")
ANY = "…"
# Which words of a line are numbers: with what may stand around them.
NUMBER = re.compile(r"^([('+]*)(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)(\D*)$")
COMMANDS = ("heddle ", "awk ", "cut ")
NEAR = 0.02
TIMES = re.compile(r"(ps|ns|us|ms|s|%)\W*$")
CELLS_END = "\x1d"


def blocks(text):
    """(line before, language, lines) of every fenced block."""
    found, last, language, lines = [], "", None, []
    for line in text.splitlines():
        if line.startswith("```") and language is None:
            language, lines = line[3:].strip(), []
        elif line.startswith("```"):
            found.append((last, language, lines))
            language, last = None, ""
        elif language is not None:
            lines.append(line)
        elif line.strip():
            last = line.strip()
    return found


def same(shown, printed):
    """The same words, and the same numbers; measures near each other."""
    words = re.split(r"[\s,]+", shown), re.split(r"[\s,]+", printed)
    if len(words[0]) != len(words[1]):
        return False
    for one, other, behind in zip(*words, [*words[0][1:], ""]):
        if one == other:
            continue
        numbers = NUMBER.match(one), NUMBER.match(other)
        if None in numbers or any(numbers[0][part] != numbers[1][part] for part in (1, 3)):
            return False
        # Those that count something are exact.
        if "." not in numbers[0][2] and not TIMES.match(behind):
            return False
        first, second = (float(number[2]) for number in numbers)
        if abs(first - second) > NEAR * abs(first):
            return False
    return True


def prints(shown, printed):
    """The first line that is not printed where it should be; None: all is there."""
    at, free = 0, True
    for line in (one.strip() for one in shown if one.strip()):
        if line == ANY:
            free = True
            continue
        places = range(at, len(printed)) if free else range(at, min(at + 1, len(printed)))
        at = next((i + 1 for i in places if same(line, printed[i])), None)
        if at is None:
            return line
        free = False
    return None


class MatchingTest(unittest.TestCase):
    def test_words_and_numbers(self):
        for shown, printed in (("a 100 us", "a 101 us"), ("1.0,2", "1.01,2"), ("span 0.98 x", "span 0.97 x"), ("(+5.0 %)", "(+5.1 %)")):
            self.assertTrue(same(shown, printed), shown)
        for shown, printed in (("a 100 b", "a 101 b"), ("1.0", "1.1"), ("100 us", "103 us"), ("a", "b"), ("a b", "a"), ("0", "1"), ("-1", "1"), ("2 us", "2 ns")):
            self.assertFalse(same(shown, printed), shown)

    def test_lines_follow_each_other(self):
        self.assertIsNone(prints(["a", ANY, "c"], ["a", "b", "c"]))
        self.assertEqual(prints(["a", "c"], ["a", "b", "c"]), "c")


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.program = Path(os.environ.get("HEDDLE_PROGRAM", ROOT / "build/release/heddle"))
        if not self.program.is_file():
            self.skipTest("no program has been built")
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "scenarios").symlink_to(ROOT / "scenarios")
        self.environment = {**os.environ, "HEDDLE_PROGRAM": str(self.program), "PYTHONPATH": str(ROOT / "platforms/python"),
                            "PATH": f"{self.program.parent}{os.pathsep}{os.environ['PATH']}"}

    def run_here(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=self.environment, timeout=280,
                              check=False)

    def follow(self, page):
        """(commands, files, blocks of what is printed)"""
        commands = files = shown = 0
        printed = []
        for before, language, lines in blocks((ROOT / page).read_text(encoding="utf-8")):
            name = FILE.match(before) or re.search(r"In `([\w./-]+)`:$", before)
            if name:
                target = self.folder / name[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("\n".join(lines) + "\n", encoding="utf-8")
                files += 1
            elif language == "":
                status = STATUS.search(before)
                for line in lines:
                    self.assertTrue(line.startswith(COMMANDS), line)
                    done = self.run_here("bash", "-c", line)
                    self.assertEqual(done.returncode, int(status[1]) if status else 0, f"{line}\n{done.stdout}{done.stderr}")
                    printed = [one.strip() for one in done.stdout.splitlines() if one.strip()]
                    commands += 1
            elif language == "text":
                self.assertIsNone(prints(lines, printed), "\n".join(printed))
                shown += 1
        return commands, files, shown

    def test_sweeps(self):
        commands, files, shown = self.follow("docs/sweep.md")
        self.assertGreaterEqual(commands, 6)
        self.assertGreaterEqual(files, 2)
        self.assertGreaterEqual(shown, 3)

    def test_parts_of_runs(self):
        commands, _, shown = self.follow("docs/checkpoints.md")
        self.assertEqual((commands, shown), (3, 3))

    def test_the_tutorial(self):
        commands, files, shown = self.follow("docs/tutorial.md")
        self.assertGreaterEqual(commands, 10)
        self.assertEqual(files, 1)
        self.assertGreaterEqual(shown, 8)

    def test_the_tutorial_in_python(self):
        page = blocks((ROOT / "docs/tutorial-python.md").read_text(encoding="utf-8"))
        cells = ["\n".join(lines) for _, language, lines in page if language == "python"]
        shown = [lines for _, language, lines in page if language == "text"]
        self.assertEqual(len(cells), len(shown))
        self.assertGreaterEqual(len(cells), 6)
        (self.folder / "cells.py").write_text(f"\nprint({CELLS_END!r})\n".join(cells), encoding="utf-8")
        done = self.run_here(sys.executable, "-B", "cells.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for lines, printed in zip(shown, done.stdout.split(CELLS_END)):
            said = [one.strip() for one in printed.splitlines() if one.strip()]
            self.assertIsNone(prints(lines, said), printed)
            self.assertEqual(len(lines), len(said), printed)


if __name__ == "__main__":
    unittest.main()
