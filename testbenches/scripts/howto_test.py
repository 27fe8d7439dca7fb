#!/usr/bin/env python3
"""The C++ code on the pages of docs/howto is the code of the model, so that a page cannot rot.

A C++ block belongs to the file that the line before it names. It shows what is there:

    `models/cwd/x.h`:             the block is a part of that file
    `models/cwd/x.h`, complete:   it is all of it

or it is a step that the reader takes:

    In `models/cwd/x.h`, after `line`:        the block goes behind the only line with that text
    In `models/cwd/x.h`, before `line`:       in front of it
    In `models/cwd/x.h`, instead of `line`:   in its place
    `models/cwd/x.h`, new:                    the block is a new file

A block without such a line is an error. The steps of a page are taken, in order, in a copy of its files, and the sources
among these must compile then. Of the pages in RUNS, a program is made with them and runs the page's scenario, whose
expectations say what the addition does. HEDDLE_COMPILE_COMMANDS names the compile_commands.json to go by; without one,
that of a build folder of the project is taken, and without any the steps are taken but not compiled.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Pages for those who have an installed Heddle and not its sources: package_test.py builds and runs what they show.
OUTSIDE = ("driver.md", "embed.md")
ALL_PAGES = sorted((ROOT / "docs/howto").glob("*.md"))
PAGES = [page for page in ALL_PAGES if page.name not in OUTSIDE]
MARK = re.compile(r"^`(?P<path>[\w./-]+)`(?P<kind>, complete|, new)?:$")
STEP = re.compile(r"^In `(?P<path>[\w./-]+)`, (?P<kind>after|before|instead of) `(?P<line>.+)`:$")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
CPP = re.compile(r"^```cpp\n.*?^```$", re.MULTILINE | re.DOTALL)
# A path of the project in running text or in a command.
PATH = re.compile(r"(?<![\w/])((?:models|platforms|testbenches|scenarios|scripts|docs)/[\w./-]*\w)")
NEW = re.compile(r"^`([\w./-]+)`, new:$", re.MULTILINE)
SOURCES = ("models", "platforms", "testbenches")
# Most files of the model itself that a page may touch.
MOST_FILES = {"add-an-attribute-of-a-launch.md": 4, "add-a-packet-between-two-blocks.md": 6, "add-an-operation.md": 4}
# Pages that end with a scenario for what they add. They change no class that other sources know the size of, so that
# these need not be compiled anew.
RUNS = ["add-an-operation.md"]
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cpp_blocks(text):
    """(line number, the nearest line with text before the block, the code) of every C++ block."""
    blocks, last, language, start, code = [], "", None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if language is None and line.startswith("```"):
            language, start, code = line[3:].strip(), number, []
        elif language is not None and line.startswith("```"):
            if language in ("cpp", "c++", "C++"):
                blocks.append((start, last, "\n".join(code)))
            language, last = None, ""
        elif language is not None:
            code.append(line)
        elif line.strip():
            last = line.strip()
    return blocks


def wrong_with(text, root):
    """What is wrong with the code that a page shows: one sentence per block."""
    errors = []
    for number, before, code in cpp_blocks(text):
        mark = MARK.match(before)
        if STEP.match(before) or (mark and mark["kind"] == ", new"):
            continue
        if not mark:
            errors.append(f"line {number}: no line before the block says which file it is from")
            continue
        path = root / mark["path"]
        if not path.is_file():
            errors.append(f"line {number}: there is no {mark['path']}")
            continue
        source = path.read_text(encoding="utf-8")
        if mark["kind"]:
            if code.strip("\n") != source.strip("\n"):
                errors.append(f"line {number}: the block is not all of {mark['path']}")
        elif not code.strip() or f"\n{code}\n" not in f"\n{source}\n":
            errors.append(f"line {number}: the block does not stand like this in {mark['path']}")
    return errors


def take_steps(text, root):
    """The files that a page changes or adds, by path, as they are then, and what is wrong with its steps."""
    files, errors = {}, []
    for number, before, code in cpp_blocks(text):
        mark, step = MARK.match(before), STEP.match(before)
        if mark and mark["kind"] == ", new":
            if mark["path"] in files or (root / mark["path"]).exists():
                errors.append(f"line {number}: {mark['path']} is there already")
            files[mark["path"]] = code + "\n"
        if not step:
            continue
        path = step["path"]
        if path not in files:
            if not (root / path).is_file():
                errors.append(f"line {number}: there is no {path}")
                continue
            files[path] = (root / path).read_text(encoding="utf-8")
        lines = files[path].split("\n")
        found = [i for i, line in enumerate(lines) if step["line"] in line]
        if len(found) != 1:
            errors.append(f"line {number}: {len(found)} lines of {path} have the text {step['line']}")
            continue
        at = found[0] + (step["kind"] == "after")
        lines[at:at + (step["kind"] == "instead of")] = code.split("\n")
        files[path] = "\n".join(lines)
    return files, errors


def compile_database():
    """Compile commands by source, of the build that the test belongs to or of any; empty: there is none."""
    named = os.environ.get("HEDDLE_COMPILE_COMMANDS")
    candidates = [Path(named)] if named else sorted((ROOT / "build").glob("*/compile_commands.json"))
    for candidate in candidates:
        if candidate.is_file():
            entries = json.loads(candidate.read_text(encoding="utf-8"))
            return {source: entry for entry in entries for source in sources_of(entry)}
    return {}


def sources_of(entry):
    """What an entry of the database compiles: a source, or several that CMake puts into one."""
    path = Path(entry["directory"], entry["file"]).resolve()
    if path.parent.name != "Unity" or not path.is_file():
        return [str(path)]
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def command_for(database, path):
    """Arguments and folder of the compiler for a source of the project; a new one is compiled like its neighbours."""
    entry = database.get(str(ROOT / path))
    if entry is None:
        folder = str((ROOT / path).parent) + os.sep
        entry = next((e for source, e in sorted(database.items()) if source.startswith(folder)), None)
    if entry is None:
        return None
    source = str(Path(entry["directory"], entry["file"]).resolve())
    arguments, skip = [], 0
    given = shlex.split(entry["command"]) if "command" in entry else list(entry["arguments"])
    if Path(given[0]).name == "ccache":
        given = given[1:]
    for i, argument in enumerate(given):
        if skip > 0:
            skip -= 1
        elif argument in ("-o", "-MF", "-MT", "-MQ"):
            skip = 1
        elif argument == "-include" and "cmake_pch" in given[i + 1]:
            skip = 1  # it would bring headers as they were
        elif argument not in ("-c", "-MD", "-MMD", "-Winvalid-pch") and \
                str(Path(entry["directory"], argument).resolve()) != source:
            arguments.append(argument)
    return arguments, entry["directory"]


def write(files, folder):
    for path, text in files.items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def compile_steps(files, database):
    """What the compiler says about the sources among the files, once they are as a page wants them."""
    with tempfile.TemporaryDirectory() as folder:
        write(files, folder)

        def compile_one(path):
            found = command_for(database, path)
            if found is None:
                return f"{path}: nothing of its folder is compiled"
            arguments, directory = found
            places = [f"-I{Path(folder, source)}" for source in SOURCES]
            call = [arguments[0], *places, *arguments[1:], "-fsyntax-only", "-Werror", str(Path(folder, path))]
            done = subprocess.run(call, cwd=directory, capture_output=True, text=True, check=False)
            return "" if done.returncode == 0 else f"{path}:\n{done.stderr[:2000]}"

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            return [error for error in pool.map(compile_one, [p for p in files if p.endswith(".cpp")]) if error]


def link_command(directory):
    """Arguments that link the program in a build folder; empty: it is no folder of ninja, or not all has been built."""
    if not Path(directory, "build.ninja").is_file():
        return []
    done = subprocess.run(["ninja", "-C", directory, "-t", "commands", "heddle"], capture_output=True, text=True,
                          check=False)
    arguments = shlex.split(done.stdout.splitlines()[-1]) if done.returncode == 0 else []
    arguments = [argument for argument in arguments if argument not in (":", "&&")]
    parts = [argument for argument in arguments if argument.endswith((".o", ".a"))]
    return arguments if parts and all(Path(directory, part).is_file() for part in parts) else []


def build_program(files, database, folder):
    """Makes the program with the files of a page: its path, or what went wrong. Of what has been built, objects with a
    source among the files are made anew, and stand in front of the old ones."""
    write(files, folder)
    entries = {}
    for path in files:
        if path.endswith(".cpp"):
            entry = database[str(ROOT / path)]
            entries.setdefault(entry["file"], (entry, path))

    def compile_one(item):
        entry, path = item[1]
        arguments, directory = command_for(database, path)
        # The copies of sources of the page, and the others as they are.
        whole = [str(Path(folder, p)) if p in files else str(ROOT / p)
                 for p in (os.path.relpath(source, ROOT) for source in sources_of(entry))]
        source = Path(folder, f"{Path(path).stem}_and_others.cpp")
        source.write_text("".join(f'#include "{one}"\n' for one in whole), encoding="utf-8")
        made = source.with_suffix(".o")
        places = [f"-I{Path(folder, root)}" for root in SOURCES]
        call = [arguments[0], *places, *arguments[1:], "-O0", "-c", str(source), "-o", str(made)]
        done = subprocess.run(call, cwd=directory, capture_output=True, text=True, check=False)
        return (str(made), "") if done.returncode == 0 else ("", f"{path}:\n{done.stderr[:2000]}")

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        made = list(pool.map(compile_one, entries.items()))
    errors = [error for _, error in made if error]
    if errors:
        return None, errors
    directory = next(iter(entries.values()))[0]["directory"]
    program = str(Path(folder, "heddle"))
    arguments = link_command(directory)
    first = next(i for i, argument in enumerate(arguments) if argument.endswith(".o"))
    arguments[arguments.index("-o") + 1] = program
    arguments[first:first] = [path for path, _ in made]
    done = subprocess.run(arguments, cwd=directory, capture_output=True, text=True, check=False)
    return (program, []) if done.returncode == 0 else (None, [done.stderr[-2000:]])


class PagesTest(unittest.TestCase):
    def test_there_are_pages_with_code(self):
        self.assertIn(ROOT / "docs/howto/add-a-placement-policy.md", PAGES)
        self.assertGreaterEqual(len(cpp_blocks((ROOT / "docs/howto/add-a-placement-policy.md").read_text("utf-8"))), 5)
        for name in MOST_FILES:
            self.assertIn(ROOT / "docs/howto" / name, PAGES)

    def test_an_operation_is_a_row_in_each_table(self):
        name = "release_shared"
        for path in ("models/arch/operation_table.h", "platforms/program/step_table.cpp"):
            self.assertIn(f"OpCode::{name}", (ROOT / path).read_text("utf-8"))
        # Beside the tables and the unit of the SM nothing but generated documents knows it.
        for folder in ("platforms/program", "platforms/scenario"):
            others = [p.name for p in (ROOT / folder).iterdir() if p.suffix in (".h", ".cpp") and name in p.read_text("utf-8")]
            self.assertEqual(others, ["step_table.cpp"] if folder.endswith("program") else [])

    def test_code_is_that_of_the_files(self):
        for page in PAGES:
            with self.subTest(page=page.name):
                self.assertEqual(wrong_with(page.read_text(encoding="utf-8"), ROOT), [])

    def test_steps_can_be_taken_and_compile(self):
        database = compile_database()
        for page in PAGES:
            with self.subTest(page=page.name):
                files, errors = take_steps(page.read_text(encoding="utf-8"), ROOT)
                self.assertEqual(errors, [])
                touched = [path for path in files if path.startswith(("models/", "platforms/"))]
                if page.name in MOST_FILES:
                    self.assertTrue(touched)
                    self.assertLessEqual(len(touched), MOST_FILES[page.name], touched)
                if files and database and page.name not in RUNS:
                    self.assertTrue(any(path.endswith(".cpp") for path in files))
                    self.assertEqual(compile_steps(files, database), [])

    def test_what_is_added_does_what_its_scenario_says(self):
        database = compile_database()
        directories = {entry["directory"] for entry in database.values()}
        if not directories or not link_command(min(directories)):
            self.skipTest("no program has been built")
        for name in RUNS:
            with self.subTest(page=name), tempfile.TemporaryDirectory() as folder:
                page = (ROOT / "docs/howto" / name).read_text(encoding="utf-8")
                program, errors = build_program(take_steps(page, ROOT)[0], database, folder)
                self.assertEqual(errors, [])
                scenario = Path(folder, "scenario.yaml")
                scenario.write_text(YAML.findall(page)[-1], encoding="utf-8")
                self.assertIn("expect:", scenario.read_text(encoding="utf-8"))
                for by, status in ((program, 0), (Path(min(directories), "heddle"), 2)):
                    done = subprocess.run([by, "run", scenario, "--out", Path(folder, "out")], capture_output=True,
                                          text=True, check=False)
                    self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                    self.assertEqual("met: " in done.stdout, status == 0, done.stdout)

    def test_links_and_paths_exist(self):
        for page in ALL_PAGES:
            whole = page.read_text(encoding="utf-8")
            new = {ROOT / path for path in NEW.findall(whole)}
            text = CPP.sub("", whole)
            targets = [page.parent / target for target in LINK.findall(text)]
            targets += [ROOT / target for target in PATH.findall(LINK.sub("]", text))]
            with self.subTest(page=page.name):
                self.assertTrue(targets)
                self.assertEqual([str(t) for t in targets if t not in new and not t.exists()], [])


class CheckerTest(unittest.TestCase):
    """The check itself finds what it is for."""

    SOURCE = "testbenches/scripts/howto_test.py"
    HEADER = "models/common/cycle.h"

    def wrong(self, mark, code):
        return wrong_with(f"Text.\n\n{mark}\n\n```cpp\n{code}\n```\n", ROOT)

    def steps(self, mark, code):
        return take_steps(f"Text.\n\n{mark}\n\n```cpp\n{code}\n```\n", ROOT)

    def test_an_excerpt_is_verbatim(self):
        self.assertEqual(self.wrong(f"`{self.SOURCE}`:", "import json\nimport os"), [])
        for code in ("import json\n\nimport os", "import j", "mport json", " import json", ""):
            self.assertEqual(len(self.wrong(f"`{self.SOURCE}`:", code)), 1, code)

    def test_a_complete_file_is_complete(self):
        self.assertEqual(len(self.wrong(f"`{self.SOURCE}`, complete:", "import re")), 1)
        self.assertEqual(self.wrong("`.clang-format`, complete:", (ROOT / ".clang-format").read_text("utf-8")), [])

    def test_every_block_is_marked(self):
        self.assertEqual(len(self.wrong("Some code:", "import re")), 1)
        self.assertEqual(len(self.wrong("`models/none.h`:", "import re")), 1)
        # A block between the mark and the code takes the mark away.
        self.assertEqual(len(self.wrong(f"`{self.SOURCE}`:\n\n```\ntext\n```", "import re")), 1)

    def test_other_languages_are_left_alone(self):
        self.assertEqual(wrong_with("```\nanything\n```\n```yaml\na: b\n```\n", ROOT), [])

    def test_a_step_is_taken_where_it_says(self):
        text = (ROOT / self.HEADER).read_text(encoding="utf-8")
        line = "#pragma once"
        for kind, expected in (("after", f"{line}\nnew"), ("before", f"new\n{line}"), ("instead of", "new")):
            files, errors = self.steps(f"In `{self.HEADER}`, {kind} `{line}`:", "new")
            self.assertEqual(errors, [])
            self.assertEqual(files, {self.HEADER: text.replace(line, expected)})
        files, errors = self.steps("`models/common/none.h`, new:", "code")
        self.assertEqual((files, errors), ({"models/common/none.h": "code\n"}, []))

    def test_a_step_that_cannot_be_taken_is_found(self):
        for mark in (f"In `{self.HEADER}`, after `there is no such line`:", f"In `{self.HEADER}`, after `e`:",
                     "In `models/none.h`, after `x`:", f"`{self.HEADER}`, new:"):
            self.assertEqual(len(self.steps(mark, "code")[1]), 1, mark)

    def test_a_step_that_does_not_compile_is_found(self):
        database = compile_database()
        if not database:
            self.skipTest("no build folder")
        source = "models/common/bad_step.cpp"
        header = f"In `{self.HEADER}`, after `namespace heddle {{`:\n\n```cpp\nconstexpr int kStep = 1;\n```\n"
        for code, wrong in (("int step() { return kStep; }", 0), ("int step() { return kOther; }", 1)):
            page = f'{header}\n`{source}`, new:\n\n```cpp\n#include "common/cycle.h"\n' \
                   f"namespace heddle {{\nint step();\n{code}\n}}\n```\n"
            files, errors = take_steps(page, ROOT)
            self.assertEqual(errors, [])
            self.assertEqual(len(compile_steps(files, database)), wrong, code)


if __name__ == "__main__":
    unittest.main()
