"""Runs, comparisons and imports, and what they leave behind."""

import functools
import json
import os
import re
import tempfile
from pathlib import Path

from ._errors import InternalError, error_of
from ._program import call, option_name, options_of, settings_of, told
from ._scenario import Scenario
from ._tables import Table

# Options that are arguments of run() themselves, or after which nothing is simulated.
_NO_OPTIONS = ("dump-config", "help", "gpu", "set", "let", "out", "limit", "check")
# Columns of tables that are names, though they may be written as numbers.
_NAMES = ("gpu", "kind", "name", "kernel", "stream", "grid", "block", "ended", "step", "reason", "stalls")
_PAGE = re.compile(r"^page: (.*)$", re.MULTILINE)


def path_pattern(pattern):
    """A path of statistics with wildcards: `*` any characters but a dot, `**` any."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"**": ".*", "*": "[^.]*"}.get(part, re.escape(part)) for part in parts) + r"\Z")


class Run:
    """Results of one run: those of a folder. They are read when they are asked for.

    folder: where they are. status: the exit status; None of a folder that was opened. output: what the program printed.
    """

    def __init__(self, folder, status=None, output=""):
        self.folder = Path(folder)
        self.status = status
        self.output = output
        if not (self.folder / "stats.json").is_file():
            raise FileNotFoundError(f"{self.folder} has no results of a run: no stats.json")

    @functools.cached_property
    def data(self):
        """stats.json, whole (docs/statistics.md)."""
        return json.loads((self.folder / "stats.json").read_text(encoding="utf-8"))

    @functools.cached_property
    def stats(self):
        """The value of every statistic, by path."""
        return {path: one["value"] for path, one in self.data["stats"].items()}

    def stat(self, path, take=sum):
        """The value of a statistic. With `*` (all but a dot) or `**` in the path: what `take` makes of the list of all that
        is meant. Throws KeyError with those that are near, if there is none."""
        if "*" not in path:
            if path not in self.stats:
                last = path.rsplit(".", 1)[-1]
                near = [known for known in self.stats if known.endswith("." + last)][:3]
                raise KeyError(f"this run has no statistic {path!r}" + (f"; there are {', '.join(near)}" if near else ""))
            return self.stats[path]
        pattern = path_pattern(path)
        values = [value for known, value in self.stats.items() if pattern.match(known)]
        if not values:
            raise KeyError(f"this run has no statistic {path!r}")
        return take(values)

    def statistics(self, path="**"):
        """A table of statistics: path, value, unit, description."""
        pattern = path_pattern(path)
        return Table([{"path": known, "value": one["value"], "unit": one["unit"], "description": one["description"]}
                      for known, one in self.data["stats"].items() if pattern.match(known)],
                     ["path", "value", "unit", "description"])

    @property
    def time_us(self):
        """Simulated time."""
        return self.stat("sim.time")

    @property
    def partial(self):
        """Whether it was stopped at a limit or by a signal."""
        return self.data["partial"]

    @property
    def ok(self):
        """Whether it ends with status 0: it has come to its end, or stands still where that is expected; all expectations are
        met; and there are no faults that nobody expects, no rejected operations and no races."""
        if self.status is not None:
            return self.status == 0
        data = self.data
        if self.partial or not (data["completed"] or data["expectations"]):
            return False
        races = any(gpu.get("races") for gpu in data["gpus"])
        wrong = races or any(not one["ok"] for one in data["expectations"]) or any(not one["expected"] for one in data["faults"])
        return not wrong and "rejected" not in self.kernels.column("ended")

    @property
    def expectations(self):
        """A table: text, actual, ok."""
        return Table(self.data["expectations"], ["text", "actual", "ok"])

    @property
    def faults(self):
        """The faults, as stats.json has them."""
        return self.data["faults"]

    @property
    def figures(self):
        """What the scenario measures: from name to value."""
        return {one["name"]: one["value"] for one in self.data.get("figures", [])}

    def _csv(self, name, how):
        path = self.folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} has no {name}: {how}")
        return Table.read(path, _NAMES)

    @functools.cached_property
    def kernels(self):
        """A table of kernels, copies and fills: kernels.csv (docs/statistics.md)."""
        return self._csv("kernels.csv", "the run has left none")

    @functools.cached_property
    def stalls(self):
        """A table of what warps waited for, by step of their program: stalls.csv (docs/statistics.md)."""
        return self._csv("stalls.csv", 'the run has counted none: it had kernel_counters="off"')

    @functools.cached_property
    def ctas(self):
        """A table of CTAs, of a run with dump="ctas"."""
        return self._csv("ctas.csv", 'run it with dump="ctas"')

    @functools.cached_property
    def ranges(self):
        """A table of named ranges, of a recording that has some: ranges.csv (docs/statistics.md)."""
        return self._csv("ranges.csv", "the recording names no parts of its program")

    @functools.cached_property
    def packets(self):
        """A table of launches, of a run that submits by packets."""
        return self._csv("packets.csv", 'the run submits by streams; run it with submit="aql"')

    @functools.cached_property
    def demands(self):
        """A table of what kernels demand, of a recording with fit="demand"."""
        return self._csv("demands.csv", 'it is of recordings, run with fit="demand"')

    def region(self, name):
        """The bytes that a region of memory was written to (`write:` of the scenario)."""
        return (self.folder / name).read_bytes()

    @property
    def page(self):
        """The page, for a browser."""
        return self.folder / "report.html"

    @property
    def config(self):
        """The whole configuration, a file; an input of gpu=."""
        return self.folder / "config.yaml"

    def __str__(self):
        return self.output or f"results in {self.folder}"

    def __repr__(self):
        return f"<heddle.Run {str(self.folder)!r}, status {self.status}>"


def fresh_folder(name):
    """A new folder below heddle-out, which nobody else has."""
    base = Path("heddle-out")
    base.mkdir(exist_ok=True)
    for number in range(1, 1000000):
        folder = base / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise FileExistsError(f"heddle-out has too many results of {name}")


def stem(path):
    """The name of a file without what says its kind."""
    name = Path(path).name
    while Path(name).suffix in (".gz", ".json", ".sqlite", ".csv", ".yaml", ".yml"):
        name = Path(name).stem
    return name


def run(what=None, *, gpu=None, set=None, let=None, out=None, limit=None, check=True,  # pylint: disable=redefined-builtin
        **options):
    """Runs a scenario or a recording.

    what: a Scenario, a map, a file, a list of recordings (one per GPU), or nothing for the shipped scenario.
    gpu: a preset or a file, or a list of them. set: parameters of the machine, {"gpu.l2.bandwidth": 32}. let: parameters of
    the scenario. limit: {"time": "2ms", "wall": "60s", "events": 1000000}: it ends there, with partial results.
    options: those of `heddle run` that simulate something, such as timing="fast", seed=7, fit="demand", no_baseline=True.
    out: the folder of results; default: a new one, heddle-out/NAME, NAME.2, … .
    check: throw if an expectation fails, a kernel faults, or there is no progress (the exception has the results in `run`).
    Bad input always throws BadInput, and so does the end of a program that leaves no results, each with its status.
    """
    for option in options:
        if option_name(option) in _NO_OPTIONS:
            raise TypeError(f"run() takes no option {option!r}")
    if isinstance(what, dict):
        what = Scenario.of(what)
    if isinstance(what, Scenario):
        name = what.file_name()
    else:
        files = files_of(what)
        name = stem(files[0]) if files else "first_light"
    folder = Path(out) if out is not None else fresh_folder(name)
    before = _stamp(folder)
    earlier = _scenario_of(folder)
    if isinstance(what, Scenario):
        folder.mkdir(parents=True, exist_ok=True)
        files = [what.save(folder / f"{name}.scenario.json")]
    limits = [f"{kind}={value}" for kind, value in (limit or {}).items()]
    status, output, errors = call(["run", *files, "--out", folder, *settings_of(set), *settings_of(let, "--let"),
                                   *options_of({"gpu": gpu, "limit": limits, **options})])
    if status in (2, 4):
        if out is None and not isinstance(what, Scenario) and not any(folder.iterdir()):
            folder.rmdir()
        raise error_of(status, output, errors)
    if earlier is not None and earlier not in files and _scenario_of(folder) != earlier:
        earlier.unlink(missing_ok=True)
    if _stamp(folder) in (None, before):
        raise error_of(status, output, errors) if status else InternalError(status, output, "heddle: it has left no results")
    result = Run(folder, status, output)
    if status not in (0, 5) and (check or status not in (1, 3)):
        raise error_of(status, output, errors, result)
    return result


def files_of(what):
    """A list of the files that somebody names: one, several, or none for the shipped scenario."""
    files = [] if what is None else [what] if isinstance(what, (str, os.PathLike)) else list(what)
    if what is not None and not files:
        raise ValueError("the list of files is empty; None stands for the shipped scenario")
    return files


def _stamp(folder):
    """What changes when results are written anew; None: there are none."""
    try:
        found = (folder / "stats.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _scenario_of(folder):
    """The scenario that was written here for the results of a folder; None: they are of something else."""
    try:
        command = json.loads((folder / "host.json").read_text(encoding="utf-8"))["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = re.match(r"heddle run (?:.*/)?([^/ ]+\.scenario\.json) --out ", command)
    return folder / found[1] if found else None


class Comparison:
    """What differs between runs, each against the first. ok: nothing is beyond a limit."""

    def __init__(self, data, ok, output, page):
        self.data = data
        self.ok = ok
        self.output = output
        self.page = page
        self.runs = [one["name"] for one in data["runs"]]

    def _rows(self, name, first):
        return Table([{first: one["name"], **({"unit": one["unit"]} if "unit" in one else {}),
                       **dict(zip(self.runs, one["values"]))} for one in self.data[name]])

    @property
    def settings(self):
        """A table of parameters that differ."""
        return Table([{"path": one["path"], **dict(zip(self.runs, one["values"]))} for one in self.data["settings"]],
                     ["path", *self.runs])

    @property
    def headline(self):
        """A table of the main statistics."""
        return self._rows("headline", "statistic")

    @property
    def figures(self):
        """A table of what the scenario measures."""
        return self._rows("figures", "figure")

    @property
    def stats(self):
        """A table of statistics that differ, those that differ most first."""
        return self._rows("stats", "statistic")

    @property
    def kernels(self):
        """A table of the kernels' total times in us."""
        return self._rows("kernels", "kernel")

    @property
    def failed(self):
        """A table of what is beyond its limit."""
        return Table([{name: one[name] for name in ("text", "name", "run", "first", "value")}
                      for one in self.data["thresholds"] if not one["ok"]], ["text", "name", "run", "first", "value"])

    def __str__(self):
        return self.output


