#!/usr/bin/env python3
"""Guards the structure of the code: classes that stay whole, files that are few, large enough and named once, includes
that point one way, cores that SystemC does not reach. Builds nothing. The checks are tested with made-up trees."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (".h", ".cpp", ".c")
MOST_FILES = 934          # sources in models and platforms; 72 of them PTX: 23 its arithmetic, 15 its text, the others how it runs; 29 of unchanged CUDA programs
SHORT = 40                # lines: a file below is short
MOST_SHORT = 58           # short files in models and platforms
LEAST_PURE = 0.6          # of the lines of a block with a core: without SystemC
CORE_BLOCKS = ("sm", "packet", "task")
MOST_METHODS = 25         # of a class
MOST_MEMBERS = 20
RECORD_METHODS = 5        # what has not more is a record: parameters, packets, statistics
# Methods and members of the classes that are larger; they may only shrink. docs/conventions.md says why they are so large.
LARGE = {
    "Access": (7, 23), "CopyEngine": (31, 25), "Crossbar": (31, 16), "GlobalPath": (27, 15), "L2Array": (31, 11), "ContextTransfer": (35, 0), "Cta": (7, 27), "CtaControl": (29, 9), "Cwd": (16, 48), "CwdParams": (7, 50),
    "DeviceLaunchUnit": (28, 3), "Dispatcher": (27, 8), "DmaPort": (30, 9),
    "Gpu": (29, 1), "Gpm": (27, 32), "GpcMmu": (31, 15), "Gpu2GpcUnit": (11, 22), "Hbm": (30, 16), "HostInterface": (33, 26), "L1Cache": (40, 14),
    "L2Core": (33, 13), "L2Slice": (32, 18), "LaunchSession": (27, 24), "Launcher": (34, 22), "LinkNetwork": (40, 11), "LinkUnit": (32, 16), "LiveModel": (26, 10), "MemoryHub": (43, 23),
    "Mpc": (22, 28), "PacketSubmitter": (31, 21), "ReferenceBuffer": (26, 6), "ProgramBuilder": (28, 8), "RegisterFile": (28, 10),
    "SharedMemory": (45, 8), "Sm": (19, 25), "StreamUnit": (26, 15), "SubcontextPartition": (28, 14), "TaskUnit": (18, 22), "Tmau": (20, 24), "TpcQuota": (32, 11),
    "TaskEntry": (15, 25), "WarpScheduler": (32, 8),
}
# What the root of the repository holds beside hidden files: whatever else is there was left behind, or belongs in a folder.
ROOT_FILES = {"CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md"}
ROOT_HIDDEN = {".clang-format", ".clang-tidy", ".gitignore"}
# Who may include whom (docs/architecture.md): a folder of models sees itself and these.
LAYERS = {"common": (), "arch": ("common",), "protocol": ("arch", "common")}
BLOCK_SEES = ("protocol", "arch", "common")
# In platforms, the machine sees no other platform, and nobody sees the programs on top.
TOP_PLATFORMS = ("cli", "vp")
# What models/common must not know of.
GPU_WORDS = re.compile(r"\b(?:k?(?:Sm|Cta|Cga|Gpc|Tpc|Cpc|Gpm|Mpc|Warp)(?:[A-Z]\w*|s)?"
                       r"|(?:sm|cta|cga|gpc|tpc|cpc|gpm|mpc|warp)s?(?:_\w+)?)\b")


def sources(root, *folders):
    """Paths of the sources below the folders, relative to root, in order."""
    found = []
    for folder in folders:
        for path, _, names in os.walk(root / folder):
            found += [Path(path, name).relative_to(root) for name in names if name.endswith(SOURCES)]
    return sorted(found)


def without_comments(text, keep_strings=False):
    """The text with comments, and unless told otherwise with the insides of strings, taken out."""
    def replaced(match):
        token = match.group(0)
        if token.startswith("/"):
            return " "
        return token if keep_strings else ('""' if token[0] != "'" else "' '")
    tokens = (r"//[^\n]*", r"/\*.*?\*/", r'(?<!\w)R"(\w*)\((?:.|\n)*?\)\1"', r'"(?:\\.|[^"\\\n])*"',
              r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")
    return re.sub("|".join(tokens), replaced, text, flags=re.S)


# -- A class has its methods in one .cpp ------------------------------------------------------------------------------

def heads(text):
    """(namespace, head) of every definition at namespace scope: what stands before its braces or '= default'."""
    text = without_comments(re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M))
    scopes, depth, begin, i = [], 0, 0, 0
    while i < len(text):
        letter = text[i]
        if depth > 0:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 0:
                begin = i + 1
        elif letter == "{":
            head = text[begin:i].strip()
            namespace = re.fullmatch(r"(?:inline\s+)?namespace\s*([\w:]*)", head)
            if namespace or re.fullmatch(r'extern\s*""', head):
                scopes.append(namespace.group(1) or "(anonymous)" if namespace else "")
                begin = i + 1
            else:
                yield "::".join(s for s in scopes if s), head
                depth = 1
        elif letter == "}":
            if scopes:
                scopes.pop()
            begin = i + 1
        elif letter == ";":
            head = text[begin:i].strip()
            if re.search(r"=\s*default$", head):
                yield "::".join(s for s in scopes if s), head
            begin = i + 1
        i += 1


def method_of(head):
    """The qualified class of a method's definition, or None. Specialisations of a template are classes of their own."""
    head = re.sub(r"(\w+)<([^<>]*)>::", lambda m: m.group(1) + re.sub(r"\W+", "_", "<" + m.group(2)) + "::", head)
    while True:  # template arguments, innermost first
        shorter = re.sub(r"(?<!operator)<[^<>]*>", "", head)
        if shorter == head:
            break
        head = shorter
    before = head.split("(", 1)[0].strip() if "operator()" not in head.replace(" ", "") else head.split("operator")[0]
    if head == before and "operator" not in head:
        return None  # no parameters: not a function
    match = re.search(r"(?:^|[\s*&])((?:\w+::)+)(?:~?\w+|operator.*)?$", before)
    return match.group(1)[:-2] if match and not before.startswith(",") else None


