"""Scenarios as objects: maps and lists of docs/scenario.md, made by methods, written as JSON, which is YAML."""

import copy
import json
import os
import re
from pathlib import Path

# Keys of scenarios are Python's words now and then: `for_` is `for`, `from_` is `from`.
_LISTS = ("memory", "tensors", "queues", "kernels", "graphs", "streams", "submit", "expect", "figures")


def _entry(first, more):
    """A map of keys; those without a value are left out."""
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
        """A kernel: cycles, program or demand; registers, shared, cluster, … . Returns its name."""
        return self._add("kernels", _entry({"name": name, "grid": _plain(grid), "block": _plain(block)}, keys))["name"]

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
        entry = _entry({}, keys)
        if not ({"group", "id"} & set(entry)):
            taken = {one.get("id") for one in self.data.get("submit", [])}
            number = len(self.data.get("submit", []))
            while f"op{number}" in taken:
                number += 1
            entry = {"id": f"op{number}", **entry}
        return self._add("submit", entry).get("id")

    def expect(self, stat=None, **keys):
        """What must come out: a statistic with equals, min, max or about and within; or memory, fault, no_progress."""
        self._add("expect", _entry({"stat": stat}, keys))

    def figure(self, name, value, of, **keys):  # pylint: disable=invalid-name
        """A number that the scenario measures."""
        self._add("figures", _entry({"name": name, "value": value, "of": of}, keys))

    def to_dict(self):
        """The map that its file has; files that it names by their whole paths."""
        data = copy.deepcopy(self.data)
        for name in _LISTS:
            data[name] = [self._placed(entry) for entry in data.get(name, [])]
            if not data[name]:
                del data[name]
        return data

    def _placed(self, entry):
        """With whole paths in place of `file: x` and `init: {file: x}`."""
        if not isinstance(entry, dict):
            return entry
        placed = {}
        for key, value in entry.items():
            if key == "file" and isinstance(value, str):
                value = str((self.folder / value).resolve())
            elif key == "init":
                value = self._placed(value)
            placed[key] = value
        return placed

    def save(self, path):
        """Writes it to a file, as YAML if the name says so and PyYAML is there, else as JSON, which is YAML as well. Returns
        the path."""
        data = self.to_dict()
        path = Path(path)
        text = None
        if path.suffix in (".yaml", ".yml"):
            try:
                import yaml  # pylint: disable=import-outside-toplevel
                text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
            except ImportError:
                pass
        path.write_text(text or json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def file_name(self):
        """Its name as one of a file, without an ending."""
        return re.sub(r"[^\w.+-]+", "_", self.name).strip("._") or "scenario"


def _plain(extents):
    return list(extents) if isinstance(extents, tuple) else extents
