"""How a run looks while it lasts: a panel in a notebook, labelled lines in a terminal."""

from __future__ import annotations

import html
import os
import re
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ddp_course.launcher import transcript
from ddp_course.launcher.transcript import clean, split

if TYPE_CHECKING:
    from ddp_course.launcher.launch import View
    from ddp_course.launcher.live import Live, LiveRank
    from ddp_course.launcher.run import Run

_APPEARS_AFTER = 0.25  # seconds; a run that is over by then shows its transcript only
_REFRESH = 0.05  # seconds between two messages to the browser, at least
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BAR = 14  # width in characters
_KEPT = 20  # closed panels, for pages that were reloaded
_STATES = {
    "starting": ("…", "inherit"),
    "running": ("▶", "var(--jp-brand-color1,#1976d2)"),
    "done": ("✓", "var(--jp-success-color0,#1b5e20)"),
    "failed": ("✗", "var(--jp-error-color1,#d32f2f)"),
}
_FONT = (
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.5;"
    "color:var(--jp-content-font-color1,inherit);padding:0 8px"  # where JupyterLab puts printed text
)
# A panel whose kernel has ended stays in the notebook as "Error displaying widget". In JupyterLab and Notebook 7
# the output before it hides that, and says what happened instead; while the panel lives, it says nothing.
_NEXT = "+.jp-OutputArea-child"
_ALIVE = ".widget-html:not(.jupyter-widgets-disconnected)"
_NOTICE = (
    f"<style>.jp-OutputArea-child:has(.ddp-notice){_NEXT}:not(:has({_ALIVE})){{display:none}}"
    f".jp-OutputArea-child:has(.ddp-notice):has({_NEXT}):not(:has({_NEXT} {_ALIVE})) .ddp-notice"
    "{display:block!important}</style>"
    '<div class="ddp-notice" style="display:none;padding:0 8px;color:var(--jp-content-font-color1)">'
    "The end of this run was not seen here: the page was loaded again, or the kernel ended. If the run goes on, its "
    "transcript comes here when it ends. If not, run the cell again.</div>"
)


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

    def drop(self) -> None:
        pass


class Panel:
    """One row a rank, in an ipywidgets HTML widget: state, progress, last line. Closes to the transcript.

    A widget, because JupyterLab shows a running cell's other outputs only on the page that started the cell. A
    page that is reloaded meanwhile gets widgets back from the kernel, so the closed panel stays in the kernel,
    with the transcript in it. (The notebook must have been saved with the panel on it: an output that is not yet
    in the file is lost in a reload, whatever it is.) The page that started the cell replaces the panel by printed
    text: a saved notebook holds the same as one whose run was too short for a panel.
    """

    _closed: ClassVar[deque[Any]] = deque()

    def __init__(self, show_transcript: bool) -> None:
        self._show_transcript = show_transcript
        self._born = time.monotonic()
        self._sent_at = 0.0
        self._widget: Any = None
        self._notice: Any = None
        self._panel: Any = None

    def update(self, live: Live) -> None:
        now = time.monotonic()
        if now - self._sent_at < _REFRESH or now - self._born < _APPEARS_AFTER:
            return
        content = _table(live)
        if self._widget is None:
            self._open(content)
        elif self._widget.value != content:
            self._widget.value = content
        else:
            return
        self._sent_at = now

    def _open(self, content: str) -> None:
        from IPython.display import display
        from ipywidgets import HTML, Layout

        self._notice = display({"text/html": _NOTICE, "text/plain": ""}, raw=True, display_id=True)
        # margin 0 and 100 %: the default margins make the panel wider than the cell, which then scrolls sideways
        self._widget = HTML(content, layout=Layout(width="100%", margin="0"))
        bundle = self._widget._repr_mimebundle_() | {"text/plain": "(a run is shown here while it lasts)"}
        self._panel = display(bundle, raw=True, display_id=True)

    def close(self, run: Run) -> None:
        if self._widget is None:
            if self._show_transcript:
                print(run.transcript)
            return
        self._widget.value = _text(run.transcript)
        self._closed.append(self._widget)
        while len(self._closed) > _KEPT:
            self._closed.popleft().close()
        if self._show_transcript:
            from IPython.display import clear_output

            clear_output(wait=True)  # a cell magic is its whole cell: there is nothing else to clear
            print(run.transcript, flush=True)
        else:
            self._clear()

    def _clear(self) -> None:
        for shown in (self._notice, self._panel):
            shown.update({"text/plain": ""}, raw=True)

    def drop(self) -> None:
        if self._widget is not None:
            self._widget.close()
            self._clear()


