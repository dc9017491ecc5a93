"""Build one lesson's two notebooks, or check that the stored ones are what its source gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ddp_course.authoring.audit import audit, audit_answers
from ddp_course.authoring.execute import execute, keep_excused, scratch
from ddp_course.authoring.source import BuildError, answers, blank, read_source
from ddp_course.authoring.stored import first_difference, is_sealed, read, to_bytes

__all__ = ["BuildError", "Lesson", "build", "check", "check_stored", "find_lessons", "find_root"]

FOLDERS = ("solutions", "lessons")
_RESULTS = ("outputs", "execution_count")
_REBUILD = "Run `make notebooks`, or undo the edit; only solutions/*.md is edited by hand."


class Lesson(NamedTuple):
    """One lesson of the repository at `root`, such as `02_ddp_basics`."""

    root: Path
    name: str

    @property
    def source(self) -> Path:
        """The MyST Markdown file both notebooks come from."""
        return self.root / "solutions" / f"{self.name}.md"

    def notebook(self, folder: str) -> Path:
        """The notebook in `folder`, `solutions` or `lessons`."""
        return self.root / folder / f"{self.name}.ipynb"

    def file(self, folder: str) -> str:
        """The same as messages name it."""
        return f"{folder}/{self.name}.ipynb"


def find_root(start: Path) -> Path:
    """The nearest folder from `start` upwards with `solutions/` and `lessons/`; `BuildError` if none."""
    for folder in (start, *start.parents):
        if all((folder / name).is_dir() for name in FOLDERS):
            return folder
    raise BuildError("no solutions/ and lessons/ here or in a folder above; start it in the repository.")


def find_lessons(root: Path, numbers: list[str]) -> list[Lesson]:
    """The lessons with these numbers (none given: all of them), in order.

    Raises `BuildError` for a number without a lesson, and for a notebook without a source.
    """
    lessons = [Lesson(root, path.stem) for path in sorted((root / "solutions").glob("[0-9][0-9]_*.md"))]
    sources = {lesson.name for lesson in lessons}
    orphans = [f"{path.parent.name}/{path.name}" for path in _notebooks(root) if path.stem not in sources]
    if orphans:
        raise BuildError(f"no source in solutions/ for {', '.join(orphans)}; write it or delete the notebook.")
    wanted = {number.zfill(2) for number in numbers}
    if unknown := wanted - {lesson.name[:2] for lesson in lessons}:
        known = ", ".join(sorted(lesson.name for lesson in lessons)) or "none yet"
        raise BuildError(f"no lesson {', '.join(sorted(unknown))}; there are: {known}.")
    return [lesson for lesson in lessons if not wanted or lesson.name[:2] in wanted]


def build(lesson: Lesson, fresh: bool = False) -> None:
    """Write both notebooks of a lesson. `fresh` also replaces the stored outputs of excused cells.

    Raises `BuildError`, and writes nothing, where the lesson is refused.
    """
    files = {folder: to_bytes(notebook) for folder, notebook in _run(lesson, keep=not fresh).items()}
    for folder, content in files.items():
        lesson.notebook(folder).write_bytes(content)


def check(lesson: Lesson) -> None:
    """Raise `BuildError` where a stored notebook was edited, is stale, or runs to another result."""
    check_stored(lesson)
    for folder, notebook in _run(lesson, keep=True).items():
        file, path = lesson.file(folder), lesson.notebook(folder)
        if to_bytes(notebook) != path.read_bytes():
            what = first_difference(file, read(path), notebook) or f"{file} differs outside its cells"
            raise BuildError(f"{what}\nRun `make notebooks`; if it differs every time, mend that first.")


def check_stored(lesson: Lesson) -> None:
    """The part of `check` that runs no cell: both notebooks there, untouched, and of the present source."""
    for folder in FOLDERS:
        file, path = lesson.file(folder), lesson.notebook(folder)
        if not path.exists():
            raise BuildError(f"{file} is missing. {_REBUILD}")
        if not is_sealed(path.read_bytes()):
            where = f"\n{where}" if (where := _edited(lesson, folder)) else ""
            raise BuildError(f"{file} was edited since it was built. {_REBUILD}{where}")
    for folder, notebook in _unexecuted(lesson).items():
        stored = read(lesson.notebook(folder))
        if difference := first_difference(lesson.file(folder), stored, notebook, _RESULTS):
            raise BuildError(f"{difference}\n{_REBUILD}")


def _edited(lesson: Lesson, folder: str) -> str | None:
    """The first edited cell of a broken notebook, where it is still a notebook and the edit is no output."""
    stored = read(lesson.notebook(folder))
    if stored is None:
        return None
    return first_difference(lesson.file(folder), stored, _unexecuted(lesson)[folder], _RESULTS)


def _unexecuted(lesson: Lesson) -> dict[str, Any]:
    solution = read_source(lesson.source, read(lesson.notebook("solutions")))
    return {"solutions": solution, "lessons": blank(solution)}


def _run(lesson: Lesson, keep: bool) -> dict[str, Any]:
    """Both notebooks, executed and found fit to store. `keep`: excused cells keep their stored outputs."""
    notebooks = _unexecuted(lesson)
    with scratch(lesson.root) as place:
        for folder, notebook in notebooks.items():
            path = lesson.notebook(folder)
            execute(notebook, place / folder, lesson.file(folder))
            if keep and path.exists() and is_sealed(path.read_bytes()):
                keep_excused(notebook, read(path))
            audit(notebook, lesson.file(folder))
    solved = answers(notebooks["solutions"], f"solutions/{lesson.source.name}")
    audit_answers(notebooks["lessons"], solved, lesson.file("lessons"))
    return notebooks


def _notebooks(root: Path) -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((root / folder).glob("*.ipynb"))]
