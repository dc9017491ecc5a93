"""`report()`: how a script sends values back to the notebook. One line of JSON per call, one file per rank."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_channel: int | None = None


def open_channel(path: Path) -> None:
    """Send this rank's reports to `path`. Called once, before the script starts."""
    global _channel
    _channel = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def report(**values: Any) -> None:
    """Send values from this rank to the notebook that started it, where they are in `run.reports`.

    Values are numbers, strings, booleans, None, lists, dicts and small tensors (which become lists).
    `step=` and `total=` also drive the progress bar. A `torch.profiler.profile` that has ended becomes its
    forward, backward, optimizer and collective spans, which `run.timeline()` draws. Outside a launch (plain
    `torchrun`) nothing happens. Raises TypeError for a value that cannot be sent.
    """
    if _channel is not None:
        os.write(_channel, (json.dumps(values, default=_plain) + "\n").encode())


def _plain(value: Any) -> Any:
    if hasattr(value, "key_averages"):
        from ddp_course.pictures.spans import of_profile

        return {"spans": of_profile(value)}
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    raise TypeError(f"report() cannot send a {type(value).__name__}: send numbers, strings, lists or small tensors")
