#!/usr/bin/env python3
"""What a shell's user meets besides the program: its manual page has every command and option, and completion offers them,
with presets, parameters and files. HEDDLE_PROGRAM names the program."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("HEDDLE_PROGRAM", ROOT / "build/release/heddle"))
COMPLETION = ROOT / "platforms/cli/completion/heddle.bash"
COMMANDS = ["run", "sweep", "compare", "test", "compile", "cuda", "import", "occupancy", "show"]


def said(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=60, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def options_in(text):
    """Every option that a help names in its list."""
    return re.findall(r"^  (?:-\w \[ )?(--[\w-]+)", text.partition("\noptions:\n")[2], re.M)


@unittest.skipUnless(PROGRAM.is_file(), "no program has been built")
class ManualTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = said(ROOT / "scripts/manual", PROGRAM)

    def test_it_has_every_command_and_every_option_with_its_words(self):
        listed = re.findall(r"^  heddle ([a-z]+)", said(PROGRAM, "--help"), re.M)
        self.assertEqual(sorted(set(listed)), sorted([*COMMANDS, "version"]))
        sections = dict(re.findall(r"^\.SS heddle (\w+)\n(.*?)(?=^\.S[SH])", self.page, re.M | re.S))
        self.assertEqual(sorted(sections), sorted(COMMANDS))
        for command, section in sections.items():
            text = section.replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`").replace("\\(ti", "~")
            help_text = said(PROGRAM, command, "--help")
            options = options_in(help_text)
            self.assertGreaterEqual(len(options), 3, command)
            self.assertEqual(len(options), section.count(".TP"), command)
            for option in options:
                self.assertIn(f"\\fB{option}\\fR", text, command)
            # All words of the list stand in the page, in their order.
            words = [word for word in re.sub(r"\[ | \]", " ", help_text.partition("\noptions:\n")[2]).split()]
            there = re.sub(r"\\f[BIR]|^\.TP|^\.\w+.*$", "", text, flags=re.M).replace(", --", " --").split()
            self.assertEqual(there[-len(words):], words, command)

    def test_it_is_sound(self):
        self.assertIn(".SH EXIT STATUS\n0 all expectations met, 1 ", self.page)
        self.assertRegex(self.page, r'\.TH HEDDLE 1 "" "heddle [\d.]+"')
        self.assertRegex(self.page, r"\.SH NAME\nheddle \\- \S")
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=self.page, capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_page_of_the_build_is_todays(self):
        built = PROGRAM.parent / "heddle.1"
        if not built.is_file():
            self.skipTest("the build has not made it")
        self.assertEqual(built.read_text(encoding="utf-8"), self.page)


@unittest.skipUnless(PROGRAM.is_file(), "no program has been built")
class CompletionTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for name in ("scene.yaml", "trace.json.gz"):
            (self.folder / name).write_text("", encoding="utf-8")
        (self.folder / "results").mkdir()

    def offers(self, *words):
        """What is offered for the last of the words behind `heddle`."""
        script = f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _heddle "$1"; printf "%s\\n" "${{COMPREPLY[@]}}"'
        offered = said("bash", "-c", script, "-", PROGRAM, *words, cwd=self.folder).split("\n")
        return sorted(one for one in offered if one)

    def test_commands(self):
        self.assertEqual(self.offers(""), sorted([*COMMANDS, "version", "--help", "--version"]))
        self.assertEqual(self.offers("co"), ["compare", "compile"])

    def test_options_are_those_of_the_help(self):
        for command in COMMANDS:
            self.assertEqual(self.offers(command, "--"), sorted(options_in(said(PROGRAM, command, "--help"))), command)
        self.assertEqual(self.offers("run", "x.yaml", "--tim"), ["--timing"])

    def test_values_of_options(self):
        self.assertEqual(self.offers("run", "--timing", ""), ["at", "fast", "lt"])
        self.assertEqual(self.offers("run", "--timing", "f"), ["fast"])
        # With = between them: three words, or one, as the shell breaks words.
        self.assertEqual(self.offers("run", "--timing", "=", "f"), ["fast"])
        self.assertEqual(self.offers("run", "--timing", "="), ["at", "fast", "lt"])
        self.assertEqual(self.offers("run", "--timing=f"), ["--timing=fast"])
        self.assertEqual(self.offers("run", "--out=r"), ["--out=results"])
        self.assertEqual(self.offers("run", "--limit", ""), ["events=", "time=", "wall="])
        self.assertEqual(self.offers("run", "--seed", ""), [])
        self.assertEqual(self.offers("run", "--out", ""), ["results"])
        self.assertEqual(self.offers("run", "--quiet", "sc"), ["scene.yaml"])
        self.assertEqual(self.offers("show", "--format", ""), ["c", "json", "markdown", "table", "text"])

    def test_presets_and_files(self):
        presets = re.findall(r"^(\S+) ", said(PROGRAM, "show", "presets"), re.M)
        self.assertGreater(len(presets), 8)
        self.assertEqual(self.offers("run", "--gpu", ""), sorted([*presets, "results", "scene.yaml", "trace.json.gz"]))
        self.assertEqual(self.offers("run", "--gpu", "h100"), ["h100-pcie", "h100-sxm"])

    def test_parameters(self):
        paths = re.findall(r"^(\S+) = ", said(PROGRAM, "show", "params"), re.M)
        self.assertEqual(self.offers("run", "--set", ""), sorted(f"{path}=" for path in paths))
        self.assertIn("gpu.l2.bandwidth=", self.offers("run", "--set", "gpu.l2.b"))
        self.assertIn("gpu.l2.bandwidth", self.offers("show", "params", "gpu.l2.b"))

    def test_words_that_are_no_options(self):
        self.assertEqual(self.offers("run", ""), ["results", "scene.yaml", "trace.json.gz"])
        self.assertEqual(self.offers("compare", ""), ["results"])
        self.assertEqual(self.offers("import", ""), ["kineto", "nsys", "rocprof"])
        self.assertEqual(self.offers("import", "kineto", "tr"), ["trace.json.gz"])
        self.assertEqual(self.offers("sweep", "p"), ["plan", "point"])
        self.assertEqual(self.offers("sweep", "plan", "sc"), ["scene.yaml"])
        self.assertIn("presets", self.offers("show", ""))
        self.assertIn("scenario-schema", self.offers("show", "s"))


if __name__ == "__main__":
    unittest.main()
