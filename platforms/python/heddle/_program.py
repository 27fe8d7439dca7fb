"""The program heddle: where it is, and what it is asked."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from ._errors import ProgramMissing, error_of
from ._tables import Table
from ._values import plain
from ._version import __version__

# Seconds that the program has to end after Ctrl-C, before it is told itself; and to write what it has.
_MOMENT = 0.5
_LONGEST = 30.0


def program():
    """The path of the program: what HEDDLE_PROGRAM names; else the one that was installed, or built, with this package; else
    `heddle` on the PATH. Throws ProgramMissing."""
    named = os.environ.get("HEDDLE_PROGRAM")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ProgramMissing(f"HEDDLE_PROGRAM names {named}, which cannot be started")
        return named
    for beside in _beside(Path(__file__).resolve().parent):
        if beside.is_file() and os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("heddle")
    if found is None:
        raise ProgramMissing("the program heddle is not on the PATH\n  install Heddle, or name it in HEDDLE_PROGRAM")
    return found


def _beside(package):
    """Where the program of a package in this folder may be. Installed: PREFIX/lib/python3/dist-packages/heddle and
    PREFIX/bin/heddle. A checkout: platforms/python/heddle and build/PRESET/heddle, the one of a release first."""
    site, python = package.parent, package.parent.parent
    if site.name in ("dist-packages", "site-packages") and re.fullmatch(r"python[\d.]*", python.name) \
            and python.parent.name in ("lib", "lib64"):
        return [python.parent.parent / "bin" / "heddle"]
    if (site.name, python.name) == ("python", "platforms") and (python.parent / "CMakeLists.txt").is_file():
        return sorted((python.parent / "build").glob("*/heddle"), key=lambda path: (path.parent.name != "release", path))
    return []


def _started(path, arguments):
    try:
        return subprocess.Popen([path, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ProgramMissing(f"{path} cannot be started: {error.strerror or error}") from error


def _run(path, arguments):
    with _started(path, arguments) as process:
        try:
            output, errors = process.communicate()
        except BaseException as reason:
            _end(process, isinstance(reason, KeyboardInterrupt))
            raise
    return process.returncode, output, errors


def _end(process, interrupted):
    """Ends a program that nobody waits for any more, so that it writes what it has."""
    try:
        if interrupted:
            _interrupt(process)
        else:
            process.terminate()
        process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise


def _interrupt(process):
    """Sees to it that an interruption reaches the program once: Ctrl-C of a terminal has reached it as well, that of a
    notebook has not. The second one ends it at once, without results: who has taken the first catches no second."""
    begin = time.monotonic()
    while True:
        try:
            process.communicate(timeout=_MOMENT)
            return
        except subprocess.TimeoutExpired:
            pass
        if _takes_interruptions(process.pid) or time.monotonic() - begin > _LONGEST:
            process.send_signal(signal.SIGINT)
            return


def _takes_interruptions(pid):
    """Whether a process catches SIGINT, or holds it back until it looks; True where nobody can say."""
    try:
        told = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    masks = [int(mask, 16) for mask in re.findall(r"^Sig(?:Cgt|Blk):\s*([0-9a-f]+)$", told, re.MULTILINE)]
    return not masks or any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


@functools.lru_cache(maxsize=16)
def _version_of(path, _changed):
    status, output, _ = _run(path, ["version"])
    words = output.split()
    return words[-1] if status == 0 and len(words) == 2 and words[0] == "heddle" else None


def call(arguments):
    """Runs the program: (exit status, standard output, standard error). When Python is interrupted, the program is as well,
    writes what it has, and is waited for; KeyboardInterrupt goes on. Throws ProgramMissing, also if the program is of another
    version than this package."""
    path = program()
    found = _version_of(path, os.stat(path).st_mtime_ns)
    if found != __version__:
        said = f"is version {found}" if found else "does not say its version"
        raise ProgramMissing(f"{path} {said}; this package is for {__version__}\n  install both from the same release, or "
                             "name the program in HEDDLE_PROGRAM")
    return _run(path, arguments)


def told(arguments):
    """What the program prints; throws what its exit status says otherwise."""
    status, output, errors = call(arguments)
    if status != 0:
        raise error_of(status, output, errors)
    return output


def option_name(name):
    """An option as the command line has it, without dashes: no_baseline is no-baseline, limit_ is limit."""
    return name.rstrip("_").replace("_", "-")


def options_of(given):
    """Arguments for options by name: timing="fast" is --timing fast, True an option without a value, a list the option
    several times; None and False are left out."""
    arguments = []
    for name, value in given.items():
        option = "--" + option_name(name)
        value = plain(value)
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
            continue
        for one in value if isinstance(value, list) else [value]:
            arguments += [option, str(one)]
    return arguments


def setting(value):
    """A value as --set takes it: YAML in flow style."""
    value = plain(value)
    return json.dumps(value) if isinstance(value, (dict, list, bool)) else str(value)


def settings_of(settings, option="--set"):
    """Arguments for a map of parameters."""
    arguments = []
    for path, value in (settings or {}).items():
        arguments += [option, f"{path}={setting(value)}"]
    return arguments


def version():
    """The program's version, which must be that of this package."""
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
