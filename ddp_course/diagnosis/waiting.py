"""Ranks that waited for one that did not come: a hang, a collective's own time limit, a rank that left early."""

from __future__ import annotations

import re
from dataclasses import replace

from ddp_course.diagnosis import causes, collectives
from ddp_course.diagnosis.block import Diagnosis
from ddp_course.diagnosis.causes import Found
from ddp_course.diagnosis.code import Frame, called, learners, shown, source
from ddp_course.diagnosis.collectives import Call, Mismatch, Recorded
from ddp_course.diagnosis.views import View, phrases, view
from ddp_course.diagnosis.who import End, names
from ddp_course.launcher.run import Run

INIT = "init_process_group"
_ROOTED = re.compile(r"(broadcast|reduce|gather|scatter)(_object)?(_list)?$")
_TITLES = {
    "hang": "hang",
    "collective_timeout": "a collective timed out",
    "mismatched_collectives": "collectives that do not match",
}


def views(ends: list[End], records: dict[int, Recorded]) -> list[View]:
    """Where each rank stood."""
    return [view(end, records.get(end.rank)) for end in ends]


def diagnose(run: Run, ends: list[End], kind: str) -> Diagnosis | None:
    """`kind` is hang, collective_timeout or left_early. None where no rank waited for another."""
    records = collectives.load_all((end.rank, end.attempt) for end in ends)
    seen = views(ends, records)
    if mismatch := collectives.first_mismatch(records, ended=False):
        return _disagreed(run, seen, mismatch, kind)
    waiting = [one for one in seen if one.state == "waits"]
    if not waiting:
        return None
    missing = [one for one in seen if one.state != "waits"]
    members = _members(waiting[0], records)
    missing = [one for one in missing if not members or one.rank in members] or missing
    if not missing:
        missing = _out_of_step(waiting)
        waiting = [one for one in waiting if one not in missing]
    found = _stopped(missing) or _same_call(missing, waiting) or causes.by_wait(_functions(waiting, missing))
    if found.kind == causes.WAITING[-1].kind and _elsewhere(missing):
        found = causes.ELSEWHERE
    return _block(run, kind, waiting, missing, found)


def disagreement(mismatch: Mismatch) -> Found:
    """Why it matters that calls differ, and what to do."""
    calls = [call for _, call in mismatch.camps]
    if all(calls) and len({(call.op, call.file, call.line) for call in calls if call}) == 1:
        return causes.OTHER_SHAPES
    return replace(causes.by_wait([]), kind="other_kinds")


def _members(waits: View, records: dict[int, Recorded]) -> list[int]:
    record = records.get(waits.rank)
    return record.members.get(waits.call.group, []) if record and waits.call else []


def _out_of_step(waiting: list[View]) -> list[View]:
    """Every rank waits. Those are missed that wait for one rank only, or else those that are not with the most."""
    if for_one := [one for one in waiting if one.waits_for_one]:
        return for_one
    camps: dict[str, list[View]] = {}
    for one in waiting:
        camps.setdefault(one.what, []).append(one)
    sizes = sorted(map(len, camps.values()), reverse=True)
    if len(sizes) == 1 or sizes[0] == sizes[1]:
        return waiting
    return [one for camp in camps.values() if len(camp) < sizes[0] for one in camp]


def _functions(waiting: list[View], missing: list[View]) -> list[str]:
    """What the wait was in: the missing ranks' send or recv, where it is that which keeps them away."""
    group = missing if all(one.waits_for_one for one in missing) else waiting or missing
    return [name for one in group for name in called(one.frames)]


def _elsewhere(missing: list[View]) -> bool:
    return all(one.state == "elsewhere" for one in missing)


def _stopped(missing: list[View]) -> Found | None:
    return causes.STOPPED if all(one.state == "stopped" for one in missing) else None


def _same_call(missing: list[View], waiting: list[View]) -> Found | None:
    same = not waiting and len({one.what for one in missing}) == 1 and not missing[0].waits_for_one
    if not same or len(missing) == 1:
        return None
    if missing[0].op == INIT:
        return causes.ALL_IN_INIT
    return causes.OTHER_ROOTS if any(map(_ROOTED.match, called(missing[0].frames))) else causes.ALL_CAME


def _disagreed(run: Run, seen: list[View], mismatch: Mismatch, kind: str) -> Diagnosis:
    """The ranks made different calls where one collective was due."""
    calls = {rank: call for ranks, call in mismatch.camps for rank in ranks if call}
    there = [_at(one, calls[one.rank]) for one in seen if one.rank in calls]
    minority = [one for one in there if one.rank in mismatch.minority]
    majority = [one for one in there if one.rank not in mismatch.minority]
    found = causes.by_calls([called(one.frames) for one in seen]) or disagreement(mismatch)
    if found is causes.OTHER_SHAPES:
        kind = kind if kind == "hang" else "mismatched_collectives"
        return replace(_block(run, kind, majority, minority, found), headline=f"{_TITLES[kind]}: {said(mismatch)}")
    return _block(run, kind, majority, minority, found)


