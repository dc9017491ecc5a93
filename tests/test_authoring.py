"""The authoring chain: what a source gives, which sources are refused, and which edits `--check` finds.

`tests/sources/` holds one tiny source for each way to go wrong; `good.md` has every kind of cell.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ddp_course.authoring import build, execute, main
from ddp_course.authoring.audit import audit_answers, texts
from ddp_course.authoring.source import BEGIN, END, answers, read_source, squash
from ddp_course.authoring.stored import is_sealed, to_bytes

ROOT = Path(__file__).parent.parent
SOURCES = Path(__file__).parent / "sources"
NAME = "01_tiny"
COMMITTED = [*sorted(ROOT.glob("solutions/*.ipynb")), *sorted(ROOT.glob("lessons/*.ipynb"))]
LESSONS = build.find_lessons(ROOT, [])


def course(folder: Path, source: str) -> build.Lesson:
    """A repository in `folder` with one lesson, whose source is one of tests/sources."""
    for part in build.FOLDERS:
        (folder / part).mkdir(parents=True)
    shutil.copy(SOURCES / f"{source}.md", folder / "solutions" / f"{NAME}.md")
    return build.Lesson(folder, NAME)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> build.Lesson:
    """The lesson of good.md, built once. Tests that change it work on `copy_of` it."""
    lesson = course(tmp_path_factory.mktemp("good"), "good")
    build.build(lesson)
    return lesson


def copy_of(lesson: build.Lesson, folder: Path) -> build.Lesson:
    shutil.copytree(lesson.root, folder, dirs_exist_ok=True)
    return build.Lesson(folder, lesson.name)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} is not once in {path.name}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def contents(lesson: build.Lesson) -> dict[str, bytes]:
    return {folder: lesson.notebook(folder).read_bytes() for folder in build.FOLDERS}


def notebook(lesson: build.Lesson, folder: str) -> Any:
    return nbformat.read(lesson.notebook(folder), as_version=4)


def cell(notebook: Any, text: str) -> Any:
    (found,) = [cell for cell in notebook.cells if text in cell.source]
    return found


# What a source gives


def test_a_lesson_has_the_stub_where_the_solution_was(good: build.Lesson) -> None:
    solved, blank = (cell(notebook(good, folder), "def mean") for folder in build.FOLDERS)
    assert "    total = sum(values)\n" in solved.source and solved.outputs[0].data["text/plain"] == "3.0"
    assert blank.source == "def mean(values):\n    raise NotImplementedError\n\n\nmean([1, 2, 6])"
    assert blank.outputs[0].ename == "NotImplementedError"
    assert blank.id == solved.id


def test_solution_only_cells_are_in_the_solution_alone(good: build.Lesson) -> None:
    solution, lesson = (good.notebook(folder).read_text() for folder in build.FOLDERS)
    for text in ("a cell for the solution alone", "divided by how many there are"):
        assert text in solution and text not in lesson


def test_nothing_of_one_run_or_one_machine_is_stored(good: build.Lesson) -> None:
    lesson = notebook(good, "lessons")
    assert "version" not in lesson.metadata.language_info and "widgets" not in lesson.metadata
    assert cell(lesson, "missing.txt").outputs[0].traceback == [
        "FileNotFoundError: [Errno 2] No such file or directory: 'missing.txt'"
    ]
    assert set(cell(lesson, "IntSlider").outputs[0].data) == {"text/plain"}
    picture = base64.b64decode(cell(lesson, "plt.plot").outputs[0].data["image/png"])
    assert picture.startswith(b"\x89PNG") and b"matplotlib" not in picture.lower()


def test_the_kernel_is_this_python_whatever_kernels_are_installed(tmp_path: Path, monkeypatch: Any) -> None:
    fake = tmp_path / "jupyter" / "kernels" / "python3"
    fake.mkdir(parents=True)
    fake.joinpath("kernel.json").write_text('{"argv": ["false"], "display_name": "Python 3", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("THIS_PYTHON", sys.executable)
    code = "import os, sys\nos.environ['THIS_PYTHON'] == sys.executable, os.environ['DDP_COURSE_PANEL']"
    one = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    with execute.scratch(ROOT) as place:
        execute.execute(one, place / "lessons", "one.ipynb")
    assert one.cells[0].outputs[0].data["text/plain"] == "(True, 'off')"


def test_cells_find_the_scripts_beside_them_and_leave_nothing(tmp_path: Path) -> None:
    lesson = course(tmp_path, "good")
    (tmp_path / "lessons" / "helper.py").write_text("value = 7")
    (tmp_path / "solutions" / "checkpoint.pt").write_text("left by an earlier run")
    with execute.scratch(lesson.root) as place:
        assert {path.name for path in place.rglob("*.*")} == {"helper.py"}
    assert not place.exists()


# Twice the same bytes


def test_a_second_build_gives_the_same_bytes(good: build.Lesson, tmp_path: Path) -> None:
    again = copy_of(good, tmp_path)
    build.build(again)
    assert contents(again) == contents(good)


def test_a_build_from_nothing_gives_the_same_bytes_but_for_the_excused(good: build.Lesson, tmp_path: Path) -> None:
    anew = course(tmp_path, "good")
    build.build(anew)
    for folder in build.FOLDERS:
        one, other = notebook(anew, folder), notebook(good, folder)
        assert cell(one, "perf_counter").outputs != cell(other, "perf_counter").outputs
        cell(one, "perf_counter").outputs = cell(other, "perf_counter").outputs
        assert to_bytes(one) == to_bytes(other)


def test_editing_and_inserting_cells_keeps_the_ids_of_the_others(good: build.Lesson, tmp_path: Path) -> None:
    lesson = copy_of(good, tmp_path)
    edit(lesson.source, 'print("ready")\n```\n', 'print("steady")\n```\n\nNew text.\n\n```{code-cell}\n1 + 1\n```\n')
    before = notebook(lesson, "solutions")
    after = read_source(lesson.source, before)
    ids = [cell.id for cell in after.cells]
    assert [id for id in ids if id in {cell.id for cell in before.cells}] == [cell.id for cell in before.cells]
    assert len(set(ids)) == len(ids) == len(before.cells) + 2
    assert ids == [cell.id for cell in read_source(lesson.source, before).cells]


def test_cells_of_the_same_text_get_ids_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "01_twins.md"
    source.write_text("```{code-cell}\n1\n```\n" * 3)
    assert len({cell.id for cell in read_source(source).cells}) == 3


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [("plt.plot([1, 2])", "plt.plot([1, 3])", True), ('print("ready")', 'print("steady")', False)],
    ids=["code after it", "code before it"],
)
def test_an_excused_output_is_kept_until_code_up_to_it_changes(
    good: build.Lesson, tmp_path: Path, old: str, new: str, kept: bool
) -> None:
    lesson = copy_of(good, tmp_path)
    edit(lesson.source, old, new)
    stored = notebook(good, "solutions")
    after = read_source(lesson.source, stored)
    execute.keep_excused(after, stored)
    outputs = cell(stored, "perf_counter").outputs
    assert cell(after, "perf_counter").outputs == (outputs if kept else [])


def test_fresh_replaces_the_excused_outputs_alone(good: build.Lesson, tmp_path: Path) -> None:
    lesson = copy_of(good, tmp_path)
    assert main(["--fresh"], root=tmp_path) == 0
    for before, after in zip(notebook(good, "lessons").cells, notebook(lesson, "lessons").cells, strict=True):
        assert (before == after) == ("perf_counter" not in after.source)


# Sources that are refused: a source, and what its author is told

REFUSED = {
    "begin_without_end": ["cell 1 (`### BEGIN SOLUTION`): `### BEGIN SOLUTION` has no `### END SOLUTION` after it"],
    "end_without_begin": ["`### END SOLUTION` has no `### BEGIN SOLUTION` before it"],
    "begin_twice": ["`### BEGIN SOLUTION` has no `### END SOLUTION` before it"],
    "mark_misspelt": ["`### Begin solution` is not a solution mark; write exactly"],
    "mark_in_text": ["`### BEGIN SOLUTION` stands outside a code cell; tag a text cell solution-only"],
    "tag_misspelt": ["the tag 'solution_only' does nothing; did you mean 'solution-only'?"],
    "nbval_comment": ["the comment `NBVAL_SKIP` hides the cell from nbval"],
    "metadata_unreadable": ["cannot be read as MyST Markdown"],
    "solution_raises": ["solutions/01_tiny.ipynb, cell 1 (`def half(x):`) raises ZeroDivisionError: division by zero"],
    "stub_raises": ["lessons/01_tiny.ipynb, cell 1", "raises NotImplementedError", "tag it raises-exception"],
    "kernel_ends": ["cell 1 (`import os`) ended the kernel"],
    "cell_too_long": ["cell 1 (`import time`) runs for more than 3 s"],
    "answer_in_code": ["lessons/01_tiny.ipynb, cell 2 (`values = [1, 2, 6]`) still holds an answer", "return sum("],
    "answer_in_text": ["cell 2 (`A hint:", "still holds an answer", "of solutions/01_tiny.md, cell 1 (`def mean"],
    "answer_in_output": ["cell 2 (`print(", "still holds an answer"],
    "answer_in_metadata": ["cell 2 (`values = [1, 2, 6]`) still holds an answer"],
    "cell_skipped": ['cell 1 (`print("never seen")`) was never executed'],
    "cell_empty": ["cell 2 (`empty`) was never executed"],
    "output_with_path": ["cell 1 (`import os`) shows an absolute path: 'in /", "print a relative one"],
    "output_with_library_path": ["cell 1 (`import json`) shows an absolute path"],
    "output_with_warning": ["shows a warning: 'cell.py:3: UserWarning: the sampler was not told the epoch'"],
    "output_on_stderr": ["writes to stderr: 'step 1'"],
    "output_with_address": ["shows a memory address: '<object at 0x"],
    "output_svg": ["shows image/svg+xml, which nobody sees in an untrusted notebook; show a PNG"],
}


def test_every_tiny_source_is_used() -> None:
    assert {path.stem for path in SOURCES.glob("*.md")} == {*REFUSED, "good"}


@pytest.mark.parametrize("source", REFUSED)
def test_a_wrong_source_is_refused_and_nothing_written(
    source: str, tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    lesson = course(tmp_path, source)
    monkeypatch.setattr(execute, "CELL_SECONDS", 3)
    assert main(["01"], root=tmp_path) == 1
    said = capfd.readouterr()
    assert said.out == ""
    for part in (f"{NAME}: refused", f"{NAME}.", *REFUSED[source]):
        assert part in said.err
    assert "Traceback" not in said.err
    assert not any(lesson.notebook(folder).exists() for folder in build.FOLDERS)


def test_single_lines_of_a_tagged_solution_may_stand_in_the_lesson(tmp_path: Path) -> None:
    source = tmp_path / "01_said.md"
    code = "### BEGIN SOLUTION\ndist.destroy_process_group()\nprint('done by all ranks')\n### END SOLUTION"
    for tag, refused in (("other", True), ("solution-may-repeat", False)):
        source.write_text(f"Call `dist.destroy_process_group()`.\n\n```{{code-cell}}\n:tags: [{tag}]\n{code}\n```\n")
        solution = read_source(source)
        try:
            audit_answers(build.blank(solution), answers(solution, "said"), "said")
        except build.BuildError:
            assert refused
        else:
            assert not refused


# What --check finds


def check(lesson: build.Lesson, capfd: Any) -> str:
    """The message of a failing `--check`."""
    assert main(["--check"], root=lesson.root) == 1
    return capfd.readouterr().err


def test_check_passes_and_writes_nothing(good: build.Lesson, capfd: Any) -> None:
    before = contents(good)
    assert main(["--check"], root=good.root) == 0
    assert capfd.readouterr() == (f"{NAME}: as its source gives it\n", "")
    assert contents(good) == before


def test_check_finds_an_edited_source(good: build.Lesson, tmp_path: Path, capfd: Any) -> None:
    lesson = copy_of(good, tmp_path)
    edit(lesson.source, 'print("ready")', 'print("steady")')
    said = check(lesson, capfd)
    assert "solutions/01_tiny.ipynb, cell 2 (`import time`) has other source than its source gives" in said
    assert "steady" in said and "make notebooks" in said


def test_check_runs_the_cells_and_finds_an_output_that_is_not_theirs(
    good: build.Lesson, tmp_path: Path, capfd: Any
) -> None:
    lesson = copy_of(good, tmp_path)
    wrong = notebook(lesson, "lessons")
    cell(wrong, "now > 0").outputs[0].data["text/plain"] = "False"
    lesson.notebook("lessons").write_bytes(to_bytes(wrong))
    said = check(lesson, capfd)
    assert "lessons/01_tiny.ipynb" in said and "(`now > 0`) has other outputs than its source gives" in said


def test_check_finds_a_missing_notebook(good: build.Lesson, tmp_path: Path, capfd: Any) -> None:
    lesson = copy_of(good, tmp_path)
    lesson.notebook("lessons").unlink()
    assert "lessons/01_tiny.ipynb is missing. Run `make notebooks`" in check(lesson, capfd)


def test_a_notebook_without_a_source_is_reported(good: build.Lesson, tmp_path: Path, capfd: Any) -> None:
    lesson = copy_of(good, tmp_path)
    shutil.copy(lesson.notebook("lessons"), tmp_path / "lessons" / "05_lost.ipynb")
    assert main(["--check"], root=tmp_path) == 2
    assert "no source in solutions/ for lessons/05_lost.ipynb" in capfd.readouterr().err


def edits(path: Path, count: int) -> list[tuple[int, bytes]]:
    """Places in a notebook and what one character there becomes: chosen at random, the same each time, and
    besides one in every output of an excused cell, which no comparison of outputs would find."""
    file = path.read_bytes()
    chance = random.Random(path.name)
    places = [chance.randrange(len(file)) for _ in range(count)]
    for one in nbformat.read(path, as_version=4).cells:
        if "nbval-ignore-output" in one.metadata.get("tags", []):
            shown = [text for output in one.outputs for text in texts(output.get("text", output.get("data", "")))]
            stored = [
                json.dumps(line, ensure_ascii=False)[1:-1].encode() for text in shown for line in text.split("\n")
            ]
            places += [file.index(line) for line in stored if len(line) > 8 and line in file]
    return [(place, b"7" if file[place : place + 1] != b"7" else b"8") for place in places]


def test_one_changed_character_breaks_the_seal_wherever_it_is(good: build.Lesson) -> None:
    assert_every_edit_is_found(good.notebook("lessons"), 400)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_check_finds_a_one_character_edit_of_a_committed_notebook(path: Path) -> None:
    assert_every_edit_is_found(path, 200)


def assert_every_edit_is_found(path: Path, count: int) -> None:
    file = path.read_bytes()
    assert is_sealed(file), f"{path.name} was edited since it was built: make notebooks"
    assert not is_sealed(file + b"\n") and not is_sealed(file[:-1])
    for place, byte in edits(path, count):
        assert not is_sealed(file[:place] + byte + file[place + 1 :]), f"an edit of byte {place} is not found"
        assert not is_sealed(file[:place] + file[place + 1 :]), f"byte {place} can go"


def test_check_refuses_an_edited_notebook_before_it_runs_anything(
    good: build.Lesson, tmp_path: Path, capfd: Any, monkeypatch: Any
) -> None:
    lesson = copy_of(good, tmp_path)
    monkeypatch.setattr(build, "execute", lambda *_: pytest.fail("a cell was run"))
    edit(lesson.notebook("lessons"), '"execution_count": 1,', '"execution_count": 2,')
    assert "lessons/01_tiny.ipynb was edited since it was built. Run `make notebooks`" in check(lesson, capfd)


# The command


def test_an_unknown_lesson_is_named_with_those_that_exist(good: build.Lesson, capfd: Any) -> None:
    assert main(["9"], root=good.root) == 2
    assert capfd.readouterr().err == "ddp-course build: no lesson 09; there are: 01_tiny.\n"


def test_outside_a_repository_it_says_so(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert "no solutions/ and lessons/ here or in a folder above" in capfd.readouterr().err


def test_the_repository_is_found_from_a_folder_inside_it(good: build.Lesson) -> None:
    assert build.find_root(good.root / "lessons") == good.root


# The committed lessons


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_committed_notebooks_are_those_of_the_source(lesson: build.Lesson) -> None:
    build.check_stored(lesson)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_no_text_of_a_solution_is_in_the_committed_lesson(lesson: build.Lesson) -> None:
    """Once as the build looks for it, once by a search that shares nothing with it but the marks."""
    committed = notebook(lesson, "lessons")
    solution = read_source(lesson.source)
    audit_answers(committed, answers(solution, lesson.source.name), lesson.file("lessons"))
    everything = squash("\n".join(texts(committed)))
    assert squash(BEGIN) not in everything and squash(END) not in everything
    for part in lesson.source.read_text(encoding="utf-8").split(BEGIN)[1:]:
        answer = squash(part.split(END)[0])
        assert len(answer) < 12 or answer not in everything, f"{lesson.name} shows {part.split(END)[0]!r}"
