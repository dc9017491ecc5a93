"""Comparing what the ranks returned with what is right, and saying so in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_PER_RANK = "per rank"


def compare(expected: Any, seen: list[Any], known: Iterable[Any] = (), tolerance: float = 1e-9) -> str | None:
    """None where every rank has the expected value; else the feedback, with the rank farthest off.

    `expected` is a number, a boolean or nested lists of them; `per_rank` of such; or a dict of such by name.
    `known` holds pairs (value, explanation) of usual wrong answers, each of the same form.
    """
    if isinstance(expected, dict) and _PER_RANK not in expected:
        return _compare_by_name(expected, seen, known, tolerance)
    wrong = [rank for rank, value in enumerate(seen) if not same(_at(expected, rank), value, tolerance)]
    if not wrong:
        return None
    lines = [_numbers(expected, seen, wrong)]
    for value, explanation in known:
        if all(same(_at(value, rank), seen[rank], max(tolerance, 1e-7)) for rank in range(len(seen))):
            shown = _pair(_at(expected, wrong[0]), seen[wrong[0]])[1]
            lines.append(explanation.replace("{seen}", shown))
            break
    return "\n".join(lines)


def per_rank(values: list[Any]) -> dict[str, Any]:
    """An expected value that differs between the ranks."""
    return {_PER_RANK: values}


def _compare_by_name(expected: dict[str, Any], seen: list[Any], known: Iterable[Any], tolerance: float) -> str | None:
    known = list(known)
    for name, value in expected.items():
        here = [one.get(name) if isinstance(one, dict) else one for one in seen]
        known_here = [(wrong[name], why) for wrong, why in known if name in wrong]
        if feedback := compare(value, here, known_here, tolerance):
            return f"{name}: {feedback}"
    return None


def _at(value: Any, rank: int) -> Any:
    return value[_PER_RANK][rank] if isinstance(value, dict) else value


def same(expected: Any, seen: Any, tolerance: float) -> bool:
    """Whether `seen` has the form of `expected` and its numbers, within `tolerance` of the largest of them."""
    if expected is None or seen is None or isinstance(expected, str) or isinstance(seen, str):
        return expected == seen
    try:
        a, b = _array(expected), _array(seen)
    except (ValueError, TypeError):
        return bool(expected == seen)
    if a.shape != b.shape:
        return False
    scale = float(np.max(np.abs(a), initial=0.0)) or 1.0
    return bool(np.all(np.isfinite(b)) and np.all(np.abs(a - b) <= tolerance * scale))


def _array(value: Any) -> np.ndarray:
    """The numbers of a nested list. Raises TypeError or ValueError where it holds anything else, None included."""
    if None in np.asarray(value, dtype=object).ravel():
        raise TypeError("None is no number, though NumPy makes nan of it")
    return np.asarray(value, dtype=float)


def _numbers(expected: Any, seen: list[Any], wrong: list[int]) -> str:
    pairs = {rank: _pair(_at(expected, rank), seen[rank]) for rank in wrong}
    right = {pair[0] for pair in pairs.values()}
    groups: dict[str, list[int]] = {}
    for rank, (_, got) in pairs.items():
        groups.setdefault(got, []).append(rank)
    if len(right) > 1 or len(groups) > 4:
        first, got = pairs[wrong[0]]
        return f"expected {first}   you returned {got} on rank {wrong[0]}"
    if len(groups) == 1:
        return f"expected {right.pop()}   you returned {next(iter(groups))} {_where(wrong, len(seen))}"
    returned = ", ".join(f"{got} on {rank_list(ranks)}" for got, ranks in groups.items())
    return f"expected {right.pop()}   you returned {returned}"


def _where(ranks: list[int], world: int) -> str:
    if world == 1:
        return ""
    return "on every rank" if len(ranks) == world else f"on {rank_list(ranks)}"


def rank_list(ranks: list[int]) -> str:
    """`rank 1`, `ranks 0 and 2`, `ranks 0, 1 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {join(ranks)}"


def join(items: Iterable[Any], word: str = "and") -> str:
    """`2`, `2 and 3`, `2, 3 and 4`."""
    *most, last = map(str, items)
    return f"{', '.join(most)} {word} {last}" if most else last


def _pair(expected: Any, seen: Any) -> tuple[str, str]:
    """The two as text: whole where short, else their shapes where those differ, else the element farthest off."""
    if seen is None or isinstance(expected, (str, bool, type(None))) or isinstance(seen, (str, bool)):
        return show(expected), show(seen)
    try:
        a, b = _array(expected), _array(seen)
    except (ValueError, TypeError):
        return show(expected), show(seen)
    if a.shape != b.shape:
        if max(a.size, b.size) <= 12:
            return show(expected), show(seen)
        return f"shape {a.shape}", f"shape {b.shape}"
    if a.size == 0:
        return show(expected), show(seen)
    gap = np.abs(a - b)
    place = np.unravel_index(int(np.argmax(np.where(np.isfinite(gap), gap, np.inf))), a.shape)
    label = f" at [{', '.join(map(str, place))}]" if a.size > 1 else ""
    right, got = _digits(float(a[place]), float(b[place]))
    return right + label, got


def _digits(a: float, b: float) -> tuple[str, str]:
    """Both with as many digits as it takes to tell them apart, three at least."""
    for digits in (3, 4, 6, 9, 17):
        first, second = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if first != second:
            break
    return first, second


def show(value: Any) -> str:
    """A value as a learner reads it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(show, value))}]"
        return text if len(text) <= 100 else text[:97] + "…]"
    return repr(value) if isinstance(value, str) else str(value)
