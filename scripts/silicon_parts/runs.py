"""Runs of the program, and what is remembered of them."""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
FIGURES = "silicon"  # the folder of the microbenchmarks


class Refused(RuntimeError):
    """The program did not take what it was given."""


def digest(*paths):
    return hashlib.sha256(b"".join(pathlib.Path(path).read_bytes() for path in paths)).hexdigest()


def figures_of(results):
    return {figure["name"]: figure["value"] for figure in results["figures"]}


@functools.lru_cache(maxsize=None)
def described(folder, scenario):
    return yaml.safe_load((SCENARIOS / folder / f"{scenario}.yaml").read_text(encoding="utf-8"))


class Runs:
    """Runs each scenario once, whatever number of rows want it, and remembers the results in the build folder.

    What is remembered goes by the contents of the program, of the scenario and of what was made of the results, so a change
    of any of them runs anew."""

    def __init__(self, build, jobs):
        self.heddle = pathlib.Path(build) / "heddle"
        self.store = pathlib.Path(build) / "silicon"
        self.store.mkdir(exist_ok=True)
        self.program = digest(self.heddle)
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.running = {}

    def command(self, entry, changes=None, folder=FIGURES, brief=False):
        """The command of a run; parameters that are the scenario's own are left out, so that equal runs are one."""
        known = described(folder, entry["scenario"]).get("parameters", {})
        lets = {**entry.get("let", {}), **(entry.get("brief", {}) if brief else {})}
        command = ["run", f"scenarios/{folder}/{entry['scenario']}.yaml", "--quiet", "--gpu", entry["gpu"],
                   "--timing", entry.get("timing", "at")]
        for name in sorted(lets):
            if str(lets[name]) != str(known.get(name)):
                command += ["--let", f"{name}={lets[name]}"]
        for path, value in {**entry.get("set", {}), **(changes or {})}.items():
            command += ["--set", f"{path}={value}"]
        return tuple(command)

    def figures(self, entry):
        """The figures of a run, as a future."""
        return self.start(self.command(entry))

    def start(self, command, take=figures_of):
        if command not in self.running:
            self.running[command] = self.pool.submit(self.results, command, take)
        return self.running[command]

    def results(self, command, take=figures_of):
        """What `take` makes of the results of a run. Raises Refused."""
        key = hashlib.sha256(json.dumps([self.program, digest(ROOT / command[1], take.__code__.co_filename), take.__name__,
                                         command]).encode()).hexdigest()
        known = self.store / f"{key}.json"
        if known.exists():
            entry = json.loads(known.read_text(encoding="utf-8"))
        else:
            entry = self.run(command, take)
            with tempfile.NamedTemporaryFile("w", dir=self.store, delete=False, encoding="utf-8") as file:
                json.dump(entry, file)
            os.replace(file.name, known)
        if "refused" in entry:
            raise Refused(entry["refused"])
        return entry["results"]

    def run(self, command, take):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([self.heddle, *command, "--out", folder], capture_output=True, text=True, check=False,
                                  cwd=ROOT)
            if done.returncode != 0:
                return {"refused": f"heddle {' '.join(command)} ended with status {done.returncode}:\n{done.stderr}"}
            with open(pathlib.Path(folder) / "stats.json", encoding="utf-8") as file:
                return {"results": take(json.load(file))}

    def occupancy(self, preset, clusters, changes=None):
        """How many clusters of one CTA per SM are active at once."""
        command = [self.heddle, "occupancy", "--gpu", preset, "--threads", "1024", "--shared", "120 KiB",
                   "--cluster", str(clusters), "--json"]
        for path, value in (changes or {}).items():
            command += ["--set", f"{path}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(done.stderr)
        return json.loads(done.stdout)[0]["active"]

    @functools.lru_cache(maxsize=None)
    def configuration(self, preset):
        text = subprocess.run([self.heddle, "run", "--gpu", preset, "--dump-config", "-"], capture_output=True, text=True,
                              check=True).stdout
        return yaml.safe_load(text)["gpu0"]

    def parameter(self, preset, path):
        node = self.configuration(preset)
        for key in path.split(".")[1:]:
            node = node[key]
        return node


def number(text):
    return float(re.match(r"[-+0-9.e]+", text.replace(",", "").strip()).group())
