"""An exception that ended a rank, as data. Runs in the rank; standard library only."""

from __future__ import annotations

import time
import traceback
from typing import Any


def describe(error: BaseException, starter: str) -> dict[str, Any]:
    """The exception as data. Its traceback begins in the script: frames of the file `starter` are taken off."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == starter:
        trace = trace.tb_next
    error.__traceback__ = trace
    lines = traceback.format_exception(type(error), error, trace)
    frames = [{"file": f.filename, "line": f.lineno, "name": f.name} for f in traceback.extract_tb(trace)]
    if isinstance(error, SyntaxError):
        frames.append({"file": error.filename or "", "line": error.lineno or 0, "name": "<module>"})
    return {
        "time_ns": time.time_ns(),
        "type": _name(error),
        "message": text(error),
        "traceback": "".join(lines),
        "frames": frames,
        "related": [f"note: {note}" for note in getattr(error, "__notes__", ())] + _related(error),
    }


def _related(error: BaseException, most: int = 5) -> list[str]:
    """What its traceback tells beside the exception: what it was raised from, and what a group holds."""
    found: list[str] = []
    earlier: BaseException | None = error
    while earlier is not None and len(found) < most:
        cause, context = earlier.__cause__, None if earlier.__suppress_context__ else earlier.__context__
        if cause or context:
            found.append(f"raised from {_line(cause)}" if cause else f"raised while handling {_line(context)}")
        earlier = cause or context
    members = getattr(error, "exceptions", ()) if hasattr(error, "split") else ()
    return found + [f"holds {_line(one)}" for one in members[:most] if isinstance(one, BaseException)]


def _line(error: BaseException | None) -> str:
    assert error is not None
    where = [f" (line {f.lineno})" for f in traceback.extract_tb(error.__traceback__)[:1]]
    return f"{_name(error)}: {text(error)}".rstrip(": ") + "".join(where)


def _name(error: BaseException) -> str:
    return str(type.__dict__["__name__"].__get__(type(error)))  # whatever its metaclass makes of it


def text(thing: object) -> str:
    """`str(thing)`, also where that raises."""
    try:
        return str(thing)
    except Exception as failure:
        return f"<its str() raises {_name(failure)}>"