def methods(root, *folders):
    """From qualified class to {file: number of methods that it defines}."""
    found, namespaces = {}, set()
    for path in sources(root, *folders):
        if path.suffix != ".cpp":
            continue
        for namespace, head in heads((root / path).read_text(encoding="utf-8")):
            for i in range(len(namespace.split("::"))):
                namespaces.add("::".join(namespace.split("::")[:i + 1]))
            owner = method_of(head)
            if owner is not None:
                # A class of an anonymous namespace belongs to its file.
                scope = namespace.replace("(anonymous)", f"({path})")
                name = f"{scope}::{owner}" if scope else owner
                of_file = found.setdefault(name, {})
                of_file[path] = of_file.get(path, 0) + 1
    return {name: files for name, files in found.items() if name not in namespaces}


def divided_classes(root):
    return [f"{name}: {', '.join(map(str, sorted(files)))}"
            for name, files in sorted(methods(root, "models", "platforms").items()) if len(files) > 1]


# -- A class is not too large -----------------------------------------------------------------------------------------

def block_end(text, begin):
    """Index behind the brace that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def statements(body):
    """(head, block) of everything that is declared in the body of a class; block: what stands in its last braces."""
    begin = i = parentheses = 0
    block = ""
    while i < len(body):
        letter = body[i]
        parentheses += {"(": 1, ")": -1}.get(letter, 0)
        if parentheses == 0 and letter == "{":
            head, end = body[begin:i], block_end(body, i)
            block = body[i + 1:end - 1]
            # A member's initialiser, or one of a constructor's list: the statement goes on.
            goes_on = not re.match(r'\s*(?:inline\s+)?(?:namespace|extern\s*"")', head) and (
                re.search(r"\b(?:class|struct|union|enum)\b[^()]*$", plain(head)) or "(" not in plain(head) or
                (re.search(r"\)[^:]*(?<!:):(?!:)", head) and re.search(r"\w\s*$", head)))
            i = end
            if not goes_on:
                yield head, block
                begin, block = i, ""
            continue
        if parentheses == 0 and letter == ";":
            yield body[begin:i], block
            begin, block = i + 1, ""
        i += 1


def plain(head):
    """A declaration without template arguments, attributes and access specifiers."""
    head = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", head)
    while True:
        shorter = re.sub(r"(?<!operator)<[^<>]*>", " ", head)
        if shorter == head:
            return re.sub(r"^\s*(?:template|inline|explicit|virtual|\[\[\w+\]\]|\s)*", "", head).strip()
        head = shorter


def sizes_in(text, scope=""):
    """(class, methods, data members) of the classes that a text defines, those within others included."""
    for head, block in statements(text):
        head = plain(head)
        namespace = re.match(r"namespace\s*([\w:]*)", head)
        if namespace:
            yield from sizes_in(block, scope)
            continue
        named = re.match(r"(?:class|struct|union)\s+(\w+)(?:\s+final)?\s*(?::[^:].*)?(?:\{|$)", head.split("{")[0], re.S)
        if not named or ("{" not in head and not block):
            continue
        name = f"{scope}::{named[1]}" if scope else named[1]
        methods_here = members = 0
        for inner, _ in statements(block):
            inner = plain(inner)
            first = inner.split(None, 1)[0] if inner else ""
            if first in ("", "using", "typedef", "friend", "static_assert", "enum", "class", "struct", "union"):
                continue
            if "(" in re.split(r"(?<![=!<>])=(?!=)", inner)[0] or "operator" in inner:
                methods_here += not re.search(r"=\s*delete$", inner)
            elif not re.match(r"static\b|constexpr\b", inner):
                members += 1 + re.sub(r"\{.*?\}|\(.*?\)|\[.*?\]", "", inner, flags=re.S).count(",")
        yield name, methods_here, members
        yield from sizes_in(block, name)


def large_classes(root):
    """Classes of the headers beyond the limits. Records, whose members are all they are, may have as many as they like."""
    found = {}
    for path in sources(root, "models", "platforms"):
        if path.suffix != ".h":
            continue
        text = without_comments(re.sub(r"^\s*#(?:.*\\\n)*.*$", "", (root / path).read_text(encoding="utf-8"), flags=re.M))
        for name, count, members in sizes_in(text):
            record = count <= RECORD_METHODS
            if count > MOST_METHODS or (members > MOST_MEMBERS and not record):
                found[name] = (count, 0 if record else members)
    return found


# -- Files ------------------------------------------------------------------------------------------------------------

def lines(path):
    return path.read_text(encoding="utf-8").count("\n")


def short_files(root):
    return [f"{path}: {lines(root / path)}" for path in sources(root, "models", "platforms")
            if lines(root / path) < SHORT]


def shared_names(root, *folders):
    """Names that several sources of the repository have."""
    places = {}
    for path in sources(root, *folders):
        places.setdefault(path.name, []).append(str(path))
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def loose_files(root):
    """Files in the root that nobody expects there, of those that the repository has or would take."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in listed
                  if "/" not in name and name not in ROOT_FILES | ROOT_HIDDEN and (root / name).is_file())


