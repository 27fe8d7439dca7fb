#!/usr/bin/env python3
"""Tests of scripts/traceability, each on a small project of its own."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/traceability"


class TraceabilityTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="heddle-traceability-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/spec/cwd.md", "# Distributor\n- CWD-01 Slots.\n  See CWD-02.\n- CWD-02 Lakes.\n")
        self.write("docs/spec/machine.md", "- SM-01 Warps.\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run_script(self, *options):
        return subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root), *options],
                              capture_output=True, text=True, check=False)

    def git(self, *arguments):
        subprocess.run(["git", "-C", str(self.root), "-c", "user.name=t", "-c", "user.email=t@example.org", "-c",
                        "commit.gpgsign=false", *arguments], check=True, capture_output=True)

    def commit(self):
        if not (self.root / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a state", "--allow-empty")

    def assert_fails(self, message, *options):
        result = self.run_script(*options)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(message, result.stderr)

    def assert_passes(self, *options):
        result = self.run_script(*options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def cover(self, *tags, path="testbenches/cwd/a_test.cpp"):
        self.write(path, "".join(f'TEST_CASE("covers {tag}", "[cwd][{tag}]") {{}}\n' for tag in tags))

    def test_every_requirement_covered_or_open(self):
        self.cover("CWD-01", "CWD-02")
        self.write("docs/spec/open.txt", "# later\nSM-01  # with the SM\n")
        table = self.assert_passes()
        self.assertIn("CWD-02  cwd/a_test.cpp:2  covers CWD-02", table)
        self.assertIn("SM-01  open", table)
        self.assertIn("3 requirements, 2 covered by 2 tests, 1 open", table)
        self.assertEqual(len(self.assert_passes("--quiet").splitlines()), 1)

    def test_requirement_without_test(self):
        self.cover("CWD-01", "CWD-02")
        self.assert_fails("SM-01 has no test")

    def test_covered_requirement_must_leave_the_list(self):
        self.cover("CWD-01", "CWD-02", "SM-01")
        self.write("docs/spec/open.txt", "# area\nSM-01\n")
        self.assert_fails("SM-01 has a test (testbenches/cwd/a_test.cpp:3)")
        self.assert_passes("--write")
        self.assertEqual((self.root / "docs/spec/open.txt").read_text(encoding="utf-8"), "# area\n")

    def test_unknown_ids(self):
        self.cover("CWD-01", "CWD-02", "SM-01", "SM-99")
        self.assert_fails("testbenches/cwd/a_test.cpp:4: tag [SM-99] names no requirement")
        self.cover("CWD-01", "CWD-02", "SM-01", "cwd-01")
        self.assert_fails("tag [cwd-01] names no requirement")
        self.cover("CWD-01", "CWD-02", "SM-01")
        self.write("docs/spec/open.txt", "TMA-77\n")
        self.assert_fails("docs/spec/open.txt:1: 'TMA-77' is no requirement")

    def test_duplicates(self):
        self.cover("CWD-01", "CWD-02")
        self.write("docs/spec/open.txt", "SM-01\nSM-01\n")
        self.assert_fails("docs/spec/open.txt:2: SM-01 stands in the list twice")
        self.write("docs/spec/tmau.md", "- CWD-01 Again.\n")
        self.assert_fails("docs/spec/tmau.md:1: CWD-01 is defined a second time")

    def test_what_counts_as_a_test(self):
        self.write("testbenches/cwd/a_test.cpp", r'''
// TEST_CASE("in a comment", "[CWD-01]")
/* TEST_CASE("in another", "[CWD-01]") */
const char* text = "TEST_CASE(\"in a string\", \"[CWD-01]\")";
#define MY_CASE TEST_CASE("in a macro", "[CWD-01]")
constexpr int big = 1'000'000; constexpr char quote = '"';
TEST_CASE("hidden", "[.][CWD-01]") {}
TEST_CASE("no tag but a number, [CWD-01]") {}
TEST_CASE("a name, with (parentheses) and \"quotes\"",
          "[cwd]"  // a comment with a " quote
          "[CWD-02]") {}
TEST_CASE_METHOD(Fixture, R"(raw "name")", "[SM-01]") {}
''')
        self.assert_fails("CWD-01 has no test")
        result = self.run_script()
        self.assertIn("covered by 2 tests", result.stdout)
        self.assertIn('raw "name"', result.stdout)
        self.assertEqual(self.run_script("--list-open").stdout, "CWD-01\n")

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_the_list_only_shrinks(self):
        self.cover("CWD-01")
        self.write("docs/spec/open.txt", "CWD-02\nSM-01\n")
        self.commit()
        self.assert_passes()

        self.cover("CWD-01", "SM-01")
        self.write("docs/spec/open.txt", "CWD-02\n")
        self.assert_passes()
        self.commit()
        self.assert_passes()

        # Neither uncommitted nor committed does an id come back.
        self.cover("CWD-01")
        self.write("docs/spec/open.txt", "CWD-02\nSM-01\n")
        self.assert_fails("docs/spec/open.txt: SM-01 was not open in ")
        self.commit()
        self.assert_fails("SM-01 was not open in ")

    def test_no_requirements_at_all(self):
        shutil.rmtree(self.root / "docs")
        self.assert_fails("no requirements in")


if __name__ == "__main__":
    unittest.main()
