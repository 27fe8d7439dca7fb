"""Scenarios, runs, sweeps and results of the program heddle.

The package starts the installed program and reads what it writes; nothing is simulated here. docs/tutorial-python.md shows it.
"""

from ._errors import (BadInput, ExpectationFailed, HeddleError, InternalError, NoProgress, ProgramMissing, Stopped)
from ._program import occupancy, parameters, presets, program, version
from ._results import Comparison, Run, compare, import_recording, run
from ._scenario import Scenario
from ._sweeps import Sweep, axis, figure, sweep
from ._tables import Table
from ._version import __version__

__all__ = ["BadInput", "Comparison", "ExpectationFailed", "HeddleError", "InternalError", "NoProgress", "ProgramMissing",
           "Run", "Scenario", "Stopped", "Sweep", "Table", "__version__", "axis", "compare", "figure", "import_recording",
           "occupancy", "parameters", "presets", "program", "run", "sweep", "version"]