# -- Includes ---------------------------------------------------------------------------------------------------------

def includes(path):
    """(bracket, name) of every #include in a file."""
    text = without_comments(path.read_text(encoding="utf-8"), keep_strings=True)
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)', text, re.M)


def room_of(root, name):
    """(models or platforms, folder) in which an included header lies; None outside both."""
    for storey in ("models", "platforms"):
        if (root / storey / name).is_file():
            return storey, name.split("/")[0]
    return None


def allowed(room, other):
    storey, folder = room
    if other[0] == "models":
        if storey == "platforms" or other[1] == folder:
            return True
        return other[1] in LAYERS.get(folder, BLOCK_SEES)
    if storey == "models":
        return False
    return other[1] == folder or (folder != "gpu" and other[1] not in TOP_PLATFORMS)


def wrong_includes(root):
    found = []
    for path in sources(root, "models", "platforms"):
        room = path.parts[0], path.parts[1]
        for bracket, name in includes(root / path):
            other = room_of(root, name) if bracket == '"' else None
            if other is not None and not allowed(room, other):
                found.append(f"{path} includes {name}")
    return found


def gpu_words_in_common(root):
    found = []
    for path in sources(root, "models/common"):
        for number, line in enumerate(without_comments((root / path).read_text(encoding="utf-8")).splitlines(), 1):
            found += [f"{path}: {word}" for word in GPU_WORDS.findall(line)]
    return sorted(set(found))


# -- Core and shell ---------------------------------------------------------------------------------------------------

