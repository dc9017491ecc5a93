"""What the flight recorders of the ranks say together: which call of one rank met which of another.

PyTorch's own analyser (`torchfrtrace`) compares the same records, but needs the groups' members in them, which
gloo leaves out, and torch in this process. Here each rank adds the members (`ddp_course.launcher.recorder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from ddp_course.launcher.run import Attempt

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}


@dataclass(frozen=True)
class Call:
    """One collective as one rank called it."""

    group: str
    instance: int  # a group's id in its process; a group made again under the same name has another
    seq: int
    op: str
    sizes: tuple[tuple[int, ...], ...]
    dtype: str
    done: bool
    time_ns: int
    file: str
    line: int

    @property
    def elements(self) -> int:
        return sum(prod(size) for size in self.sizes)

    def __str__(self) -> str:
        """`all_reduce #14 (float32, 1,024 elements)`."""
        where = "" if self.group == "default" else f" of group {self.group}"
        if not self.sizes:
            return f"{self.op} #{self.seq}{where}"
        dtype = f"{self.dtype}, " if self.dtype else ""
        elements = f"{self.elements:,} element{'s' * (self.elements != 1)}"
        return f"{self.op} #{self.seq}{where} ({dtype}{elements})"

    @property
    def shape(self) -> str:
        """`all_reduce #14 (float32, 2×3)`."""
        sizes = " and ".join("×".join(map(str, size)) for size in self.sizes)
        return f"{self.op} #{self.seq} ({self.dtype}, {sizes})"

    def agrees(self, other: Call) -> bool:
        """Whether the two can be one collective. Not compared: what may differ between ranks by right."""
        if self.op != other.op:
            return False
        if not self.sizes or not other.sizes:
            return True
        if self.dtype != other.dtype:
            return False
        if "to_all" in self.op or "alltoall" in self.op:
            return True
        if self.elements != other.elements:
            return False
        same_depth = [len(a) for a in self.sizes] == [len(b) for b in other.sizes]
        return not same_depth or self.sizes == other.sizes


@dataclass(frozen=True)
class Recorded:
    """One rank's record."""

    calls: list[Call]
    members: dict[str, list[int]]
    remarks: list[str]

    @cached_property
    def groups(self) -> dict[str, list[dict[int, Call]]]:
        """For each group its instances in order, each as seq → call."""
        found: dict[str, dict[int, dict[int, Call]]] = {}
        for call in self.calls:
            found.setdefault(call.group, {}).setdefault(call.instance, {})[call.seq] = call
        return {group: list(instances.values()) for group, instances in found.items()}

    @property
    def waiting(self) -> Call | None:
        """The oldest call that has not ended."""
        return next((call for call in self.calls if not call.done), None)

    @property
    def last(self) -> Call | None:
        return self.calls[-1] if self.calls else None


def load(attempt: Attempt) -> Recorded | None:
    """The rank's record; None where it left none or a damaged one."""
    content = attempt.json("collectives")
    try:
        calls = [_call(entry) for entry in content["calls"] if not entry["p2p"]]
        if attempt.asked_ns:
            calls = [call for call in calls if call.time_ns < attempt.asked_ns]
        return Recorded(sorted(calls, key=lambda call: call.time_ns), dict(content["groups"]), content["remarks"])
    except (TypeError, KeyError):
        return None


def load_all(attempts: Iterable[tuple[int, Attempt]]) -> dict[int, Recorded]:
    """The records of the ranks that left one."""
    return {rank: record for rank, attempt in attempts if (record := load(attempt))}


def _call(entry: dict[str, Any]) -> Call:
    op = entry["op"]
    # The root of a scatter gives a tensor for each rank, the others none: what each receives is compared.
    sizes = entry["out"] if "scatter" in op else entry["sizes"]
    dtype = entry["dtypes"][0] if entry["dtypes"] else ""
    return Call(
        entry["group"],
        entry["id"],
        entry["seq"],
        op,
        tuple(tuple(size) for size in sizes),
        _DTYPES.get(dtype, dtype.lower()),
        entry["done"],
        entry["time_ns"],
        entry["file"],
        entry["line"],
    )


@dataclass(frozen=True)
class Mismatch:
    """Ranks that made different calls where one collective was due: the camps, the largest first."""

    camps: list[tuple[list[int], Call | None]]  # None: never called it

    @property
    def minority(self) -> list[int]:
        """The ranks outside the largest camp; all of them where no camp is the largest."""
        sizes = [len(ranks) for ranks, _ in self.camps]
        camps = self.camps if sizes[0] == sizes[1] else self.camps[1:]
        return sorted(rank for ranks, _ in camps for rank in ranks)


def first_mismatch(records: dict[int, Recorded], ended: bool) -> Mismatch | None:
    """The first collective, in group order, that the ranks did not agree on.

    `ended`: every rank has ended by itself, so that a call that is missing will not come any more.
    """
    names = list(dict.fromkeys(name for record in records.values() for name in record.groups))
    for name in names:
        having = {rank: record.groups[name] for rank, record in records.items() if name in record.groups}
        if ended and name == "default":
            having = {rank: record.groups.get(name, [{}]) for rank, record in records.items()}
        if len(having) > 1 and (found := _in_group(having, ended)):
            return found
    return None


def _in_group(having: dict[int, list[dict[int, Call]]], ended: bool) -> Mismatch | None:
    if len({len(instances) for instances in having.values()}) > 1:
        return None  # made again a different number of times: nothing says which belongs to which
    for instance in zip(*having.values(), strict=True):
        calls = dict(zip(having, instance, strict=True))
        # A recorder keeps the last 2,000 calls: compare from where all of them begin.
        start = max(min(seqs, default=1) for seqs in calls.values())
        ends = [max(seqs, default=0) for seqs in calls.values()]
        for seq in range(start, (max(ends) if ended else min(ends)) + 1):
            found = camps({rank: seqs.get(seq) for rank, seqs in calls.items()})
            if len(found) > 1:
                return Mismatch(found)
    return None


def camps(calls: Mapping[int, Call | None]) -> list[tuple[list[int], Call | None]]:
    """The ranks whose calls can be one collective, together with one of these calls; the largest camp first."""
    found: list[tuple[list[int], Call | None]] = []
    for rank, call in calls.items():
        for ranks, other in found:
            if call is other or (call and other and call.agrees(other)):
                ranks.append(rank)
                break
        else:
            found.append(([rank], call))
    return sorted(found, key=lambda camp: -len(camp[0]))
