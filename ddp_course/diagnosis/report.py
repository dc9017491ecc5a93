"""Which story a run tells: a failure, a wait in vain, a time limit, a warning, or none."""

from __future__ import annotations

import re
from typing import Any

from ddp_course.diagnosis import causes, collectives, failures, waiting
from ddp_course.diagnosis.block import Diagnosis
from ddp_course.diagnosis.causes import Found
from ddp_course.diagnosis.code import Frame, shown, source
from ddp_course.diagnosis.failures import LOGS
from ddp_course.diagnosis.views import View, phrases
from ddp_course.diagnosis.who import End, clean, ends, names, on_nodes
from ddp_course.launcher.run import Run

_SECTION = "lesson 4, section 5"
_HANGS = "lesson 4, section 6"


def diagnose(run: Run) -> Diagnosis | None:
    """The diagnosis of a run that has ended; None for a clean one."""
    found = ends(run)
    if run.ok:
        return _warning(run, found)
    if not run.folder.exists():
        return _folder_deleted()
    having = {end.status for end in found}
    if "failed" in having:
        return failures.diagnose(run, found)
    if run.outcome == "lost":
        return _ended_from_outside(run, found)
    if "timed out" in having and (said := waiting.diagnose(run, found, "collective_timeout")):
        return said
    if "lost" in having:
        return _lost_connection(run, found)
    if run.outcome == "timeout":
        return _time_is_up(run, found)
    return _ended_from_outside(run, found)


def _waiting(run: Run) -> str:
    if run.nodes.several:
        return "the nodes waited"
    return "this node waited" if run.nodes.node_rank is None else f"node {run.nodes.node_rank} waited"


def _folder_deleted() -> Diagnosis:
    return Diagnosis(
        "run_folder_deleted",
        explanation="What the ranks leave for the diagnosis was in it. What they printed is in the transcript.",
        fix="Leave .ddp_course/runs alone while a cell runs, and run the cell again.",
        headline="the run failed, and its folder was deleted while it ran",
    )


def _lost_connection(run: Run, found: list[End]) -> Diagnosis:
    """Only victims failed: one that ended well left them alone, or nobody says why."""
    if any(end.status == "done" for end in found) and (said := waiting.diagnose(run, found, "left_early")):
        return said
    lost = [end for end in found if end.status == "lost"]
    ranks = [end.rank for end in lost]
    message = str((lost[0].error or {}).get("message", "lost a connection"))
    return Diagnosis(
        "connection_lost",
        victims=ranks,
        explanation="The connection to another rank ended, and no rank tells why it left.",
        section=_SECTION,
        headline=f"{names(ranks, len(run.ranks))}: {clean(message)}",
        logs=LOGS,
        **_at(run, lost[0].place),
    )


