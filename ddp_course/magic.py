"""The notebook's commands: `%load_ext ddp_course` gives `%%torchrun` and `%%exercise`."""

from __future__ import annotations

import argparse
import keyword
import shlex
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_course.errors import LaunchError
from ddp_course.exercises.answers import exercise_cell
from ddp_course.launcher import client
from ddp_course.launcher.folders import CellScript, course_folder
from ddp_course.launcher.launch import start
from ddp_course.launcher.options import Options, parse, parser
from ddp_course.launcher.views import notebook_view

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What `%load_ext ddp_course` does: register the magic and start the warm server in the background."""

    def torchrun(line: str, cell: str) -> None:
        _torchrun(shell, line, cell)

    torchrun.__doc__ = _parser().format_help()
    shell.register_magic_function(torchrun, "cell", "torchrun")  # type: ignore[arg-type]
    shell.register_magic_function(exercise_cell, "cell", "exercise")  # type: ignore[arg-type]
    if _give_body not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_give_body)
    client.warm_up()


def _give_body(lines: list[str]) -> list[str]:
    """IPython refuses a cell magic without a body; `%%torchrun --help` and `--file train.py` need none."""
    if len(lines) == 1 and lines[0].startswith(("%%torchrun", "%%exercise")):
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


def _parser() -> argparse.ArgumentParser:
    result = parser("%%torchrun")
    result.description = "Run this cell as a training script, as torchrun would."
    result.usage = "%%%%torchrun [options] [-- arguments of the script]"
    result.add_argument("--file", metavar="F", help="save the cell as F and run that; an empty cell runs F as it is")
    result.add_argument("--out", metavar="NAME", help="afterwards the variable NAME holds the Run")
    result.add_argument("--no-check", action="store_true", help="a failed run is explained and raises nothing")
    result.add_argument("--lab", action="store_true", help="a failed run shows its symptom only: you explain it")
    return result


def _torchrun(shell: InteractiveShell, line: str, cell: str) -> None:
    words = _split(line)
    words, script_args = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    if {"-h", "--help"} & set(words):
        print(_parser().format_help())
        return
    given = parse(_parser(), words)
    options = Options.parsed(given, given.file or "cell.py", script_args)
    if given.out and (not given.out.isidentifier() or keyword.iskeyword(given.out)):
        raise LaunchError(f"%%torchrun: --out {given.out} is not a variable name. Give a name such as run.")
    script = _script(given.file, line, cell)
    try:
        run = start(options.with_script(str(script.path if script else given.file)), notebook_view(True))
    finally:
        if script:
            script.close()
    if given.out:
        shell.user_ns[given.out] = run
    if given.lab:
        if not run.ok and run.diagnosis:
            print(run.diagnosis.symptom)
        return
    if not run.ok and not given.no_check:
        raise LaunchError(str(run.diagnosis), run)
    if run.diagnosis is not None:
        from IPython.display import display

        display(run.diagnosis)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise LaunchError(f"%%torchrun: {error} in {line.strip()!r}: a quote is opened and not closed.") from None


def _script(file: str | None, line: str, cell: str) -> CellScript | None:
    """The cell as a script on disk; None where an existing file is to run as it is."""
    if not cell.strip():
        if file:
            return None
        raise LaunchError(
            "%%torchrun: the cell is empty. Write the training script below the %%torchrun line, "
            "or name one with --file train.py."
        )
    _check_syntax(file or "cell.py", cell)
    if file:
        _save(Path(file), cell)
        return None
    return CellScript(f"torchrun {line}", cell)


_CELL = "<the cell>"  # no file's name: a SyntaxError would show that file's lines


def _check_syntax(name: str, cell: str) -> None:
    try:
        # The magic's line counts: line numbers are those that JupyterLab shows beside the cell.
        compile("\n" + cell, _CELL, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        text = "".join(traceback.format_exception_only(type(error), error)).rstrip().replace(_CELL, name)
        hint = ""
        first = (getattr(error, "text", None) or "").lstrip()[:1]
        if first in ("%", "!"):
            hint = "\nThe cell is a plain Python script: lines that start with % or ! are for notebooks only."
        raise LaunchError(f"%%torchrun: the cell is not valid Python, so nothing was started.\n{text}{hint}") from None


def _save(path: Path, cell: str) -> None:
    try:
        if path.is_file() and path.read_text(encoding="utf-8", errors="replace") != cell:
            (course_folder() / f"{path.name}.previous").write_bytes(path.read_bytes())
        path.write_text(cell, encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"%%torchrun: cannot write {path} ({error.strerror}). Give another name to --file.") from None


__all__: list[Any] = ["load_ipython_extension"]
