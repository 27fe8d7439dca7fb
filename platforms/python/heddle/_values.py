"""Values as files and command lines take them."""

import os


def plain(value):
    """Made of Python's own kinds: maps, lists, text and numbers. A path is text, what numpy has are numbers and lists of them."""
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for method in ("tolist", "item"):
        if not isinstance(value, type) and callable(getattr(value, method, None)):
            return plain(getattr(value, method)())
    return value
