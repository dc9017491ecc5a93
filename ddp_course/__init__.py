"""Multi-GPU data-parallel training with PyTorch, learned by running it.

In a notebook: `%load_ext ddp_course`, then `%%torchrun` cells. In Python: `launch()`.
Importing this package imports neither torch nor IPython.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "launch": "launcher.launch",
    "Run": "launcher.run",
    "LaunchError": "launcher.run",
    "report": "launcher.reporting",
    "hint": "exercises.hints",
    "quiz": "exercises.quizzes",
    "lab": "exercises.quizzes",
    "progress": "exercises.bookkeeping",
    "score": "exercises.scoring",
    "load_ipython_extension": "magic",
}
__all__ = ["LaunchError", "Run", "hint", "lab", "launch", "progress", "quiz", "report", "score"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