def pure_share(root, block):
    """The share of a block's lines in files that reach neither SystemC nor TLM by includes."""
    @functools.lru_cache(None)
    def direct(path):
        inner = []
        for bracket, name in includes(path):
            if bracket == "<" and re.match(r"(?:systemc|tlm|sysc)", name):
                return None
            inner += [root / storey / name for storey in ("models", "platforms") if (root / storey / name).is_file()]
        return tuple(inner)

    def reaches(path):
        seen, stack = set(), [path]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            inner = direct(at)
            if inner is None:
                return True
            stack += inner
        return False

    total = pure = 0
    for path in sources(root, f"models/{block}"):
        count = lines(root / path)
        total += count
        pure += 0 if reaches(root / path) else count
    return pure / total if total else 1.0


class ChecksOfMadeUpTrees(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="heddle-structure-"))
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def test_a_class_in_two_files_is_found(self):
        self.write("models/a/engine.cpp", "namespace heddle::a {\nvoid Engine::run() {\n  go();\n}\n}\n")
        self.write("models/a/more.cpp",
                   "namespace heddle::a {\nstd::vector<std::pair<int, int>> Engine::rest() const { return {}; }\n}\n")
        self.assertEqual(divided_classes(self.root), ["heddle::a::Engine: models/a/engine.cpp, models/a/more.cpp"])

    def test_every_kind_of_definition_counts(self):
        kinds = ["X::X(int a) : a_{a}, b_(2) { c(); }", "X::~X() = default;",
                 "bool X::operator==(const X& o) const { return 1; }", "int X::operator()(int a) const { return a; }",
                 "const int* X::pointer() { return 0; }",
                 "template <class T>\nstd::map<int, T>& X::map(std::function<void(int)> f) { return m; }",
                 "auto X::trailing() -> int { return 1; }", "X::Kind X::kind(const Y::Z& z) { return z; }"]
        for kind in kinds:
            self.write("models/a/x.cpp", "namespace n {\n" + kind + "\n}\n")
            self.assertEqual(list(methods(self.root, "models")), ["n::X"], kind)

    def test_what_is_no_method_does_not_count(self):
        others = ["void f(X::Y y) { y.g(); }", "int X::count = 3;", "const std::vector<int> X::table{1, 2};",
                  "struct X { void f() { Y::g(); } };", "// void X::f() {}\n", "void f() { X::g(); }",
                  'const char* text = "void X::f() {";', "enum class X { a, b };", "using Y = X::Z;"]
        for other in others:
            self.write("models/a/x.cpp", "namespace n {\n" + other + "\n}\n")
            self.assertEqual(methods(self.root, "models"), {}, other)

    def test_classes_of_one_name_in_different_namespaces_are_different(self):
        self.write("models/a/one.cpp", "namespace a {\nvoid Engine::run() {}\n}\n")
        self.write("models/b/two.cpp", "namespace b {\nvoid Engine::run() {}\n}\n")
        self.write("models/a/three.cpp", "namespace a {\nnamespace {\nvoid Local::run() {}\n}\n}\n")
        self.write("models/a/four.cpp", "namespace a {\nnamespace {\nvoid Local::run() {}\n}\n}\n")
        self.write("models/a/five.cpp", "namespace a {\nvoid Engine::Inner::run() {}\n}\n")
        self.assertEqual(divided_classes(self.root), [])

    def test_specialisations_are_different_classes(self):
        self.write("models/a/one.cpp", "template <>\nint Traits<One>::f() { return 1; }\n")
        self.write("models/a/two.cpp", "template <>\nint Traits<n::Two>::f() { return 1; }\n")
        self.assertEqual(divided_classes(self.root), [])
        self.write("models/a/three.cpp", "template <>\nint Traits<One>::g() { return 1; }\n")
        self.assertEqual(len(divided_classes(self.root)), 1)

    def test_a_function_of_a_named_namespace_is_no_method(self):
        self.write("models/a/one.cpp", "namespace n::m {\nint x() { return 1; }\n}\n")
        self.write("models/a/two.cpp", "namespace n {\nint m::f() { return 1; }\n}\n")
        self.write("models/a/three.cpp", "namespace n {\nint m::g() { return 1; }\n}\n")
        self.assertEqual(divided_classes(self.root), [])

    def test_methods_and_members_of_a_class_are_counted(self):
        kinds = {"void f();": (1, 0), "int f() const { return g({1}); }": (1, 0), "X() = delete;": (0, 0),
                 "X(int a) : a_{a}, b_(2) { c(); }\nint a_;\nint b_;": (1, 2), "std::map<int, int> m{{1, 2}};": (0, 1),
                 "std::function<void(int)> call;": (0, 1), "int a = f(1), b;": (0, 2), "virtual ~X() = default;": (1, 0),
                 "bool operator==(const X& o) const { return a < o.a; }": (1, 0), "static int s;": (0, 0),
                 "static constexpr int k = 1;": (0, 0), "static int t(int a) { return a; }": (1, 0),
                 "enum class E { a, b };": (0, 0), "using T = int;": (0, 0), "friend class Y;": (0, 0),
                 "template <class T>\nvoid each(T&& visit) { for (;;) visit(1); }": (1, 0),
                 "public:\n  void f(int a = {});\n private:\n  int a[2]{1, 2};": (1, 1)}
        for kind, counts in kinds.items():
            text = "namespace n {\nclass X final : public Y<Z> {\n " + kind + "\n};\n}\n"
            self.assertEqual(list(sizes_in(text)), [("X", *counts)], kind)
        text = "struct A {\n struct B { int a; int b; };\n B b;\n void f();\n};\nvoid free(A a) { a.f(); }\n"
        self.assertEqual(list(sizes_in(text)), [("A", 1, 1), ("A::B", 0, 2)])

    def test_large_classes_are_found_and_records_are_not(self):
        members = "".join(f"int m{i};\n" for i in range(MOST_MEMBERS + 1))
        methods_of_it = "".join(f"void f{i}();\n" for i in range(MOST_METHODS + 1))
        few = "".join(f"void f{i}();\n" for i in range(RECORD_METHODS))
        self.write("models/a/record.h", "struct Record {\n" + members + few + "};\n")
        self.write("models/a/small.h", "class Small {\n" + methods_of_it[:-len("void f25();\n")] + "};\n")
        self.assertEqual(large_classes(self.root), {})
        self.write("models/a/wide.h", "class Wide {\n" + members + few + "void more();\n};\n")
        self.write("models/a/long.h", "class Long {\n" + methods_of_it + "};\n")
        self.assertEqual(large_classes(self.root), {"Wide": (RECORD_METHODS + 1, MOST_MEMBERS + 1),
                                                    "Long": (MOST_METHODS + 1, 0)})

    def test_short_files_and_shared_names_are_found(self):
        self.write("models/a/long.h", "\n" * SHORT)
        self.write("models/a/short.h", "\n" * (SHORT - 1))
        self.write("platforms/b/short.h", "\n" * SHORT)
        self.assertEqual(short_files(self.root), ["models/a/short.h: 39"])
        self.assertEqual(shared_names(self.root, "models", "platforms"),
                         ["short.h: models/a/short.h, platforms/b/short.h"])

    def test_files_that_were_left_in_the_root_are_found(self):
        subprocess.run(["git", "init", "--quiet", self.root], check=True)
        for name in ("README.md", ".gitignore", "models/a/x.h", "left.yaml", "trace.vcd"):
            self.write(name, "*.swp\n" if name == ".gitignore" else "")
        self.write("hidden.swp", "")
        self.assertEqual(loose_files(self.root), ["left.yaml", "trace.vcd"])

    def test_includes_against_the_direction_are_found(self):
        for path in ("models/common/c.h", "models/arch/a.h", "models/protocol/p.h", "models/sm/s.h", "models/cwd/w.h",
                     "platforms/gpu/g.h", "platforms/replay/r.h", "platforms/cli/x.h"):
            self.write(path, "")
        right = {"models/arch/1.h": "common/c.h", "models/protocol/1.h": "arch/a.h", "models/sm/1.h": "protocol/p.h",
                 "models/sm/2.h": "sm/s.h", "platforms/gpu/1.h": "sm/s.h", "platforms/replay/1.h": "gpu/g.h",
                 "platforms/cli/1.h": "replay/r.h"}
        wrong = {"models/common/9.h": "arch/a.h", "models/arch/9.h": "protocol/p.h", "models/protocol/9.h": "sm/s.h",
                 "models/sm/9.h": "cwd/w.h", "models/sm/8.h": "gpu/g.h", "platforms/gpu/9.h": "replay/r.h",
                 "platforms/replay/9.h": "cli/x.h"}
        for path, name in {**right, **wrong}.items():
            self.write(path, f'#include <vector>\n#include "{name}"\n// #include "none/of.h"\n')
        self.assertEqual(sorted(wrong_includes(self.root)),
                         sorted(f"{path} includes {name}" for path, name in wrong.items()))

    def test_words_of_the_gpu_in_common_are_found(self):
        self.write("models/common/a.h",
                   "// An SM may be named in a comment: CtaListener.\nint smooth; std::string s = \"cta\";\n")
        self.assertEqual(gpu_words_in_common(self.root), [])
        self.write("models/common/b.h", "struct SmId {};\nint cta_slot;\nvoid f(CgaKind);\n")
        self.assertEqual(gpu_words_in_common(self.root),
                         [f"models/common/b.h: {word}" for word in ("CgaKind", "SmId", "cta_slot")])

    def test_the_share_without_systemc_follows_includes(self):
        self.write("models/common/pure.h", "\n")
        self.write("models/common/shell.h", "#include <systemc>\n")
        self.write("models/sm/core.h", '#include "common/pure.h"\n' + "\n" * 2)
        self.write("models/sm/core.cpp", '#include "sm/core.h"\n' + "\n" * 2)
        self.write("models/sm/sm.h", '#include "common/shell.h"\n')
        self.write("models/sm/sm.cpp", '#include "sm/sm.h"\n')
        self.assertEqual(pure_share(self.root, "sm"), 6 / 8)