def said(mismatch: Mismatch) -> str:
    """`ranks 0 and 2 call all_reduce #1 (float32, 3 elements) at line 6; rank 1 calls …`."""
    result = []
    alike = len({str(call) for _, call in mismatch.camps}) < len(mismatch.camps)  # other shapes, as many elements
    for ranks, call in mismatch.camps:
        verb = "calls" if len(ranks) == 1 else "call"
        what = (
            (call.shape if alike else str(call)) + (f" at line {call.line}" if call.line else "")
            if call
            else "nothing any more"
        )
        result.append(f"{names(sorted(ranks))} {verb} {what}")
    return "; ".join(result)


def met_another(run: Run, ends: list[End]) -> Diagnosis | None:
    """gloo ended a rank because what came was of another size: it was the data of another call, or another rank's
    tensor is larger or smaller. Whom gloo ends says nothing of whose fault it is: that lies with the ranks that are at
    another line than most, or whose tensors differ from most. None where it is the ended rank's own."""
    records = collectives.load_all((end.rank, end.attempt) for end in ends)
    seen = views(ends, records)
    if receivers := [one for end, one in zip(ends, seen, strict=True) if end.status == "failed" and _receives(one)]:
        others = [one for one in seen if one not in receivers]
        return _block(run, "mismatched_collectives", others, receivers, causes.RECEIVED_ANOTHER_SIZE)
    lines: dict[Frame | None, list[View]] = {}
    for one in seen:
        lines.setdefault(one.place and one.place._replace(name=""), []).append(one)
    camps = sorted(lines.values(), key=len, reverse=True)
    if len(camps) == 1:
        return _other_sizes(run, seen)
    most = camps.pop(0) if len(camps[0]) > len(camps[1]) else []
    return _block(run, "mismatched_collectives", most, [one for camp in camps for one in camp], causes.by_wait([]))


def _receives(one: View) -> bool:
    return one.op in ("recv", "irecv", "batch_isend_irecv")


def _other_sizes(run: Run, seen: list[View]) -> Diagnosis | None:
    """All ranks are at one line. Those that gloo has ended left no record: what they called is not known."""
    calls = {one.rank: one.call for one in seen}
    known = {rank: call for rank, call in calls.items() if call}
    camps = collectives.camps(known)
    sizes = [len(ranks) for ranks, _ in camps]
    if sizes and sizes[0] > 1 and len(camps) == 1:
        return None  # the others agree
    clear = len(sizes) > 1 and sizes[0] > sizes[1]
    guilty = [rank for ranks, _ in camps[1:] for rank in ranks] if clear else list(calls)
    found = causes.OTHER_SHAPES
    block = _block(
        run,
        "mismatched_collectives",
        [one for one in seen if one.rank not in guilty],
        [one for one in seen if one.rank in guilty],
        found,
    )
    if len(camps) < 2:
        return block
    calls_made = said(Mismatch(camps))
    if silent := [rank for rank, call in calls.items() if not call]:
        calls_made += f"; {names(silent)} left no record"
    return replace(block, headline=f"{_TITLES[block.kind]}: {calls_made}")


def _at(one: View, call: Call) -> View:
    """The rank at that call, where it has gone on since."""
    own = learners(one.frames)
    if call.file and (own is None or (own.file, own.line) != (call.file, call.line)):
        return View(one.rank, "waits", (Frame(call.file, call.line, ""),), call)
    return View(one.rank, "waits", one.frames, call)


def _block(run: Run, kind: str, waiting: list[View], missing: list[View], found: Found) -> Diagnosis:
    place = next((one.place for one in [*missing, *waiting] if one.place), None)
    past = kind != "hang"
    sentence = "; ".join([*phrases(waiting, run, place, past=past), *phrases(missing, run, place, bool(waiting), past)])
    title = f"{names([one.rank for one in missing])} left early" if kind == "left_early" else _TITLES[kind]
    return Diagnosis(
        kind,
        [one.rank for one in missing],
        [one.rank for one in waiting],
        shown(place.file, run.cwd) if place else None,
        place.line if place else None,
        source(place.file, place.line) if place else None,
        found.why,
        found.fix,
        found.section,
        cause=found.kind,
        headline=f"{title}: {sentence}",
    )
