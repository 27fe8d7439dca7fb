#!/usr/bin/env python3
"""The C++ code on the pages of docs/howto is the code of the model, so that a page cannot rot.

A C++ block belongs to the file that the line before it names: "`models/cwd/x.h`:" if it is a part of that file, or
"`models/cwd/x.h`, complete:" if it is all of it. A block without such a line is an error.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/howto").glob("*.md"))
MARK = re.compile(r"^`(?P<path>[\w./-]+)`(?P<complete>, complete)?:$")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
CPP = re.compile(r"^```cpp\n.*?^```$", re.MULTILINE | re.DOTALL)
# A path of the project in running text or in a command.
PATH = re.compile(r"(?<![\w/])((?:models|platforms|testbenches|scenarios|scripts|docs)/[\w./-]*\w)")


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
    """What is wrong with a page's code: one sentence per block."""
    errors = []
    for number, before, code in cpp_blocks(text):
        mark = MARK.match(before)
        if not mark:
            errors.append(f"line {number}: no line before the block says which file it is from")
            continue
        path = root / mark["path"]
        if not path.is_file():
            errors.append(f"line {number}: there is no {mark['path']}")
            continue
        source = path.read_text(encoding="utf-8")
        if mark["complete"]:
            if code.strip("\n") != source.strip("\n"):
                errors.append(f"line {number}: the block is not all of {mark['path']}")
        elif not code.strip() or f"\n{code}\n" not in f"\n{source}\n":
            errors.append(f"line {number}: the block does not stand like this in {mark['path']}")
    return errors


class PagesTest(unittest.TestCase):
    def test_there_are_pages_with_code(self):
        self.assertIn(ROOT / "docs/howto/add-a-placement-policy.md", PAGES)
        self.assertGreaterEqual(len(cpp_blocks((ROOT / "docs/howto/add-a-placement-policy.md").read_text("utf-8"))), 5)

    def test_an_operation_is_a_row_in_each_table(self):
        page = (ROOT / "docs/howto/add-an-operation.md").read_text("utf-8")
        name = re.search(r'StepRow\("(\w+)"', page)[1]
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

    def test_links_and_paths_exist(self):
        for page in PAGES:
            text = CPP.sub("", page.read_text(encoding="utf-8"))
            targets = [page.parent / target for target in LINK.findall(text)]
            targets += [ROOT / target for target in PATH.findall(LINK.sub("]", text))]
            with self.subTest(page=page.name):
                self.assertTrue(targets)
                self.assertEqual([str(target) for target in targets if not target.exists()], [])


class CheckerTest(unittest.TestCase):
    """The check itself finds what it is for."""

    SOURCE = "testbenches/scripts/howto_test.py"

    def wrong(self, mark, code):
        return wrong_with(f"Text.\n\n{mark}\n\n```cpp\n{code}\n```\n", ROOT)

    def test_an_excerpt_is_verbatim(self):
        self.assertEqual(self.wrong(f"`{self.SOURCE}`:", "import re\nimport unittest"), [])
        for code in ("import re\n\nimport unittest", "import r", "mport re", " import re", ""):
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


if __name__ == "__main__":
    unittest.main()