class HeddleIsBuiltLikeThat(unittest.TestCase):
    def none_of(self, found):
        self.assertEqual(found, [], f"{len(found)}:\n" + "\n".join(found))

    def test_a_class_has_its_methods_in_one_file(self):
        self.none_of(divided_classes(ROOT))

    def test_large_classes_only_shrink(self):
        found = large_classes(ROOT)
        self.none_of([f"{name}: {count} methods, {members} members" for name, (count, members) in found.items()
                      if count > max(MOST_METHODS, LARGE.get(name, (0, 0))[0])
                      or members > max(MOST_MEMBERS, LARGE.get(name, (0, 0))[1])])
        self.none_of([f"{name} is not so large any more" for name in LARGE if name not in found])
        reasons = (ROOT / "docs/conventions.md").read_text(encoding="utf-8")
        self.none_of([f"docs/conventions.md does not say why {name} is so large" for name in LARGE
                      if f"`{name}`" not in reasons])

    def test_there_are_not_too_many_files(self):
        self.assertLessEqual(len(sources(ROOT, "models", "platforms")), MOST_FILES)

    def test_not_too_many_files_are_short(self):
        found = short_files(ROOT)
        self.assertLessEqual(len(found), MOST_SHORT, "\n" + "\n".join(found))

    def test_no_two_files_share_a_name(self):
        self.none_of(shared_names(ROOT, "models", "platforms", "testbenches"))

    def test_the_root_holds_what_belongs_there(self):
        if not (ROOT / ".git").exists():
            self.skipTest("not a checkout")
        self.none_of(loose_files(ROOT))

    def test_includes_point_one_way(self):
        self.none_of(wrong_includes(ROOT))

    def test_an_exception_from_the_linter_says_which_check_and_why(self):
        found = []
        for path in sources(ROOT, "models", "platforms", "testbenches"):
            for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
                for rest in re.findall(r"// NOLINT(?:NEXTLINE|BEGIN|END)?(.*)", line):
                    if not re.match(r"\([\w*,. -]+\): \S", rest):
                        found.append(f"{path}:{number}: {line.strip()}")
        self.none_of(found)

    def test_common_knows_nothing_of_gpus(self):
        self.none_of(gpu_words_in_common(ROOT))

    def test_most_of_a_core_is_without_systemc(self):
        shares = {block: round(pure_share(ROOT, block), 3) for block in CORE_BLOCKS}
        self.assertEqual({block: share for block, share in shares.items() if share < LEAST_PURE}, {})


if __name__ == "__main__":
    unittest.main()
