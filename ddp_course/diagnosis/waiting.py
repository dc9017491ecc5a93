"""Ranks that waited for one that did not come: a hang, a collective's own time limit, a rank that left early."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ddp_course.diagnosis import causes, collectives
from ddp_course.diagnosis.block import Diagnosis
from ddp_course.diagnosis.code import Frame, called, learners, main_thread, shown, source
from ddp_course.diagnosis.collectives import Call, Recorded
from ddp_course.diagnosis.who import End, names
from ddp_course.run import Run

_C10D = "torch/distributed/distributed_c10d.py"
_WAIT = re.compile(r"\.wait(_all)?\(")


@dataclass(frozen=True)
class View:
    """Where one rank stood at the end."""

    rank: int
    state: str  # waits, stopped, ended (by itself, exit code 0), elsewhere, unknown
    frames: tuple[Frame, ...]
    call: Call | None
    op: str

    @property
    def place(self) -> Frame | None:
        own = learners(self.frames)
        if own is None and self.call and self.call.file:
            return Frame(self.call.file, self.call.line, "")
        return own

    @property
    def what(self) -> str:
        """`all_reduce #14 (float32, 1,024 elements)`, or the function's name where it is not recorded."""
        return str(self.call) if self.call else self.op


def view(end: End, record: Recorded | None) -> View:
    """Where the rank stood, from its stack (or its traceback) and its flight recorder."""
    if end.status == "done":
        return View(end.rank, "ended", tuple(end.frames), record.last if record else None, "")
    alive = end.status == "alive"
    frames = tuple(main_thread(end.attempt.text("stacks"))) if alive or end.status == "ended" else tuple(end.frames)
    call = None
    if record:
        call = record.waiting if alive else record.last if end.status in ("timed out", "lost") else None
    op = _operation(frames)
    if call and op and not _same(op, call.op) and op in _POINT_TO_POINT:
        call = None  # gloo does not record what it sends and receives: this call is an older one
    if end.attempt.stopped:
        return View(end.rank, "stopped", frames, call, op)
    if call or op:
        return View(end.rank, "waits", frames, call, op)
    return View(end.rank, "elsewhere" if frames else "unknown", frames, None, "")


_POINT_TO_POINT = {"send", "recv", "isend", "irecv", "wait", "monitored_barrier", "batch_isend_irecv"}


def _same(name: str, recorded: str) -> bool:
    return name.replace("_", "") in recorded.replace("_", "") or recorded in name


def _operation(frames: tuple[Frame, ...]) -> str:
    """The function of torch.distributed that the rank is in; '' where it is in none."""
    inside = []
    for frame in frames:
        if not frame.is_library:
            break
        inside.append(frame)
    for frame in reversed(inside):
        if frame.file.endswith(_C10D) and not frame.name.startswith("_") and frame.name != "wrapper":
            return frame.name
    own = learners(frames)
    if own and not inside and _WAIT.search(source(own.file, own.line) or ""):
        return "wait"
    return ""


def views(run: Run, ends: list[End]) -> list[View]:
    return [view(end, collectives.load(end.attempt)) for end in ends]


def diagnose(run: Run, ends: list[End], kind: str, seen: list[View] | None = None) -> Diagnosis | None:
    """`kind` is hang, collective_timeout or left_early. None where no rank waited for another."""
    seen = views(run, ends) if seen is None else seen
    records = {end.rank: record for end in ends if (record := collectives.load(end.attempt))}
    if mismatch := collectives.first_mismatch(records, ended=False):
        return _disagreed(run, seen, mismatch, kind)
    waiting = [one for one in seen if one.state == "waits"]
    if not waiting:
        return None
    missing = [one for one in seen if one.state != "waits"]
    members = _members(waiting[0], records)
    missing = [one for one in missing if not members or one.rank in members] or missing
    if not missing:
        missing, waiting = _all_wait(seen)
    return _block(run, kind, waiting, missing)


def _members(waits: View, records: dict[int, Recorded]) -> list[int]:
    record = records.get(waits.rank)
    return record.members.get(waits.call.group, []) if record and waits.call else []


def _all_wait(seen: list[View]) -> tuple[list[View], list[View]]:
    """Every rank waits. Those that wait for something else than most are the ones that are missed."""
    camps: dict[str, list[View]] = {}
    for one in seen:
        camps.setdefault(one.what, []).append(one)
    largest = max(camps.values(), key=len)
    if [len(camp) for camp in camps.values()].count(len(largest)) > 1 or len(camps) == 1:
        return seen, []
    return [one for one in seen if one not in largest], largest


