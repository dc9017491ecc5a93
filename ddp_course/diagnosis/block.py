"""`Diagnosis`: one short block, the same in a terminal, as text and as HTML, and the same on every run."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass, field
from typing import Any

_WIDTH = 100  # fits beside JupyterLab's file browser at 1280 px


@dataclass(frozen=True)
class Diagnosis:
    """What happened, which ranks did it, where, why, and how to mend it.

    `kind` is the name of the cause (see `ddp_course.diagnosis.causes`); of ranks that waited in vain it is hang,
    collective_timeout or left_early, and `cause` is what they waited in. `culprits` are the ranks that failed by
    their own doing; `victims` only lost a connection or were ended with the run. `file`, `line` and `source`
    are the learner's code. `warning` marks a run in which every rank ended well and something is wrong still.
    """

    kind: str
    culprits: list[int] = field(default_factory=list)
    victims: list[int] = field(default_factory=list)
    file: str | None = None
    line: int | None = None
    source: str | None = None
    explanation: str = ""
    fix: str = ""
    section: str | None = None
    cause: str = ""
    headline: str = ""
    details: tuple[str, ...] = ()
    others: str = ""
    logs: str = ""
    warning: bool = False

    @property
    def place(self) -> str:
        """`cell.py, line 5:  loss.backward()`, or '' where no line of the learner's is known."""
        if self.file is None:
            return ""
        if not self.line:  # Python gives 0 for an error that no line has, such as an unknown encoding
            return self.file
        return f"{self.file}, line {self.line}:" + (f"  {self.source}" if self.source else "")

    def _parts(self) -> list[tuple[str, str]]:
        """Label and text of each line below the headline."""
        parts = [("", line) for line in (self.details or (self.place,))]
        parts += [("Why", self.explanation), ("Fix", self.fix), ("See", self.section or "")]
        parts += [("", self.others), ("Full logs", self.logs)]
        return [(label, text) for label, text in parts if text]

    def _first_line(self) -> str:
        return f"{'⚠' if self.warning else '✗'} {self.headline or self.kind}"

    def __str__(self) -> str:
        return self._text(self._parts())

    @property
    def symptom(self) -> str:
        """What was seen and where, without the reason: what a break-it lab shows."""
        return self._text([(label, text) for label, text in self._parts() if label in ("", "Full logs")])

    def _text(self, parts: list[tuple[str, str]]) -> str:
        lines = [*textwrap.wrap(self._first_line(), _WIDTH, subsequent_indent="  ", break_on_hyphens=False)]
        for label, text in parts:
            if label:
                lines += textwrap.wrap(
                    f"{label}: {text}", _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
                )
            else:
                lines.append(f"  {text}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        colour = "var(--jp-warn-color1, #b35900)" if self.warning else "var(--jp-error-color1, #b71c1c)"
        rows = []
        for label, text in self._parts():
            if label:
                rows.append(f"<div><strong>{label}:</strong> {html.escape(text)}</div>")
            else:
                code = "font-family:var(--jp-code-font-family,monospace);white-space:pre-wrap"
                rows.append(f'<div style="{code}">{html.escape(text)}</div>')
        return (
            f'<div role="{"note" if self.warning else "alert"}" style="border-left:4px solid {colour};'
            "padding:4px 12px;margin:4px 0;color:var(--jp-ui-font-color1,inherit);"
            'background:var(--jp-layout-color1,transparent);line-height:1.6">'
            f'<div style="color:{colour};font-weight:600">{html.escape(self._first_line())}</div>'
            + "".join(rows)
            + "</div>"
        )