def _at(run: Run, place: Frame | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {"file": shown(place.file, run.cwd), "line": place.line, "source": source(place.file, place.line)}


def _time_is_up(run: Run, found: list[End]) -> Diagnosis:
    limit = f"the time limit of {run.timeout:g} s"
    more = f"If it only needs longer, give it more: --timeout {2 * run.timeout:g}."
    if run.stopped_agents:
        return _agent_stopped(run, found, limit)
    if not found:
        known = causes.by_text(_agent_logs(run))
        alone = known is None and run.nodes.most > 1
        why = known or (causes.NODE_MISSING if alone else Found("timeout", "", more, ""))
        return Diagnosis(
            why.kind,
            explanation=why.why,
            fix=why.fix,
            section=why.section or None,
            headline=f"no rank had started when {limit} was up" + f": {_waiting(run)} for the others" * alone,
            logs=LOGS,
        )
    records = collectives.load_all((end.rank, end.attempt) for end in found)
    seen = waiting.views(found, records)
    patience = min(30.0, max(0.5, 0.2 * run.timeout))
    busy = _idle_seconds(found, records) < patience
    met = all(one.state == "waits" and one.op == waiting.INIT for one in seen)  # its own warnings are no work
    if (met or not busy or _waited_seconds(seen, found) > patience) and (said := waiting.diagnose(run, found, "hang")):
        return said
    stuck = [one for one in seen if one.state != "ended"]
    place = next((one.place for one in stuck if one.place), None)
    quiet = "It printed, reported and communicated nothing for a while, and no rank waits for another."
    return Diagnosis(
        "timeout",
        [] if busy else [one.rank for one in stuck],
        explanation="The program was still at work: it printed, reported or communicated to the end."
        if busy
        else quiet,
        fix=more if busy else f"Look for a loop or a wait without end {'at that line' if place else 'there'}. {more}",
        section=_HANGS,
        headline=f"not finished after {limit}: {'; '.join(phrases(stuck, run, place))}",
        **_at(run, place),
    )


def _agent_stopped(run: Run, found: list[End], limit: str) -> Diagnosis:
    whose = f"the agent of node {run.stopped_agents[0]}" if run.nodes.several else "the agent"
    return Diagnosis(
        causes.STOPPED.kind,
        victims=[end.rank for end in found if end.status != "done"],
        explanation=causes.STOPPED.why,
        fix=causes.STOPPED.fix,
        section=causes.STOPPED.section,
        headline=f"not finished after {limit}: {whose} was stopped (SIGSTOP)",
        logs=LOGS,
    )


def _idle_seconds(found: list[End], records: dict[int, collectives.Recorded]) -> float:
    """Seconds between the last sign of progress of any rank and the moment they were asked where they stand."""
    asked = max(end.attempt.asked_ns for end in found)
    signs = [0, *(record.last.time_ns for record in records.values() if record.last)]
    for end in found:
        for kind in ("out", "err", "reports"):
            try:
                stat = end.attempt.path(kind).stat()
            except OSError:
                continue
            if stat.st_size:
                signs.append(stat.st_mtime_ns)
    return (asked - max(signs)) / 1e9


def _waited_seconds(seen: list[View], found: list[End]) -> float:
    """How long the oldest collective that has not ended has been waited for."""
    asked = max(end.attempt.asked_ns for end in found)
    return max([0.0, *((asked - one.call.time_ns) / 1e9 for one in seen if one.call and one.state == "waits")])


def _ended_from_outside(run: Run, found: list[End]) -> Diagnosis:
    ended = [end for end in found if end.status == "ended"]
    if said := _slurm_said(run):
        return Diagnosis(
            "job_ended",
            victims=[end.rank for end in found if end.status != "done"],
            explanation="No rank failed: the job that they ran in was cancelled, or lost a node.",
            section="lesson 4, section 7",
            headline=f"SLURM ended the job: {said}",
            logs=LOGS,
        )
    killed = [node for node, code in run.agents.items() if code is not None and code < 0]
    if killed:
        return _agent_lost(run, found, killed)
    if ended:
        ranks = [end.rank for end in ended]
        return Diagnosis(
            "terminated",
            victims=ranks,
            explanation="No rank failed: a signal from outside (SIGTERM or SIGINT) ended the run.",
            section=_SECTION,
            headline=f"{on_nodes(run, ranks)}: ended from outside",
            logs=LOGS,
            **_at(run, ended[0].place),
        )
    if log := _agent_log(run):
        why = causes.by_text(log)
        return Diagnosis(
            why.kind if why else "agent_lost",
            victims=[end.rank for end in found if end.status != "done"],
            explanation=why.why
            if why
            else "No rank failed: the process that watches over them, torchrun's agent, ended with this error.",
            fix=why.fix if why else "",
            section=why.section if why else _SECTION,
            headline=f"the run lost its agent: {clean(log)}",
            logs=LOGS,
        )
    return _agent_lost(run, found, [])


def _agent_lost(run: Run, found: list[End], lost: list[int]) -> Diagnosis:
    """The agents of the nodes `lost` left no word: a signal ended them. [] where nobody says which."""
    ranks = [rank.rank for rank in run.last_attempt if rank.node in lost]
    headline, whose, more = "the run lost its agent", "them", ""
    if run.nodes.several and len(lost) == 1:
        whose = f"the ranks of node {lost[0]}"
        headline = f"node {lost[0]} lost its agent" + (f", and {names(ranks)} with it" if ranks else "")
        if lost[0]:  # node 0 serves the rendezvous
            more = " With --nnodes=MIN:MAX and --max-restarts the other nodes go on."
    return Diagnosis(
        "agent_lost",
        victims=[end.rank for end in found if end.status != "done"],
        explanation=f"No rank failed: the process that watches over {whose}, torchrun's agent, ended, and they with "
        "it.",
        fix=f"Run it again. If that repeats, memory may be short: the system then ends processes (SIGKILL).{more}",
        section=_SECTION,
        headline=headline,
        logs=LOGS,
    )


def _slurm_said(run: Run) -> str:
    """What SLURM said of a job that it ended, without the time."""
    log = run.folder / "srun.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    said = next((line.partition("error: ")[2] for line in lines if "error: ***" in line), "")
    return re.sub(r" AT \S+", "", said.strip("* "))


def _agent_logs(run: Run) -> str:
    return "\n".join(log.read_text(errors="replace") for log in sorted(run.folder.glob("**/agent.log")))


def _agent_log(run: Run) -> str:
    """The exception that ended the agent, if one did."""
    lines = [line for line in _agent_logs(run).splitlines() if "Error" in line.partition(":")[0] and line[0] != " "]
    return lines[-1] if lines else ""


def _warning(run: Run, found: list[End]) -> Diagnosis | None:
    """What a run that ended well got wrong in silence."""
    records = collectives.load_all((end.rank, end.attempt) for end in found)
    if mismatch := collectives.first_mismatch(records, ended=len(records) == len(run.ranks)):
        call = next(call for _, call in reversed(mismatch.camps) if call)
        why = waiting.disagreement(mismatch)
        unchecked = "" if why is causes.OTHER_SHAPES else " gloo does not check it: values may be wrong."
        return Diagnosis(
            "mismatched_collectives",
            mismatch.minority,
            explanation=why.why + unchecked,
            fix=why.fix,
            section=why.section,
            cause=why.kind,
            headline=f"the run ended, but its collectives do not match: {waiting.said(mismatch)}",
            warning=True,
            **_at(run, Frame(call.file, call.line, "") if call.file else None),
        )
    return _silent_mistake(run, records)


def _silent_mistake(run: Run, records: dict[int, collectives.Recorded]) -> Diagnosis | None:
    remarks = {rank: remark for rank, record in records.items() for remark in record.remarks[:1]}
    if not remarks:
        return None
    first = next(iter(remarks.values()))
    ranks = [rank for rank, remark in remarks.items() if remark == first]
    found = causes.by_text(first)
    assert found is not None
    return Diagnosis(
        found.kind,
        ranks,
        explanation=found.why,
        fix=found.fix,
        section=found.section,
        headline=f"the run ended, but on {names(ranks, len(run.ranks))}: {first}",
        warning=True,
        file=shown(str(run.script), run.cwd),
    )
