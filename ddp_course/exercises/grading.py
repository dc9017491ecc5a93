"""`ddp-course check`: the exercise cells of many learners' notebooks, checked; no other cell of them runs.

The cells are the learners' code and run as you, with limits on time, memory and output but without a sandbox:
grade strangers' notebooks in a container.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from ddp_course import __version__
from ddp_course.exercises import every
from ddp_course.exercises.grader import Grader, Limits
from ddp_course.launcher.folders import course_folder
from ddp_course.launcher.transcript import clean

_MARKS = {"passed": "✓", "failed": "✗", "blank": "○", "missing": "–", "stopped": "!"}
_LARGEST = 64 << 20  # bytes of a notebook
_SEED = 1  # one seed for the whole room


@dataclass(frozen=True)
class Grade:
    """One exercise of one notebook. `state`: passed, failed, blank, missing, or stopped at a limit."""

    notebook: str
    exercise: str
    state: str
    feedback: str


def main(argv: list[str]) -> int:
    """Grade and print. 0 where the run came to its end, whatever the grades; 2 without a notebook; 130 stopped."""
    given = _parser().parse_args(argv)
    notebooks = list(_find(given.notebooks))
    if not notebooks:
        print(f"ddp-course check: no notebook in {', '.join(given.notebooks)}", file=sys.stderr)
        return 2
    answers, skipped = {}, {}
    for path in notebooks:
        try:
            answers[path] = read_answers(path)
        except ValueError as error:
            skipped[path] = str(error)
    limits = Limits(given.seconds, int(given.memory * (1 << 30)))
    try:
        grades = _grade(answers, limits, given.jobs, given.fresh)
    except KeyboardInterrupt:
        print("\nddp-course check: stopped. The same command goes on from here.", file=sys.stderr)
        return 130
    show = _json if given.json else _csv if given.csv else _table
    show(grades, {_printable(path): reason for path, reason in skipped.items()})
    return 0


def read_answers(path: str) -> dict[str, str]:
    """Exercise → the cell's text without its magic line; the last cell where there are several.

    Raises ValueError where the file is no notebook.
    """
    known = {exercise.name for exercise in every()}
    try:
        if os.path.getsize(path) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB")
        with open(path, encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (KeyError, TypeError, AttributeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("not a notebook") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    found = {}
    for source in sources:
        magic, _, body = source.partition("\n")
        words = magic.split()
        if len(words) >= 2 and words[0] == "%%exercise" and words[1] in known:
            found[words[1]] = body
    return found


def _find(names: list[str]) -> Iterator[str]:
    for name in names:
        if os.path.isdir(name):
            paths = sorted(Path(name).rglob("*.ipynb"))
            yield from (str(path) for path in paths if ".ipynb_checkpoints" not in path.parts)
        else:
            yield name


def _grade(answers: dict[str, dict[str, str]], limits: Limits, jobs: int, fresh: bool) -> list[Grade]:
    """The grades of all answers, from earlier runs where there are some, and from graders for the rest."""
    names = [e.name for e in every() if any(e.name in found for found in answers.values())]
    store = _Store(fresh)
    wanted = [(path, name) for path, found in answers.items() for name in names if name in found]
    open_jobs = [job for job in wanted if store.get(job[1], answers[job[0]][job[1]]) is None]
    bar = _Bar(len(wanted), len(wanted) - len(open_jobs))
    graders: SimpleQueue[Grader] = SimpleQueue()
    for _ in range(jobs):
        graders.put(Grader(limits))

    def run(job: tuple[str, str]) -> tuple[str, str, dict[str, str]]:
        grader = graders.get()
        try:
            return *job, grader.grade(job[1], answers[job[0]][job[1]], _SEED)
        finally:
            graders.put(grader)

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(run, job) for job in open_jobs]):
            path, name, result = future.result()
            store.put(name, answers[path][name], result)
            bar.step(f"{_printable(path)} · {name}")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while not graders.empty():
            graders.get().close()
        bar.close()
    grades = []
    for path, found in answers.items():
        for name in names:
            result = (name in found and store.get(name, found[name])) or {"state": "missing", "text": ""}
            grades.append(Grade(_printable(path), name, result["state"], _printable(result["text"])))
    return grades


class _Store:
    """The results so far, one line each in `.ddp_course/grades.jsonl`: a stopped run goes on where it was."""

    def __init__(self, fresh: bool) -> None:
        self._path = course_folder() / "grades.jsonl"
        self._results: dict[str, dict[str, str]] = {}
        if fresh:
            self._path.unlink(missing_ok=True)
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            try:
                result = json.loads(line)
                self._results[result["key"]] = {"state": result["state"], "text": result["text"]}
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut off

    def get(self, name: str, cell: str) -> dict[str, str] | None:
        return self._results.get(_key(name, cell))

    def put(self, name: str, cell: str, result: dict[str, str]) -> None:
        key = _key(name, cell)
        self._results[key] = result
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **result}) + "\n")


def _key(name: str, cell: str) -> str:
    text = json.dumps([__version__, _SEED, name, cell])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _Bar:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._shown = total, done, sys.stderr.isatty()

    def step(self, what: str) -> None:
        self._done += 1
        if self._shown:
            filled = 30 * self._done // max(1, self._total)
            bar = "█" * filled + "░" * (30 - filled)
            print(f"\r\x1b[K{bar} {self._done}/{self._total} {what[:60]}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _table(grades: list[Grade], skipped: dict[str, str]) -> None:
    names = list(dict.fromkeys(grade.exercise for grade in grades))
    notebooks = list(dict.fromkeys(grade.notebook for grade in grades))
    marks = {(grade.notebook, grade.exercise): _MARKS[grade.state] for grade in grades}
    for number, name in enumerate(names, 1):
        print(f"{number:>3} {name}")
    width = max(map(len, [*notebooks, ""]))
    print("\n" + " " * width + "".join(f"{number:>4}" for number in range(1, len(names) + 1)))
    for notebook in notebooks:
        print(notebook.ljust(width) + "".join(f"{marks[notebook, name]:>4}" for name in names))
    print("\n✓ passes  ✗ does not  ○ not attempted  – not in the notebook  ! stopped at a limit")
    for grade in grades:
        if grade.state in ("failed", "stopped"):
            print(f"\n{grade.notebook}\n{grade.feedback}")
    for notebook, reason in skipped.items():
        print(f"\nskipped {notebook}: {reason}")


def _json(grades: list[Grade], skipped: dict[str, str]) -> None:
    reasons = [{"notebook": notebook, "reason": reason} for notebook, reason in skipped.items()]
    print(json.dumps({"grades": [asdict(grade) for grade in grades], "skipped": reasons}, indent=1, ensure_ascii=False))


def _csv(grades: list[Grade], skipped: dict[str, str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["notebook", "exercise", "state", "feedback"])
    rows = [(grade.notebook, grade.exercise, grade.state, grade.feedback) for grade in grades]
    for row in [*rows, *((notebook, "", "skipped", reason) for notebook, reason in skipped.items())]:
        writer.writerow(["'" + text if text[:1] in ("=", "+", "-", "@") else text for text in row])  # no formulas


def _printable(text: str) -> str:
    """Without what would move the cursor of the instructor's terminal."""
    lines = text.encode("utf-8", "backslashreplace").decode().split("\n")
    return "\n".join(clean(line, Path.cwd()) for line in lines)


def _parser() -> argparse.ArgumentParser:
    assert __doc__
    parser = argparse.ArgumentParser(prog="ddp-course check", description=__doc__.split(": ", 1)[1])
    parser.add_argument("notebooks", nargs="+", metavar="NOTEBOOK", help="notebooks, or folders of them")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of a table")
    form.add_argument("--csv", action="store_true", help="print CSV instead of a table")
    default = max(1, min(4, (os.cpu_count() or 1) // 2))
    parser.add_argument("--jobs", type=int, default=default, metavar="N", help=f"checks at a time (default {default})")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="time of one answer (default 60)")
    parser.add_argument("--memory", type=float, default=4, metavar="GiB", help="memory of one rank (default 4)")
    parser.add_argument("--fresh", action="store_true", help="grade everything anew, also what is graded already")
    return parser