def _disagreed(run: Run, seen: list[View], mismatch: collectives.Mismatch, kind: str) -> Diagnosis:
    """The ranks made different calls where one collective was due."""
    calls = {rank: call for ranks, call in mismatch.camps for rank in ranks if call}
    there = [
        replace(one, call=calls[one.rank], frames=_called_at(calls[one.rank], one), state="waits")
        for one in seen
        if one.rank in calls
    ]
    minority = [one for one in there if one.rank in mismatch.minority]
    majority = [one for one in there if one.rank not in mismatch.minority]
    ops = {call.op for call in calls.values()}
    block = _block(run, kind, majority, minority)
    if len(ops) > 1:
        return block
    return replace(block, explanation=SHAPES_WHY, fix=SHAPES_FIX, section=SHAPES_SECTION)


SHAPES_WHY = (
    "A collective needs the same number of elements and the same dtype on every rank. gloo does not check: it waits "
    "for ever, or mixes up values and goes on."
)
SHAPES_FIX = (
    "Give the tensor the same shape and dtype on every rank: pad it, or share the sizes first (all_gather of a length)."
)
SHAPES_SECTION = "lesson 1, section 3"


def _called_at(call: Call, one: View) -> tuple[Frame, ...]:
    """The frames of the call itself where the rank has gone on since."""
    own = learners(one.frames)
    if not call.file or (own and (own.file, own.line) == (call.file, call.line)):
        return one.frames
    return (Frame(call.file, call.line, ""),)


def _block(run: Run, kind: str, waiting: list[View], missing: list[View]) -> Diagnosis:
    first = missing[0]
    place = first.place
    library = [name for one in (waiting or missing) for name in called(one.frames)]
    known = causes.by_wait(library)
    sentence = "; ".join([*_phrases(waiting, run, place), *_phrases(missing, run, place, bool(waiting))])
    title = {"hang": "hang", "collective_timeout": "time limit of a collective", "left_early": "left early"}[kind]
    stopped = all(one.state == "stopped" for one in missing)
    return Diagnosis(
        kind,
        [one.rank for one in missing],
        [one.rank for one in waiting],
        shown(place.file, run.cwd) if place else None,
        place.line if place else None,
        source(place.file, place.line) if place else None,
        _STOPPED_WHY if stopped else known.why,
        _STOPPED_FIX if stopped else known.fix,
        known.section,
        headline=f"{title}: {sentence}",
    )


_STOPPED_WHY = "The process was stopped by a signal (SIGSTOP, or Ctrl-Z in its terminal), so nothing in it ran."
_STOPPED_FIX = "Let it go on with SIGCONT (`kill -CONT`, or `fg`), or find what stopped it: a debugger, a job scheduler."


def _phrases(group: list[View], run: Run, main: Frame | None, came: bool = False) -> list[str]:
    """One phrase for each set of ranks that say the same."""
    said: dict[str, list[int]] = {}
    for one in group:
        said.setdefault(_phrase(one, run, main, came), []).append(one.rank)
    result = []
    for phrase, ranks in said.items():
        several, single = phrase.split("|") if "|" in phrase else (phrase, phrase)
        result.append(f"{names(ranks)} {single if len(ranks) == 1 else several}")
    return result


def _phrase(one: View, run: Run, main: Frame | None, missed: bool) -> str:
    """`plural|singular`."""
    place = one.place
    where = ""
    if place:
        file = "" if main is None or place.file == main.file else f"{shown(place.file, run.cwd)}, "
        where = f" at {file}line {place.line}"
    if one.state == "ended":
        last = f" after {one.call}" if one.call and not one.frames else ""
        return f"had already ended with exit code 0{where if one.frames else ''}{last}"
    if one.state == "stopped":
        return f"are stopped (SIGSTOP){where}|is stopped (SIGSTOP){where}"
    if one.state == "waits":
        inside = f", in {one.what}"
        if missed:
            return f"never came: they are{where}{inside}|never came: it is{where}{inside}"
        return f"wait in {one.what}{where}|waits in {one.what}{where}"
    if one.state == "elsewhere":
        if missed:
            return f"never came: they are{where}|never came: it is{where}"
        return f"are{where}|is{where}"
    return "did not say where they are|did not say where it is"
