"""Sweeps: many runs over axes."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from ._errors import error_of
from ._program import call, options_of
from ._results import Run
from ._scenario import Scenario
from ._tables import Table


def axis(set=None, *, let=None, option=None, values=None, **keys):  # pylint: disable=redefined-builtin
    """An axis (docs/sweep.md): set, let or option, and values, or from_, to and steps."""
    entry = {"set": set, "let": let, "option": option, "values": None if values is None else list(values)}
    entry.update({name.rstrip("_"): value for name, value in keys.items()})
    return {name: value for name, value in entry.items() if value is not None}


def figure(name, *, stat=None, kernel=None, value=None, of=None, **keys):  # pylint: disable=invalid-name
    """A figure that a sweep collects: stat, kernel, or value with of; better="less" or "more"."""
    entry = {"name": name, "stat": stat, "kernel": kernel, "value": value, "of": of, **keys}
    return {key: one for key, one in entry.items() if one is not None}


class Sweep:
    """Results of a sweep: those of a folder.

    table: one row per point, with axes, figures, status, reason, seconds and folder. axes, figures: tables of what the
    columns are.
    """

    def __init__(self, folder, output=""):
        self.folder = Path(folder)
        self.output = output
        self.table = Table.read(self.folder / "table.csv")
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


def sweep(what, axes=None, figures=None, *, out=None, jobs=None, again=None, check=True, **keys):
    """Runs a scenario or a recording over axes.

    what: a Scenario, a map, a file of a scenario or recording, or the file of a sweep (then there are no axes here).
    axes: made by axis(), or a map from parameters to lists of values. figures: made by figure(), or a map from names to
    statistics. keys: others of docs/sweep.md, such as set, options, where, derived, samples, limit, page, name.
    out: the folder of results; default heddle-out/NAME.sweep. The same sweep there goes on: points that are done are not run
    again. check: throw if a point did not go well; without it see `failed`.
    """
    if axes is None:
        if figures is not None or keys:
            raise TypeError("a sweep without axes is that of a file, which says everything")
        file = what
        folder = Path(out) if out is not None else None
    else:
        file, folder = _written(what, axes, figures, out, keys)
    if folder is None:
        folder = Path("heddle-out") / f"{Path(file).stem}.sweep"
    status, output, errors = call(["sweep", file, "--out", folder, *options_of({"jobs": jobs, "again": again})])
    if status not in (0, 1):
        raise error_of(status, output, errors)
    result = Sweep(folder, output)
    if status == 1 and check:
        first = result.failed[0]
        raise error_of(status, output, f"heddle: {len(result.failed)} of {len(result.table)} points did not go well; point "
                       f"{first['point']}: {first['status']}: {first['reason']}\n  check=False leaves them in `failed`\n", result)
    return result


def _written(what, axes, figures, out, keys):
    """The file of a sweep, and the folder of its results."""
    if isinstance(what, dict):
        what = Scenario.of(what)
    own = isinstance(what, Scenario)
    name = keys.pop("name", None) or (what.name if own else Path(str(what)).name.split(".")[0])
    file_name = Scenario(name).file_name()
    folder = Path(out) if out is not None else Path("heddle-out") / f"{file_name}.sweep"
    folder.mkdir(parents=True, exist_ok=True)
    if own:
        source = what.save(folder / f"{what.file_name()}.scenario.json").name
    elif isinstance(what, (str, os.PathLike)):
        source = str(Path(what).resolve())
    else:
        source = [str(Path(one).resolve()) for one in what]
    if isinstance(axes, dict):
        axes = [axis(path, values=values) for path, values in axes.items()]
    if isinstance(figures, dict):
        figures = [figure(one, stat=path) for one, path in figures.items()]
    data = {"sweep": 1, "name": name, "run": source, **keys, "axes": list(axes)}
    if figures is not None:
        data["figures"] = list(figures)
    file = folder / f"{file_name}.json"
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    return file, folder
