#!/usr/bin/env python3
"""docs/sweep.md as a reader follows it: every block of YAML behind a line "In `NAME`:" becomes that file, every line of a
block of commands is run, in order, in a folder with the project's scenarios. A command must end with the status that the
line before its block names ("exit status 1"), 0 without one; what a block of text shows
is what the last command prints, where a line of … stands for any lines and a number for one that differs by no more than a
tenth: it is the model that says it. HEDDLE_PROGRAM names the program."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/sweep.md"
FILE = re.compile(r"^In `([\w./-]+)`:$")
STATUS = re.compile(r"exit status (\d)")
ANY = "…"


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
    """The same words, and numbers within a tenth."""
    words = shown.split(), printed.split()
    if len(words[0]) != len(words[1]):
        return False
    for one, other in zip(*words):
        try:
            if abs(float(one) - float(other)) > 0.1 * abs(float(one)):
                return False
        except ValueError:
            if one != other:
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


class SweepPageTest(unittest.TestCase):
    def test_the_page_can_be_followed(self):
        program = Path(os.environ.get("HEDDLE_PROGRAM", ROOT / "build/release/heddle"))
        if not program.is_file():
            self.skipTest("no program has been built")
        commands, files = 0, 0
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "scenarios").symlink_to(ROOT / "scenarios")
            path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
            printed = []
            for before, language, lines in blocks(PAGE.read_text(encoding="utf-8")):
                name = FILE.match(before)
                if name:
                    target = Path(folder, name[1])
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
                    files += 1
                elif language == "" and lines and lines[0].startswith("heddle "):
                    status = STATUS.search(before)
                    for line in lines:
                        done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True,
                                              env={**os.environ, "PATH": path}, timeout=280, check=False)
                        self.assertEqual(done.returncode, int(status[1]) if status else 0,
                                         f"{line}\n{done.stdout}{done.stderr}")
                        printed = [one.strip() for one in done.stdout.splitlines() if one.strip()]
                        commands += 1
                elif language == "text":
                    self.assertIsNone(prints(lines, printed), "\n".join(printed))
        self.assertGreaterEqual(commands, 6)
        self.assertGreaterEqual(files, 2)


if __name__ == "__main__":
    unittest.main()
