"""A lesson's MyST Markdown source as a notebook, and the learner's version of it."""

from __future__ import annotations

import copy
import difflib
import hashlib
import itertools
import re
from pathlib import Path
from typing import Any, NamedTuple

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs
from jupytext.myst import MystMetadataParsingError
from nbconvert.preprocessors import TagRemovePreprocessor
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import is_solution

from ddp_course.authoring.grade_marks import add_grade_marks

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "raise NotImplementedError"
SOLUTION_ONLY = "solution-only"
MAY_REPEAT = "solution-may-repeat"
EXCUSED = "nbval-ignore-output"
RAISES = "raises-exception"
TAGS = (SOLUTION_ONLY, MAY_REPEAT, EXCUSED, RAISES)

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    # Without the Python version: every Python gives the same file.
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
_LIKE_A_MARK = re.compile(r"#+\s*(begin|end)\W*solution", re.IGNORECASE)
_NBVAL_COMMENT = re.compile(r"^\s*#+\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)", re.MULTILINE)


class BuildError(Exception):
    """A lesson cannot be built, or is not what its source gives. The text says where and what to do."""


class Answer(NamedTuple):
    """The text of one solution, and whether its single lines may appear in the lesson too."""

    where: str
    text: str
    may_repeat: bool
    given: frozenset[str]


def tags(cell: Any) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


def name_cell(file: str, number: int, cell: Any) -> str:
    """`solutions/02.md, cell 5 (`x = 1`)`: how every message names a cell. Cells count from 1."""
    lines = [line.strip() for line in cell.source.splitlines() if line.strip()]
    return f"{file}, cell {number} (`{lines[0][:60] if lines else 'empty'}`)"


def read_source(path: Path, stored: Any = None) -> Any:
    """The unexecuted notebook of a source; cells that `stored`, its notebook so far, also has keep their ids.

    Raises `BuildError` where the source is no MyST Markdown or its solution marks or tags are wrong.
    """
    try:
        notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="md:myst")
    except (MystMetadataParsingError, UnicodeDecodeError) as error:
        raise BuildError(f"{_short(path)} cannot be read as MyST Markdown: {error}") from error
    problems = [
        f"{name_cell(_short(path), number, cell)}: {problem}"
        for number, cell in enumerate(notebook.cells, 1)
        for problem in _problems(cell)
    ]
    if problems:
        raise BuildError("\n\n".join(problems))
    _give_ids(notebook, stored, path.stem)
    add_grade_marks(notebook)
    notebook.metadata = nbformat.from_dict(copy.deepcopy(METADATA))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def blank(solution: Any) -> Any:
    """The lesson of an unexecuted solution notebook: stubs for the solutions, solution-only cells gone."""
    lesson = copy.deepcopy(solution)
    lesson, _ = ClearSolutions(enforce_metadata=False, code_stub={"python": STUB}).preprocess(lesson, {})
    lesson, _ = TagRemovePreprocessor(remove_cell_tags={SOLUTION_ONLY}).preprocess(lesson, {})
    return lesson


def answers(solution: Any, file: str) -> list[Answer]:
    """Every solution of a notebook: marked regions, solution-only cells, nbgrader solution cells."""
    found = []
    for number, cell in enumerate(solution.cells, 1):
        inside: list[list[str]] = []
        outside: list[str] = []
        current = outside
        for line in cell.source.splitlines():
            if line.strip() == BEGIN:
                inside.append(current := [])
            elif line.strip() == END:
                current = outside
            else:
                current.append(line)
        if SOLUTION_ONLY in tags(cell) or (is_solution(cell) and not inside):
            inside, outside = [cell.source.splitlines()], []
        where, may_repeat = name_cell(file, number, cell), MAY_REPEAT in tags(cell)
        given = frozenset(squash(line) for line in outside)
        found += [Answer(where, "\n".join(lines), may_repeat, given) for lines in inside]
    return found


def squash(text: str) -> str:
    """The text without any white space: reformatting does not hide an answer."""
    return "".join(text.split())


def _problems(cell: Any) -> list[str]:
    """What is wrong with a cell as it is written."""
    problems = []
    for tag in tags(cell):
        close = difflib.get_close_matches(tag.replace("_", "-").lower(), TAGS, 1, 0.85)
        if close and tag not in TAGS:
            problems.append(f"the tag {tag!r} does nothing; did you mean {close[0]!r}?")
    if cell.cell_type == "code" and (comment := _NBVAL_COMMENT.search(cell.source)):
        problems.append(f"the comment `{comment[1]}` hides the cell from nbval; use the tag {EXCUSED}.")
    return problems + _mark_problems(cell)


def _mark_problems(cell: Any) -> list[str]:
    is_open = False
    for line in cell.source.splitlines():
        mark = line.strip()
        if not _LIKE_A_MARK.match(mark):
            continue
        if mark not in (BEGIN, END):
            return [f"`{mark}` is not a solution mark; write exactly `{BEGIN}` or `{END}`."]
        if cell.cell_type != "code":
            return [f"`{mark}` stands outside a code cell; tag a text cell {SOLUTION_ONLY} instead."]
        if is_open == (mark == BEGIN):
            other = END if is_open else BEGIN
            return [f"`{mark}` has no `{other}` before it; add that, or remove this mark."]
        is_open = mark == BEGIN
    return [f"`{BEGIN}` has no `{END}` after it in the cell; add it."] if is_open else []


def _give_ids(notebook: Any, stored: Any, name: str) -> None:
    """Ids as `jupytext --update` matches them; a new cell's id follows from its text, not from chance."""
    for cell in notebook.cells:
        cell.id = "new"
    if stored is not None:
        matched = combine_inputs_with_outputs(copy.deepcopy(notebook), stored, fmt="md:myst")
        for cell, match in zip(notebook.cells, matched.cells, strict=True):
            cell.id = match.id
    used = {cell.id for cell in notebook.cells}
    for cell in notebook.cells:
        if cell.id == "new":
            text = f"{name}\n{cell.cell_type}\n{cell.source}\n"
            candidates = (hashlib.sha256(f"{text}{n}".encode()).hexdigest()[:8] for n in itertools.count())
            cell.id = next(candidate for candidate in candidates if candidate not in used)
            used.add(cell.id)


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