def _table(live: Live) -> str:
    counts = [_count(rank) for rank in live.ranks]
    progress = any(counts)
    rows = "".join(_row(name, rank, progress) for name, rank in live.named_ranks)
    widths = [
        max([len(name) for name, _ in live.named_ranks], default=0) + 2,
        len("▶ starting") + 2,
    ]  # fixed, so that columns do not jump
    widths += [_BAR + 3 + max(map(len, counts))] if progress else []
    columns = "".join(f'<col style="width:{width}ch">' for width in widths)
    return (
        f'<div style="{_FONT};overflow:hidden">{_commands(live)}'
        '<table style="table-layout:fixed;width:100%;border-collapse:collapse;margin:4px 0" '
        f'aria-label="state of each rank"><colgroup>{columns}<col></colgroup>{rows}</table>'
        f"running for {int(time.monotonic() - live.began)} s · ■ in the toolbar stops it</div>"
    )


def _commands(live: Live) -> str:
    lines = map(html.escape, transcript.prompts(live.options.commands).values())
    return "".join(f'<div style="overflow-wrap:anywhere">{line}</div>' for line in lines)


def _row(name: str, rank: LiveRank, progress: bool) -> str:
    mark, colour = _STATES[rank.state]
    cut = "padding:0 1ch 0 0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:left"
    return (
        f'<tr><th scope="row" style="{cut};font-weight:inherit">{name}</th>'
        f'<td style="{cut};color:{colour}">{mark} {rank.state}</td>'
        + (f'<td style="{cut}">{_bar(rank)}</td>' if progress else "")
        + f'<td style="{cut}">{_plain(clean(rank.last_line[:400], Path.cwd()))}</td></tr>'
    )


def _count(rank: LiveRank) -> str:
    return f"{rank.step:g}/{rank.total:g}" if (rank.total or 0) > 0 and rank.step is not None else ""


def _bar(rank: LiveRank) -> str:
    count = _count(rank)
    return count and (
        f'<progress max="{rank.total:g}" value="{rank.step:g}" aria-label="progress of rank {rank.record.rank}" '
        f'style="width:{_BAR}ch;vertical-align:middle"></progress> {count}'
    )


def _text(text: str) -> str:
    return f'<pre style="{_FONT};white-space:pre-wrap;overflow-wrap:anywhere;margin:0">{_plain(text)}</pre>'


def _plain(text: str) -> str:
    return html.escape(_COLOUR.sub("", text))


class Terminal:
    """Each line when it is complete, with its rank before it."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int, str], int] = {}
        self._waits = ""

    def update(self, live: Live) -> None:
        if live.waits != self._waits:
            self._waits = live.waits
            print(self._waits, flush=True)
        self._print_new([rank.record for rank in live.ranks], live.folder.parent, complete=True)

    def close(self, run: Run) -> None:
        if run.outcome != "interrupted":  # what a stopped rank still says is the traceback of the stop
            self._print_new(list(run.ranks), run.cwd, complete=False)
        print(run.transcript.splitlines()[-1], flush=True)

    def drop(self) -> None:
        pass

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
        for line in split(data.decode(errors="replace")):
            print(f"rank {rank} {label} {clean(line, cwd)}", flush=True)
