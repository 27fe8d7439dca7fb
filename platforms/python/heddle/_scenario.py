"""Scenarios as objects: maps and lists of docs/scenario.md, made by methods, written as JSON, which is YAML."""

import copy
import json
import os
import re
from pathlib import Path

from ._values import plain


def _entry(first, more):
    """A map of keys; those without a value are left out. Keys are Python's words now and then: `for_` is `for`."""
    entry = dict(first)
    entry.update({name.rstrip("_"): value for name, value in more.items()})
    return {name: value for name, value in entry.items() if value is not None}


class Scenario:
    """A scenario. What methods do not name can be put into `data`, the map that becomes the file; what is wrong with it, the
    program says when it runs.

    name: also that of its file and results. gpu: a preset. folder: where files lie that it names; default: the folder in
    which the script runs. Everything else is a key of the top level.
    """

    def __init__(self, name, gpu=None, folder=None, **top):
        self.folder = Path(folder or os.getcwd())
        self.data = _entry({"heddle": 1, "name": name, "gpu": gpu}, top)
        self._named = ([], 0, set())  # operations whose ids are known: their list, how many, the ids

    @classmethod
    def of(cls, data, folder=None):
        """From the map that a file would have."""
        made = cls(data.get("name", "scenario"), folder=folder)
        made.data = copy.deepcopy(dict(data))
        made.data.setdefault("heddle", 1)
        return made

    @classmethod
    def load(cls, path):
        """From a file. JSON needs nothing else; YAML needs PyYAML (Debian: python3-yaml)."""
        text = Path(path).read_text(encoding="utf-8")
        if text.lstrip().startswith("{") and Path(path).suffix == ".json":
            data = json.loads(text)
        else:
            import yaml  # pylint: disable=import-outside-toplevel
            data = yaml.safe_load(text)
        if not isinstance(data, dict) or "heddle" not in data:
            raise ValueError(f"{path} is not a scenario: it has no key 'heddle' at its top")
        data.setdefault("name", Path(path).stem)
        return cls.of(data, Path(path).resolve().parent)

    @property
    def name(self):
        """Its name."""
        return self.data.get("name", "scenario")

    def _add(self, what, entry):
        self.data.setdefault(what, []).append(entry)
        return entry

    def parameter(self, name, value):
        """A number that runs change by let={name: value}; `${name}` stands for it in values."""
        self.data.setdefault("parameters", {})[name] = value

    def config(self, path, value):
        """A parameter of the machine, as in config("gpu.l2.bandwidth", 32)."""
        at = self.data.setdefault("config", {})
        *folders, last = path.split(".")
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = value

    def memory(self, name, size=None, **keys):
        """A region of memory: size in bytes or with a unit; init, write, … . Returns its name."""
        return self._add("memory", _entry({"name": name, "bytes": size}, keys))["name"]

    def kernel(self, name, grid, block, **keys):
        """A kernel: cycles, program, demand or ptx; registers, shared, cluster, … . Returns its name."""
        return self._add("kernels", _entry({"name": name, "grid": grid, "block": block}, keys))["name"]

    def stream(self, name, **keys):
        """A stream with a priority or of another GPU. Returns its name."""
        return self._add("streams", _entry({"name": name}, keys))["name"]

    def launch(self, kernel, stream="main", **keys):
        """Launches a kernel: after, at, repeat, … . Returns its id, for `after`."""
        return self.submit(kernel=kernel, stream=stream, **keys)

    def copy(self, size, stream="main", **keys):
        """Copies bytes: for_="3 us", or from_ and to. Returns its id."""
        return self.submit(copy=size, stream=stream, **keys)

    def submit(self, **keys):
        """Any operation. Returns its id, which is made up unless it is given."""
        operations = self.data.setdefault("submit", [])
        if isinstance(operations, dict):  # {by: aql, operations: […]}
            operations = operations.setdefault("operations", [])
        entry = _entry({}, keys)
        if not ({"group", "id"} & set(entry)):
            taken = self._ids(operations)
            number = len(operations)
            while f"op{number}" in taken:
                number += 1
            entry = {"id": f"op{number}", **entry}
        operations.append(entry)
        return entry.get("id")

    def _ids(self, operations):
        """The ids of a list of operations, of which those are looked at that came since the last time."""
        known, count, ids = self._named
        if known is not operations or count > len(operations):
            count, ids = 0, set()
        ids.update(one.get("id") for one in operations[count:])
        self._named = (operations, len(operations), ids)
        return ids

    def expect(self, stat=None, **keys):
        """What must come out: a statistic with equals, min, max or about and within; or memory, fault, no_progress."""
        self._add("expect", _entry({"stat": stat}, keys))

    def figure(self, name, value, of, **keys):  # pylint: disable=invalid-name
        """A number that the scenario measures."""
        self._add("figures", _entry({"name": name, "value": value, "of": of}, keys))

    def to_dict(self):
        """The map that its file has; files that it names by their whole paths."""
        data = plain(self.data)
        regions, expectations = (data.get(name) if isinstance(data.get(name), list) else [] for name in ("memory", "expect"))
        inits = [one.get("init") for one in regions if isinstance(one, dict)]
        for entry in [*inits, *expectations]:
            if isinstance(entry, dict) and isinstance(entry.get("file"), str):
                entry["file"] = str((self.folder / entry["file"]).resolve())
        for kernel in data.get("kernels") if isinstance(data.get("kernels"), list) else []:
            if isinstance(kernel, dict) and isinstance(kernel.get("ptx"), str):
                kernel["ptx"] = str((self.folder / kernel["ptx"]).resolve())
        return data

    def save(self, path):
        """Writes it to a file, as YAML if the name says so and PyYAML is there, else as JSON, which is YAML as well. Returns
        the path."""
        path = Path(path)
        text = None
        if path.suffix in (".yaml", ".yml"):
            try:
                import yaml  # pylint: disable=import-outside-toplevel
                text = yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True, width=120)
            except ImportError:
                pass
        path.write_text(text or self.text(), encoding="utf-8")
        return path

    def text(self):
        """Its file, as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def file_name(self):
        """Its name as one of a file, without an ending."""
        return as_file_name(self.name) or "scenario"


def as_file_name(name):
    """Text without what names of files should not have; "" if nothing is left."""
    return re.sub(r"[^\w.+-]+", "_", str(name)).strip("._")
