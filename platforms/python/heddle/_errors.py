"""What the program says by its exit status, as exceptions."""

import re

# "heddle: FILE:LINE:COLUMN: MESSAGE", and a remedy on the lines below, which are indented.
_SAID = re.compile(r"^heddle: (?P<text>.*)$", re.MULTILINE)
# What a run prints of an expectation that failed, of what the device did, and of kernels that it rejected.
_FAILED = re.compile(r"^\s*((?:FAILED|FAULT|RACE|rejected):.*)$", re.MULTILINE)
_NOTE = re.compile(r"^\s*(note: .*)$", re.MULTILINE)
_PLACE = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+)(?::(?P<column>\d+))?: ")


class HeddleError(Exception):
    """The program ended otherwise than well.

    status: its exit status. message: what it said, without the remedy. remedy: what it says to do, or "". file, line,
    column: the place that it names; None where it names none. output: all it printed. run: results that it left all the
    same, or None.
    """

    def __init__(self, status, output, errors, run=None):
        self.status = status
        self.output = output + errors
        self.run = run
        lines = _words(status, output, errors)
        self.message = lines[0] if lines else f"exit status {status}"
        self.remedy = "\n".join(line.strip() for line in lines[1:])
        place = _PLACE.match(self.message)
        self.file = place["file"] if place else None
        self.line = int(place["line"]) if place else None
        self.column = int(place["column"]) if place and place["column"] else None
        super().__init__(self.message + (f"\n  {self.remedy}" if self.remedy else ""))

    def __reduce__(self):
        return _again, (type(self), self.args, self.__dict__)


def _words(status, output, errors):
    """The lines that say why: of a run that failed, the first expectation that was not met, or what the device did, as a
    sweep's reasons have it (platforms/sweep/point_record.cpp); else what the program says, with its remedy."""
    said = _SAID.search(errors)
    if status == 1 or (status == 3 and not said):
        failed = _FAILED.search(output + "\n" + errors)
        if failed:
            return [re.sub(" +", " ", failed[1])]
        notes = _NOTE.findall(output)
        if notes and not said:
            return notes[-1:]
    return errors[said.start("text"):].splitlines() if said else errors.strip().splitlines()


def _again(kind, args, state):
    """An exception as it was, of what pickle keeps of it."""
    made = kind.__new__(kind, *args)
    made.__dict__.update(state)
    return made


class ExpectationFailed(HeddleError):
    """Status 1: an expectation failed, a kernel ended with a fault or was rejected, or a limit was passed."""


class BadInput(HeddleError):
    """Status 2: a file, an option or a value is wrong."""


class NoProgress(HeddleError):
    """Status 3: the simulated machine could not go on."""


class InternalError(HeddleError):
    """Status 4: a bug of the program."""


class Stopped(HeddleError):
    """A signal ended the program, or a sweep was interrupted."""


class ProgramMissing(HeddleError):
    """There is no program to start, or it is of another version than this package."""

    def __init__(self, message):
        super().__init__(127, "", f"heddle: {message}")


def error_of(status, output, errors, run=None):
    """The exception for an exit status; that of subprocess is negative for a signal."""
    kinds = {1: ExpectationFailed, 2: BadInput, 3: NoProgress, 4: InternalError}
    return kinds.get(status, Stopped)(status, output, errors, run)
