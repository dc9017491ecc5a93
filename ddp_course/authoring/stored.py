"""The bytes of a stored notebook, its seal against edits by hand, and where two notebooks differ."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import nbformat

from ddp_course.authoring.source import name_cell

# A quote inside a JSON string is escaped, so no text of a cell looks like the seal.
_SEAL = re.compile(rb'(?<="notebook_sha256": ")[0-9a-f]*(?=")')


def to_bytes(notebook: Any) -> bytes:
    """The file of a notebook, sealed: its metadata hold the SHA-256 of the whole file without that number.

    Raises `nbformat.ValidationError` where it is no valid notebook.
    """
    notebook.metadata["ddp_course"] = {"notebook_sha256": ""}
    nbformat.validate(notebook)
    text = (nbformat.writes(notebook) + "\n").encode()
    return _SEAL.sub(hashlib.sha256(text).hexdigest().encode(), text)


def is_sealed(file: bytes) -> bool:
    """Whether not a single byte changed since `to_bytes`."""
    seals = _SEAL.findall(file)
    return len(seals) == 1 and seals[0] == hashlib.sha256(_SEAL.sub(b"", file)).hexdigest().encode()


def read(path: Path) -> Any:
    """The notebook in a file, or None where there is none or the file is no notebook."""
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except (FileNotFoundError, ValueError, nbformat.reader.NotJSONError, nbformat.ValidationError):
        return None


def first_difference(file: str, stored: Any, now: Any, ignore: tuple[str, ...] = ()) -> str | None:
    """Where `stored` first differs from `now`, in words, or None; the fields in `ignore` do not count."""
    for number, (old, new) in enumerate(zip(stored.cells, now.cells, strict=False), 1):
        for field in sorted({*old, *new} - {*ignore}):
            if old.get(field) != new.get(field):
                shown = _diff(old.get(field), new.get(field))
                return f"{name_cell(file, number, new)} has other {field} than its source gives:\n{shown}"
    if len(stored.cells) != len(now.cells):
        return f"{file} has {len(stored.cells)} cells, its source gives {len(now.cells)}"
    return None


def _diff(old: Any, new: Any) -> str:
    lines = difflib.unified_diff(_lines(old), _lines(new), "stored", "now", n=0, lineterm="")
    return "\n".join(f"  {line[:160]}" for line in list(lines)[:12])


def _lines(part: Any) -> list[str]:
    return json.dumps(part, indent=1, ensure_ascii=False).replace("\\n", "\n").splitlines()
