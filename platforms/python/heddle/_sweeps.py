"""Sweeps: many runs over axes."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from ._errors import error_of
from ._program import call, option_name, options_of
from ._results import Run, files_of, stem
from ._scenario import Scenario, as_file_name
from ._tables import Table
from ._values import plain

# Options whose values may be files.
FILES = ("file", "gpu", "counters")


def axis(set=None, *, let=None, option=None, values=None, **keys):  # pylint: disable=redefined-builtin
    """An axis (docs/sweep.md): set, let or option, and values, or from_, to and steps."""
    entry = {"set": set, "let": let, "option": option, "values": None if values is None else plain(list(values))}
    entry.update({name.rstrip("_"): value for name, value in keys.items()})
    return {name: value for name, value in entry.items() if value is not None}


def figure(name, *, stat=None, kernel=None, value=None, of=None, **keys):  # pylint: disable=invalid-name
    """A figure that a sweep collects: stat, kernel, or value with of; better="less" or "more"."""
    entry = {"name": name, "stat": stat, "kernel": kernel, "value": value, "of": of, **keys}
    return {key: one for key, one in entry.items() if one is not None}


class Sweep:
    """Results of a sweep: those of a folder.

    table: one row per point, with axes, figures, status, reason, folder and seconds. axes, figures: tables of what the
    columns are.
    """

    def __init__(self, folder, output=""):
        self.folder = Path(folder)
        self.output = output
        self.table = Table.read(self.folder / "table.csv")
        seconds = {row["point"]: row["seconds"] for row in Table.read(self.folder / "host.csv")}
        self.table = Table([{**row, "seconds": seconds.get(row["point"])} for row in self.table], [*self.table.columns, "seconds"])
        with closing(sqlite3.connect((self.folder / "table.sqlite").resolve().as_uri() + "?mode=ro", uri=True)) as base:
            base.row_factory = sqlite3.Row
            self.axes = Table(map(dict, base.execute("SELECT name, sets, unit FROM axes")), ["name", "sets", "unit"])
            self.figures = Table(map(dict, base.execute("SELECT name, unit, better FROM figures")),
                                 ["name", "unit", "better"])

    @property
    def page(self):
        """The page, for a browser."""
        return self.folder / "sweep.html"

    @property
    def failed(self):
        """The rows of points that did not go well."""
        return Table([row for row in self.table if row["status"] != "done"], self.table.columns)

    def best(self, name):
        """The row with the best value of a figure: the least, or the greatest if the figure says better="more"."""
        kinds = self.figures.where(name=name)
        if not kinds:
            raise KeyError(f"no figure {name!r}; there are {', '.join(self.figures.column('name'))}")
        rows = [row for row in self.table if row[name] is not None]
        if not rows:
            raise ValueError(f"no point has a value of {name!r}")
        choose = max if kinds[0]["better"] == "more" else min
        return choose(rows, key=lambda row: row[name])

    def run(self, point):
        """The results of a point, by number or row."""
        number = point["point"] if isinstance(point, dict) else point
        for row in self.table:
            if row["point"] == number and row["folder"] is not None:
                return Run(self.folder / row["folder"], row["exit"])
        raise KeyError(f"no point {number} has results")

    def __str__(self):
        return self.output


def sweep(what=None, axes=None, figures=None, *, out=None, jobs=None, again=None, check=True, **keys):
    """Runs a scenario or a recording over axes.

    what: a Scenario, a map, a file of a scenario or recording, a list of recordings, or the file of a sweep (then there are no
    axes here); nothing for the shipped scenario, or where an axis changes the file.
    axes: made by axis(), or a map from parameters to lists of values. figures: made by figure(), or a map from names to
    statistics. keys: others of docs/sweep.md, such as set, options, where, derived, samples, limit, page, name. Files are
    those of the folder in which the script runs.
    out: the folder of results; default heddle-out/NAME.sweep, or NAME.2.sweep, … if another scenario or recording is there.
    The same one goes on: points that are done are not run again. check: throw if a point did not go well; without it see
    `failed`.
    """
    if axes is None:
        if figures is not None or keys or what is None:
            raise TypeError("a sweep without axes is that of a file, which says everything")
        file = what
        folder = Path(out) if out is not None else Path("heddle-out") / f"{stem(file)}.sweep"
    else:
        file, folder = _written(what, axes, figures, out, keys)
    status, output, errors = call(["sweep", file, "--out", folder, *options_of({"jobs": jobs, "again": again})])
    if status not in (0, 1):
        raise error_of(status, output, errors)
    result = Sweep(folder, output)
    if status == 1 and check:
        first = result.failed[0]
        raise error_of(status, "", f"heddle: {len(result.failed)} of {len(result.table)} points did not go well; point "
                       f"{first['point']}: {first['status']}: {first['reason']}\n  check=False leaves them in `failed`\n", result)
    return result


def _whole(path):
    return str(Path(path).resolve())


def _whole_values(option, values):
    """Values of an option, with whole paths of those that are files."""
    if option == "file":
        return [_whole(value) for value in values]
    return [_whole(value) if isinstance(value, str) and os.path.isfile(value) else value for value in values]


def _placed(entry):
    """An axis whose files are named by whole paths, and called in the table what they were called here."""
    entry = plain(dict(entry))
    if "zip" in entry:
        entry["zip"] = [_placed(one) if isinstance(one, dict) else one for one in entry["zip"]]
    if isinstance(entry.get("option"), str):
        entry["option"] = option_name(entry["option"])
    values = entry.get("values")
    if entry.get("option") in FILES and isinstance(values, list):
        entry["values"] = _whole_values(entry["option"], values)
        if entry["values"] != values:
            entry.setdefault("labels", values)
    return entry


def _options(given):
    """Options of all points, with whole paths of files."""
    options = {option_name(name): plain(value) for name, value in given.items()}
    for name in FILES:
        if name in options:
            several = isinstance(options[name], list)
            found = _whole_values(name, options[name] if several else [options[name]])
            options[name] = found if several else found[0]
    return options


def _swept_file(axes):
    """The first file of an axis of files."""
    for entry in axes:
        for one in [entry, *entry.get("zip", [])]:
            if one.get("option") == "file" and one.get("values"):
                return one["values"][0]
    return None


def _written(what, axes, figures, out, keys):
    """The file of a sweep, and the folder of its results."""
    if isinstance(what, dict):
        what = Scenario.of(what)
    if isinstance(axes, dict):
        axes = [axis(path, values=values) for path, values in axes.items()]
    if isinstance(figures, dict):
        figures = [figure(one, stat=path) for one, path in figures.items()]
    axes = [_placed(entry) for entry in axes]
    files = [] if isinstance(what, Scenario) else [_whole(one) for one in files_of(what)]
    if isinstance(what, Scenario):
        usual = what.name
    else:
        usual = stem(files[0] if files else _swept_file(axes) or "first_light")
    name = keys.pop("name", None) or usual
    data = {"sweep": 1, "name": name}
    texts = {}
    if isinstance(what, Scenario):
        data["run"] = f"{what.file_name()}.scenario.json"
        texts[data["run"]] = what.text()
    elif files:
        data["run"] = files if len(files) > 1 else files[0]
    data.update(plain(keys))
    if isinstance(data.get("options"), dict):
        data["options"] = _options(data["options"])
    data["axes"] = axes
    if figures is not None:
        data["figures"] = plain(list(figures))
    file_name = as_file_name(name) or "sweep"
    source = (data.get("run"), texts.get(data.get("run")) if isinstance(data.get("run"), str) else None)
    folder = _folder_for(source, file_name, out)
    texts[f"{file_name}.json"] = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    for one, text in texts.items():
        if not (folder / one).is_file() or (folder / one).read_text(encoding="utf-8") != text:
            (folder / one).write_text(text, encoding="utf-8")
    return folder / f"{file_name}.json", folder


def _folder_for(source, name, out):
    """The folder of a sweep of this source: a scenario that has changed would take the place of the results that it had."""
    if out is not None:
        folder = Path(out)
        if _source_in(folder, name) not in (None, source):
            raise ValueError(f"{folder} has a sweep of another scenario or recording\n  choose another folder, or remove this one")
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    for number in range(1, 1000000):
        folder = Path("heddle-out") / (f"{name}.sweep" if number == 1 else f"{name}.{number}.sweep")
        folder.mkdir(parents=True, exist_ok=True)
        if _source_in(folder, name) in (None, source):
            return folder
    raise FileExistsError(f"heddle-out has too many sweeps of {name}")


def _json_of(path):
    """What a file says; None: it says nothing."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _source_in(folder, name):
    """What the sweep in a folder runs: `run` of its file, and the scenario that was written beside it. None: there is none. A
    folder holds sweeps of one source, whatever their names are."""
    files = [folder / f"{name}.json", *sorted(path for path in folder.glob("*.json") if not path.name.endswith(".scenario.json"))]
    try:
        told = next((one for one in map(_json_of, files) if isinstance(one, dict) and "sweep" in one), None)
    except OSError:
        return "nobody knows", None
    if told is None:
        return None
    run = told.get("run")
    own = isinstance(run, str) and not os.path.isabs(run)
    try:
        return run, (folder / run).read_text(encoding="utf-8") if own else None
    except OSError:
        return run, None
