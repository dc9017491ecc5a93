"""`%%exercise NAME [--seed N]`: keep the learner's cell, check it, show the feedback, note the progress."""

from __future__ import annotations

import ast
import shlex
import traceback
from pathlib import Path

from ddp_course.errors import LaunchError
from ddp_course.exercises import bookkeeping, find
from ddp_course.exercises.base import Exercise
from ddp_course.exercises.check import Result, check
from ddp_course.launcher.folders import CellScript, course_folder

_USAGE = "%%exercise NAME [--seed N]"
passed: set[str] = set()  # since the kernel started; what `score()` counts


def exercise_cell(line: str, cell: str) -> None:
    """What the magic does. Raises LaunchError for a wrong magic line or a cell that is not Python."""
    name, seed = _parse(line)
    result = answer(find(name), cell, f"exercise {line}", [] if seed is None else [seed])
    (passed.add if result.state == "passed" else passed.discard)(name)
    if result.state != "blank":
        bookkeeping.record(name, "done" if result.state == "passed" else "tried")
    if result.printed:
        print(result.printed)
    print(result.text)


def answer(exercise: Exercise, cell: str, magic: str = "exercise", seeds: list[int] | None = None) -> Result:
    """Check the text of an answer: what `%%exercise` shows for it. A blank or broken one costs no launch."""
    tree = _syntax(exercise.name, cell)
    if is_blank(exercise, tree):
        text = f"○ {exercise.name} · not attempted yet. Write your answer in this cell and run it."
        return Result(exercise.name, "blank", text)
    if missing := sorted(_defined(ast.parse(exercise.stub)) - _defined(tree)):
        text = f"✗ {exercise.name} · the cell defines no {missing[0]}. Keep the name that the exercise gives."
        return Result(exercise.name, "failed", text)
    folder = _folder(exercise.name)
    _keep(folder, cell)
    script = CellScript(magic, cell, stem=str(folder.relative_to(Path.cwd()) / exercise.name))
    try:
        result = check(exercise, script.path, seeds or [])
    finally:
        script.close()
    short = result.text.replace(f"{script.path.parent}/", "")
    return Result(result.name, result.state, short, result.printed.replace(f"{script.path.parent}/", ""))


def is_blank(exercise: Exercise, tree: ast.Module) -> bool:
    """Whether a cell holds no more than the exercise gave: comments, docstrings and imports do not count."""
    return _bare(tree) in (_bare(ast.parse(exercise.stub)), [])


def _bare(tree: ast.Module) -> list[str]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [n for n in body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass))]
    return [ast.dump(node) for node in body]


def _defined(tree: ast.Module) -> set[str]:
    """The names a file binds at its top level."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _parse(line: str) -> tuple[str, int | None]:
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if len(words) == 1 and not words[0].startswith("-"):
        return words[0], None
    if len(words) == 3 and words[1] == "--seed" and words[2].isdigit():
        return words[0], int(words[2])
    raise LaunchError(f"%%exercise {line.strip()}: the first line of the cell is {_USAGE}.")


def _syntax(name: str, cell: str) -> ast.Module:
    shown = f"<{name}>"  # no file's name: the message would show that file's lines
    try:
        tree = ast.parse("\n" + cell, shown)  # the magic's line counts, as beside the cell
        compile(tree, shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        text = "".join(traceback.format_exception_only(type(error), error)).rstrip()
        raise LaunchError(f"%%exercise: the cell is not valid Python, so nothing was checked.\n{text}") from None
    return tree


def _folder(name: str) -> Path:
    folder = course_folder() / "answers" / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _keep(folder: Path, cell: str) -> None:
    """Every version of an answer stays in the folder, numbered: a cell that is overwritten is not lost."""
    versions = sorted(path for path in folder.glob("[0-9]*.py"))
    if versions and versions[-1].read_text(encoding="utf-8") == cell:
        return
    number = int(versions[-1].stem) + 1 if versions else 1
    (folder / f"{number:04d}.py").write_text(cell, encoding="utf-8")
