"""The program heddle: where it is, and what it is asked."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from ._errors import ProgramMissing, error_of
from ._tables import Table


def program():
    """The path of the program: what HEDDLE_PROGRAM names; else the one that was installed with this package; else `heddle`
    on the PATH. Throws ProgramMissing."""
    named = os.environ.get("HEDDLE_PROGRAM")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ProgramMissing(f"HEDDLE_PROGRAM names {named}, which cannot be started")
        return named
    # PREFIX/lib/python3/dist-packages/heddle/_program.py and PREFIX/bin/heddle
    for folder in Path(__file__).resolve().parents[2:]:
        beside = folder / "bin" / "heddle"
        if beside.is_file() and os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("heddle")
    if found is None:
        raise ProgramMissing("the program heddle is not on the PATH\n  install Heddle, or name it in HEDDLE_PROGRAM")
    return found


def call(arguments, cwd=None):
    """Runs the program: (exit status, standard output, standard error). Ctrl-C reaches the program as well, which then
    writes what it has; it is waited for, and KeyboardInterrupt goes on."""
    with subprocess.Popen([program(), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace", cwd=cwd) as process:
        try:
            output, errors = process.communicate()
        except KeyboardInterrupt:
            process.communicate()
            raise
    return process.returncode, output, errors


def told(arguments):
    """What the program prints; throws what its exit status says otherwise."""
    status, output, errors = call(arguments)
    if status != 0:
        raise error_of(status, output, errors)
    return output


def options_of(given):
    """Arguments for options by name: timing="fast" is --timing fast, True an option without a value, a list the option
    several times; None and False are left out."""
    arguments = []
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            arguments += [option, str(one)]
    return arguments


def setting(value):
    """A value as --set takes it: YAML in flow style."""
    if isinstance(value, (dict, list, tuple, bool)):
        return json.dumps(value)
    return str(value)


def settings_of(settings, option="--set"):
    """Arguments for a map of parameters."""
    arguments = []
    for path, value in (settings or {}).items():
        arguments += [option, f"{path}={setting(value)}"]
    return arguments


def version():
    """The program's version."""
    return told(["version"]).split()[-1]


def presets():
    """The machines that come with the program: name, description, checked_against."""
    return Table(json.loads(told(["show", "presets", "--format", "json"])))


def parameters(*words, gpu=None, set=None, assumptions=False):  # pylint: disable=redefined-builtin
    """The parameters of a machine: those whose path begins with the word, or that have all words in path, description or
    source. Values, ranges and defaults are text, as the program prints them; unit stands beside."""
    return Table(json.loads(told(["show", "params", *words, "--format", "json", *settings_of(set),
                                  *options_of({"gpu": gpu, "assumptions": assumptions})])))


def occupancy(file=None, *, threads=None, registers=None, shared=None, cluster=None, gpu=None,
              set=None, **options):  # pylint: disable=redefined-builtin
    """How many CTAs and clusters are resident at once: what `heddle occupancy --json` says."""
    if isinstance(cluster, (list, tuple)):
        cluster = ",".join(map(str, cluster))
    return json.loads(told(["occupancy", *([file] if file else []), "--json", *settings_of(set),
                            *options_of({"threads": threads, "registers": registers, "shared": shared,
                                         "cluster": cluster, "gpu": gpu, **options})]))