def compare(*runs, fail_if=(), thresholds=None, page=None):
    """Compares runs, or folders of results. fail_if: limits, as "sim.time>+2%"; see `ok` and `failed`. page: where the page
    goes; default: none is kept."""
    folders = [one.folder if isinstance(one, Run) else one for one in runs]
    with tempfile.TemporaryDirectory() as scratch:
        json_file = Path(scratch, "compare.json")
        status, output, errors = call(["compare", *folders, "--json", json_file,
                                       "--page", page or Path(scratch, "compare.html"),
                                       *options_of({"fail_if": [fail_if] if isinstance(fail_if, str) else list(fail_if),
                                                    "thresholds": thresholds})])
        if status not in (0, 1):
            raise error_of(status, output, errors)
        data = json.loads(json_file.read_text(encoding="utf-8"))
    shown = "\n".join(line for line in output.splitlines() if page or not _PAGE.match(line)).rstrip()
    return Comparison(data, status == 0, shown, Path(page) if page else None)


def kind_of(path):
    """Which profiler wrote a recording, by the ending of its name."""
    name = str(path).lower()
    for ending, kind in ((".json", "kineto"), (".sqlite", "nsys"), (".csv", "rocprof")):
        if name.endswith((ending, ending + ".gz")):
            return kind
    raise ValueError(f"{path}: the name does not tell who has recorded it; say kind='kineto', 'nsys' or 'rocprof'")


def import_recording(path, to, kind=None, gpu=None, device=None):
    """Turns a recording into a scenario, the file `to`, which can be edited. Returns its path."""
    told(["import", kind or kind_of(path), path, "-o", to, *options_of({"gpu": gpu, "device": device})])
    return Path(to)
