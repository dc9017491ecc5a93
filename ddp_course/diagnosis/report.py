"""Which story a run tells: a failure, a wait in vain, a time limit, a warning, or none."""

from __future__ import annotations

from ddp_course.diagnosis import collectives, failures, waiting
from ddp_course.diagnosis.block import Diagnosis
from ddp_course.diagnosis.code import learners, main_thread, shown, source
from ddp_course.diagnosis.failures import LOGS
from ddp_course.diagnosis.who import End, clean, ends, names
from ddp_course.run import Run


def diagnose(run: Run) -> Diagnosis | None:
    found = ends(run)
    if run.ok:
        return _warning(run, found)
    having = {end.status for end in found}
    if "failed" in having:
        return failures.diagnose(run, found)
    if "timed out" in having and (said := waiting.diagnose(run, found, "collective_timeout")):
        return said
    if "lost" in having:
        return _lost_connection(run, found)
    if run.outcome == "timeout":
        return _time_is_up(run, found)
    return _ended_from_outside(run, found)


def _lost_connection(run: Run, found: list[End]) -> Diagnosis:
    """Only victims failed: one that ended well left them alone, or nobody says why."""
    if any(end.status == "done" for end in found) and (said := waiting.diagnose(run, found, "left_early")):
        return said
    lost = [end for end in found if end.status == "lost"]
    first = lost[0]
    place = first.place
    return Diagnosis(
        "connection_lost",
        [],
        [end.rank for end in lost],
        shown(place.file, run.cwd) if place else None,
        place.line if place else None,
        source(place.file, place.line) if place else None,
        "The connection to another rank ended, and no rank tells why it left.",
        "",
        "lesson 4, section 5",
        headline=f"{names([end.rank for end in lost], len(run.ranks))}: {clean(str((first.error or {}).get('message', 'connection lost')))}",
        logs=LOGS,
    )


def _time_is_up(run: Run, found: list[End]) -> Diagnosis:
    seen = waiting.views(run, found)
    alive = [end for end in found if end.status == "alive"]
    idle = _idle_seconds(run, alive)
    limit = f"{run.timeout:g} s"
    more = f"If it only needs longer, give it more: --timeout {2 * run.timeout:g}."
    if not found:
        return Diagnosis(
            "timeout",
            explanation="The time limit counts from the start of the cell, and the processes were not up by then.",
            fix=more,
            headline=f"no rank had started when the time limit of {limit} was up",
            logs=LOGS,
        )
    busy = idle < min(30.0, max(0.5, 0.2 * run.timeout))
    if not busy and (said := waiting.diagnose(run, found, "hang", seen)):
        return said
    stuck = [one for one in seen if one.state != "ended"]
    place = next((one.place for one in stuck if one.place), None)
    where = "; ".join(waiting._phrases(stuck, run, place))
    return Diagnosis(
        "timeout",
        [] if busy else [one.rank for one in stuck],
        [],
        shown(place.file, run.cwd) if place else None,
        place.line if place else None,
        source(place.file, place.line) if place else None,
        "The program was still making progress: it printed, reported or communicated shortly before."
        if busy
        else "Nothing was printed, reported or communicated for a while, and no rank waits for another.",
        more if busy else f"Look for a loop or a wait without end at that line. {more}",
        "lesson 4, section 6",
        headline=f"not finished after the time limit of {limit}: {where}",
    )


def _idle_seconds(run: Run, alive: list[End]) -> float:
    """Seconds between the last sign of progress of any rank and the moment the run was ended."""
    now, last = 0.0, 0.0
    for end in alive:
        for kind in ("out", "err", "reports", "stacks"):
            try:
                changed = end.attempt.path(kind).stat().st_mtime
            except OSError:
                continue
            if kind == "stacks":
                now = max(now, changed)
            elif end.attempt.path(kind).stat().st_size:
                last = max(last, changed)
        record = collectives.load(end.attempt)
        if record and record.last:
            last = max(last, record.last.time_ns / 1e9)
    return now - last if now else 1e9


def _ended_from_outside(run: Run, found: list[End]) -> Diagnosis:
    stopped = [end for end in found if end.status == "ended"]
    place = learners(main_thread(stopped[0].attempt.text("stacks"))) if stopped else None
    if stopped:
        return Diagnosis(
            "terminated",
            [],
            [end.rank for end in stopped],
            shown(place.file, run.cwd) if place else None,
            place.line if place else None,
            source(place.file, place.line) if place else None,
            "No rank failed: a signal from outside ended the run (SIGTERM or SIGINT).",
            "",
            "lesson 4, section 5",
            headline=f"{names([end.rank for end in stopped], len(run.ranks))}: ended from outside",
            logs=LOGS,
        )
    log = _agent_log(run)
    return Diagnosis(
        "agent_lost",
        explanation="No rank failed: the process that watches over them (torchrun's agent) ended, and they with it.",
        fix="Run it again. If that repeats, memory may be short: the system then ends processes (SIGKILL).",
        section="lesson 4, section 5",
        headline="the run lost its agent" + (f": {clean(log)}" if log else ""),
        logs=LOGS,
    )


def _agent_log(run: Run) -> str:
    """The exception that ended the agent, if one did."""
    try:
        lines = (run.folder / "agent.log").read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if "Error" in line.partition(":")[0] and line[0] != " "), "")


def _warning(run: Run, found: list[End]) -> Diagnosis | None:
    """What a run that ended well got wrong in silence."""
    records = {end.rank: record for end in found if (record := collectives.load(end.attempt))}
    mismatch = collectives.first_mismatch(records, ended=len(records) == len(run.ranks))
    if mismatch is None:
        return None
    camps = []
    for ranks, call in mismatch.camps:
        verb = "call" if len(ranks) > 1 else "calls"
        what = f"{verb} {call} at line {call.line}" if call else f"{verb} nothing any more"
        camps.append(f"{names(sorted(ranks))} {what}")
    call = next(c for ranks, c in reversed(mismatch.camps) if c)
    same_op = len({c.op for _, c in mismatch.camps if c}) == 1 and all(c for _, c in mismatch.camps)
    found_cause = waiting.causes.by_wait([])
    return Diagnosis(
        "mismatched_collectives",
        mismatch.minority,
        [],
        shown(call.file, run.cwd) if call.file else None,
        call.line if call.file else None,
        source(call.file, call.line) if call.file else None,
        waiting.SHAPES_WHY if same_op else f"{found_cause.why} gloo does not check, so the values are wrong.",
        waiting.SHAPES_FIX if same_op else found_cause.fix,
        waiting.SHAPES_SECTION if same_op else found_cause.section,
        headline=f"the run ended, but its collectives do not match: {'; '.join(camps)}",
        warning=True,
    )
