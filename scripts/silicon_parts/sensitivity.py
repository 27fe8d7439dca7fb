"""Sensitivity: which rows move, and by how much, if a fitted parameter is 20 % lower or higher."""
import re
import subprocess

from .runs import Refused

STEP = 0.2
LEAST = 2  # per cent: what moves less stays


def scaled(value, factor, whole):
    """The value so much larger; a whole number moves by at least one."""
    if whole and isinstance(value, int):
        result = round(value * factor)
        return result if result != value else value + (1 if factor > 1 else -1)
    match = re.match(r"([0-9.]+)(.*)", str(value))
    return f"{float(match.group(1)) * factor:.6g}{match.group(2)}"


def movers(ask, base, parameters):
    """Those of the parameters that change what `ask` says, with what it says then (None if it was refused).

    Halves of the parameters are changed together until one is left, for most of them reach nothing in most runs. What two
    parameters do would have to cancel to the last cycle to be missed."""
    try:
        found = ask(parameters)
    except Refused:
        found = None
    if found == base:
        return {}
    if len(parameters) == 1:
        return {parameters[0]: found}
    middle = len(parameters) // 2
    return {**movers(ask, base, parameters[:middle]), **movers(ask, base, parameters[middle:])}


class Sensitivity:
    def __init__(self, entries, runs):
        self.runs = runs
        self.entries = entries
        self.by = {}
        for entry in entries:
            for path in entry.get("by", []):
                self.by.setdefault(path, entry)
        self.whole = {path: self.is_whole(path) for path in self.by}
        self.moved = {(path, factor): [] for path in self.by for factor in (1 - STEP, 1 + STEP)}  # (row, scenario, per cent)

    def is_whole(self, path):
        text = subprocess.run([self.runs.heddle, "show", "params", path], capture_output=True, text=True, check=True).stdout
        return re.search(r"^    integer;", text, re.M) is not None

    def varied(self):
        """The parameters that have a size; a shape of a machine is a list, which no share describes."""
        return [path for path, entry in sorted(self.by.items())
                if not isinstance(self.runs.parameter(entry["gpu"], path), list)]

    def of_run(self, entries):
        """What moves the rows of one run: those of its figures."""
        first = entries[0]
        base = self.runs.results(self.runs.command(first, brief=True))
        found = {}
        for factor in (1 - STEP, 1 + STEP):
            def ask(paths, factor=factor):
                values = {path: self.runs.parameter(first["gpu"], path) for path in paths}
                changes = {path: scaled(value, factor, self.whole[path]) for path, value in values.items() if value != 0}
                return self.runs.results(self.runs.command(first, changes, brief=True))
            for path, figures in movers(ask, base, self.varied()).items():
                found[path, factor] = [
                    (entry, None if figures is None else 100 * (figures[entry["figure"]] / base[entry["figure"]] - 1))
                    for entry in entries]
        return found

    def work(self):
        by_run = {}
        for entry in self.entries:
            if "scenario" in entry and entry.get("brief") != "none":
                by_run.setdefault(self.runs.command(entry, brief=True), []).append(entry)
        wanted = [self.runs.pool.submit(self.of_run, entries) for entries in by_run.values()]
        for result in wanted:
            for key, rows in result.result().items():
                self.moved[key] += [(entry, change) for entry, change in rows if change is None or abs(change) > LEAST]

    def text(self, path, factor):
        """The rows, one entry for those of a scenario."""
        by_scenario = {}
        for entry, change in self.moved[path, factor]:
            by_scenario.setdefault(entry["scenario"], []).append((entry["row"], change))
        texts = []
        for scenario, rows in by_scenario.items():
            changes = [change for _, change in rows if change is not None]
            if len(changes) < len(rows):
                texts.append(f"`{scenario}` refused")
            if not changes:
                continue
            low, high = f"{min(changes):+.0f}", f"{max(changes):+.0f}"
            amount = f"{low} %" if low == high else f"{low} to {high} %"
            name = rows[0][0] if len(changes) == 1 else f"{len(changes)} rows of `{scenario}`"
            texts.append(f"{name} {amount}")
        return "; ".join(texts) or "none"

    def note(self, path):
        """Whether the parameter is a fit of one row."""
        entry = self.by[path]
        if path not in self.varied():
            return "a list: not varied"
        rows = {row["row"] for factor in (1 - STEP, 1 + STEP) for row, _ in self.moved[path, factor]}
        if "page" in entry:
            return f"fitted to a row of [{entry['page']}]({entry['page']}), which is not run again"
        if len(rows) == 1:
            return f"a fit of one row: {min(rows)}"
        return f"held by {len(rows)} rows" if rows else f"moves no row by {LEAST} %"

    def table(self):
        self.work()
        lines = [f"| parameter | preset: value | set by | {100 * STEP:.0f} % less moves | {100 * STEP:.0f} % more moves | so it is |",
                 "| --- | --- | --- | --- | --- | --- |"]
        for path, entry in sorted(self.by.items()):
            value = self.runs.parameter(entry["gpu"], path)
            moved = [self.text(path, factor) for factor in (1 - STEP, 1 + STEP)]
            lines.append(f"| `{path}` | `{entry['gpu']}`: {value} | {entry['row']} | {moved[0]} | {moved[1]} | {self.note(path)} |")
        return lines

    def list(self):
        """Every row that moves, as lines of CSV."""
        lines = ["parameter,factor,row,per cent"]
        for (path, factor), rows in sorted(self.moved.items()):
            lines += [f"{path},{factor:g},\"{entry['row']}\",{'refused' if change is None else f'{change:.1f}'}"
                      for entry, change in rows]
        return lines
