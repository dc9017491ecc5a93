"""A rank failed by its own doing: an exception, an exit code, a signal."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from ddp_course.diagnosis import causes, waiting
from ddp_course.diagnosis.block import Diagnosis
from ddp_course.diagnosis.causes import Found
from ddp_course.diagnosis.code import main_thread, shown, source, trace
from ddp_course.diagnosis.who import End, clean, names, on_nodes
from ddp_course.launcher.run import Run

_LAST_WORDS = 20  # lines on stderr in which a rank that ended without an exception may have said why
LOGS = ".ddp_course/runs/latest"

# Signals that end a rank without an exception: kind, why, fix.
_SIGNALS = {
    signal.SIGKILL: (
        "killed",
        "SIGKILL comes from outside the program. Nearly always the system sends it because memory ran out; this rank "
        "had used {peak} at most.",
        "Take fewer ranks, a smaller model or batch, or fewer DataLoader workers; `dmesg` (or your cluster's job "
        "report) says whether it was memory.",
    ),
    signal.SIGSEGV: (
        "native_crash",
        "Native code (C, C++ or CUDA below Python) touched memory that is not its own.",
        "The line above is where Python called it. Suspect what is called there: ctypes, an extension, "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL.",
    ),
    signal.SIGABRT: (
        "native_crash",
        "Native code (C, C++ or CUDA below Python) gave up.",
        "The line above is where Python called it; the log has the message it left.",
    ),
    signal.SIGBUS: (
        "native_crash",
        "A mapped file or shared memory could not be read: most often /dev/shm is full, which containers make small.",
        "Start the container with --shm-size=8g or --ipc=host, or use fewer DataLoader workers.",
    ),
}
_READ_TOO_EARLY = Found(
    "read_before_written",
    "Rank 0 writes this file, and the other ranks looked for it before it was there: nothing makes them wait.",
    "Put torch.distributed.barrier() between rank 0's writing and the others' reading.",
    "lesson 3, section 7",
)


@dataclass(frozen=True)
class _Story:
    """What is said of the culprits beside their place."""

    headline: str
    found: Found


def diagnose(run: Run, ends: list[End]) -> Diagnosis:
    """The diagnosis of the ranks that failed first. At least one of `ends` has the status failed."""
    failed = [end for end in ends if end.status == "failed"]
    first = min(failed, key=lambda end: end.when)
    culprits = [end for end in failed if end.signature == first.signature]
    shown_end = culprits[0]
    ranks = [end.rank for end in culprits]
    victims = [end.rank for end in ends if end.status not in ("failed", "done")]
    story = _story(shown_end, ends)
    if story.found.kind == "mismatched_collectives" and (said := waiting.met_another(run, ends)):
        return said
    place = shown_end.place
    known = bool(story.found.why)
    return Diagnosis(
        story.found.kind,
        ranks,
        victims,
        shown(place.file, run.cwd) if place else None,
        place.line if place else None,
        source(place.file, place.line) if place else None,
        story.found.why,
        story.found.fix,
        story.found.section or None,
        headline=f"{on_nodes(run, ranks)}: {story.headline}",
        details=_details(shown_end, run, known),
        others=" ".join(filter(None, [_victims(victims), _also(failed, culprits)])),
        logs="" if known and story.found.kind != "native_crash" else LOGS,
    )


def _story(end: End, ends: list[End]) -> _Story:
    if end.raised and end.error:
        headline = f"{end.error['type']}: {clean(end.error['message'])}".rstrip(": ")
        if end.error["type"] == "FileNotFoundError" and _rank_0_passed(end, ends):
            return _Story(headline, _READ_TOO_EARLY)
        return _Story(headline, causes.by_text(end.text) or Found("exception", "", "", ""))
    if end.code is not None and end.code < 0:
        return _of_signal(end, -end.code)
    headline = f"ended with exit code {end.code}"
    if found := causes.by_text("\n".join(end.stderr.splitlines()[-_LAST_WORDS:])):
        return _Story(headline, found)
    if end.caught:
        why = "The program caught this exception, and ended itself with this code."
        found = causes.by_text(end.caught) or Found("exit_code", why, "", "lesson 4, section 5")
        return _Story(f"{headline} after {clean(end.caught)}", found)
    last = end.stderr.strip().splitlines()[-1:]
    if end.error and not end.error["message"].isdigit() and last:
        headline += f": {clean(last[0])}"
    why = "The program ended itself with this code (sys.exit or os._exit); no exception was raised."
    return _Story(headline, Found("exit_code", why, "", "lesson 4, section 5"))


def _rank_0_passed(end: End, ends: list[End]) -> bool:
    """Whether rank 0 did not miss the file that this rank missed."""
    return end.rank != 0 and not any(other.rank == 0 and other.signature == end.signature for other in ends)


def _of_signal(end: End, number: int) -> _Story:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    headline = f"ended by {name}"
    if number == signal.SIGABRT:
        if what := re.findall(r"what\(\):\s*(.+)", end.stderr):
            headline += f": {clean(what[-1])}"
        if found := causes.by_text(end.stderr):
            return _Story(headline, found)
    section = "lesson 4, section 5"
    if number in _SIGNALS:
        kind, why, fix = _SIGNALS[signal.Signals(number)]
        return _Story(headline, Found(kind, why.replace("{peak}", _memory(end.attempt.peak_bytes)), fix, section))
    why = f"{name[0].upper()}{name[1:]} came from outside the program, or the program sent it to itself."
    return _Story(f"ended by {name}", Found("killed", why, "", section))


def _memory(peak: int) -> str:
    """Rounded, so that it reads the same on the next run."""
    gib = peak / 2**30
    return f"about {gib:.1f} GiB of memory" if gib < 10 else f"about {gib:.0f} GiB of memory"


def _details(end: End, run: Run, known: bool) -> tuple[str, ...]:
    """The culprit's traceback in the learner's lines; one line where the cause is known."""
    frames = end.frames
    if end.code is not None and end.code < 0 and not end.raised:
        frames = main_thread(end.stderr)
        return trace(frames, run.cwd)
    if known:
        return ()
    return (*trace(frames, run.cwd), *map(clean, end.related))


def _victims(victims: list[int]) -> str:
    if not victims:
        return ""
    verb = "is a victim: it was" if len(victims) == 1 else "are victims: they were"
    return f"{names(victims).capitalize()} {verb} cut off or ended with it, and did nothing wrong."


def _also(failed: list[End], culprits: list[End]) -> str:
    said = []
    for end in failed:
        if end not in culprits:
            what = end.error["type"] if end.error else f"exit code {end.code}"
            said.append(f"rank {end.rank} ({what})")
    return f"Failed too, after that: {', '.join(said)}." if said else ""
