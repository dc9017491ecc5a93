"""How a run looks while it lasts: a panel in a notebook, labelled lines in a terminal."""

from __future__ import annotations

import html
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ddp_course.transcript import clean

if TYPE_CHECKING:
    from ddp_course.launcher import Live, LiveRank, View
    from ddp_course.run import Run

_APPEARS_AFTER = 0.25  # seconds; a run that is over by then shows its transcript only
_REFRESH = 0.05  # seconds between two messages to the browser, at least
_MARKS = {"starting": "…", "running": "▶", "done": "✓", "failed": "✗"}


def notebook_view(show_transcript: bool) -> View | None:
    """The live panel where a notebook can show it; None elsewhere, and where DDP_COURSE_PANEL=off says so."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if getattr(shell, "kernel", None) is None:
        return Printed() if show_transcript and shell else None
    if os.environ.get("DDP_COURSE_PANEL") == "off":
        return Printed() if show_transcript else None
    return Panel(show_transcript)


class Printed:
    """No view while it lasts; the transcript at the end."""

    def update(self, live: Live) -> None:
        pass

    def close(self, run: Run) -> None:
        print(run.transcript)


class Panel:
    """One row a rank, in an ipywidgets HTML widget: state, progress, last line. Closes to the transcript."""

    def __init__(self, show_transcript: bool) -> None:
        self._show_transcript = show_transcript
        self._born = time.monotonic()
        self._sent_at = 0.0
        self._widget: Any = None
        self._handle: Any = None

    def update(self, live: Live) -> None:
        now = time.monotonic()
        if now - self._sent_at < _REFRESH or now - self._born < _APPEARS_AFTER:
            return
        content = _table(live)
        if self._widget is None:
            from IPython.display import display
            from ipywidgets import HTML

            self._widget = HTML(content)
            self._handle = display(self._widget, display_id=True)
        elif self._widget.value != content:
            self._widget.value = content
        else:
            return
        self._sent_at = now

    def close(self, run: Run) -> None:
        if self._handle is None:
            if self._show_transcript:
                print(run.transcript)
            return
        text = run.transcript if self._show_transcript else run.transcript.splitlines()[-1]
        self._handle.update({"text/plain": text}, raw=True)
        self._widget.close()


def _table(live: Live) -> str:
    rows = "".join(_row(rank) for rank in live.ranks)
    seconds = int(time.monotonic() - live.began)
    return (
        '<div role="status" style="font-family:var(--jp-code-font-family,monospace);font-size:13px;'
        f'line-height:1.5">$ {html.escape(live.options.command)}'
        f'<table style="border-spacing:8px 0;margin:4px 0" aria-label="state of each rank">{rows}</table>'
        f"running for {seconds} s</div>"
    )


def _row(rank: LiveRank) -> str:
    line = html.escape(rank.last_line[:160])
    return (
        f'<tr><td style="white-space:nowrap">rank {rank.record.rank}</td>'
        f'<td style="white-space:nowrap">{_MARKS[rank.state]} {rank.state}</td><td>{_bar(rank)}</td>'
        f'<td style="max-width:640px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:left">'
        f"{line}</td></tr>"
    )


def _bar(rank: LiveRank) -> str:
    if not rank.total or rank.step is None:
        return ""
    return (
        f'<progress max="{rank.total:g}" value="{rank.step:g}" style="width:120px"></progress> '
        f"{rank.step:g}/{rank.total:g}"
    )


class Terminal:
    """Each line when it is complete, with its rank before it."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int, str], int] = {}

    def update(self, live: Live) -> None:
        self._print_new([rank.record for rank in live.ranks], live.folder.parent, complete=True)

    def close(self, run: Run) -> None:
        self._print_new(list(run.ranks), run.cwd, complete=False)
        print(run.transcript.splitlines()[-1], flush=True)

    def _print_new(self, ranks: list[Any], cwd: Any, complete: bool) -> None:
        for rank in ranks:
            for attempt in rank.attempts:
                for kind, label in (("out", "│"), ("err", "stderr │")):
                    self._print_file(rank.rank, attempt, kind, label, cwd, complete)

    def _print_file(self, rank: int, attempt: Any, kind: str, label: str, cwd: Any, complete: bool) -> None:
        key = (rank, attempt.number, kind)
        start = self._read.get(key, 0)
        tail = attempt.tail(kind)
        data = tail.read(start, tail.size() - start)
        if complete:
            data = data[: data.rfind(b"\n") + 1]
        self._read[key] = start + len(data)
        for line in data.decode(errors="replace").splitlines():
            print(f"rank {rank} {label} {clean(line, cwd)}", flush=True)
