"""The committed notebooks, and that nbval really compares them.

`make test` also runs every cell of them: `pytest --nbval lessons solutions`, strict. nbval passes a cell that
was never executed and one whose tag or comment excuses it, so the tests here see to it that there are none.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from ddp_course.authoring.execute import execute

ROOT = Path(__file__).parent.parent
RULES = ROOT / "tests" / "nbval_sanitize.cfg"
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=120", f"--nbval-sanitize-with={RULES}"]
NOTEBOOKS = [*sorted(ROOT.glob("lessons/*.ipynb")), *sorted(ROOT.glob("solutions/*.ipynb"))]

# The cells whose output nbval does not compare: (lesson, name of the cell) → why it cannot.
EXCUSED: dict[tuple[str, str], str] = {
    (
        "01_data_vs_model_parallelism",
        "ring-times",
    ): "a picture of times; kept, so that every build is the same",
    ("01_data_vs_model_parallelism", "fit"): "a picture of times; kept, so that every build is the same",
    ("01_data_vs_model_parallelism", "pipeline"): "pictures of times; kept, so that every build is the same",
    ("01_data_vs_model_parallelism", "bandwidth"): "times, α, β, algbw and busbw of this machine",
    ("01_data_vs_model_parallelism", "step"): "a step's time, predicted and measured here",
    ("01_data_vs_model_parallelism", "recap"): "the learner's own α, β, errors and bubbles",
    ("02_ddp_basics", "timeline"): "a picture of times measured here",
    ("02_ddp_basics", "caps"): "the same for five bucket caps",
    ("02_ddp_basics", "nccl_log"): "on a machine with GPUs it explains that machine's own log",
    ("02_ddp_basics", "topology"): "how this machine's own GPUs are connected",
    ("02_ddp_basics", "recap"): "the numbers of the learner's own runs",
    ("02_ddp_basics", "train"): "losses on the language reference of this Python",
    ("02_ddp_basics", "sample"): "text written by the model that was trained on it",
    ("03_syncbatchnorm_and_sharded_state", "recap"): "the numbers of the learner's own runs",
    ("04_launching_with_torchrun", "two_hosts"): "two network namespaces where root allows it, else one sentence",
    ("04_launching_with_torchrun", "exam_whole"): "losses on the language reference of this Python",
    ("04_launching_with_torchrun", "exam_killed"): "the same; the next cell compares the two bit by bit",
    ("04_launching_with_torchrun", "submit"): "where SLURM is, it submits a job and shows the job's logs",
}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> str:
    """The text of a cell's outputs, as stored."""
    return "\n".join(str({**output, "data": text_data(output)}) for output in cell.outputs)


def text_data(output: Any) -> dict[str, str]:
    return {kind: data for kind, data in output.get("data", {}).items() if not kind.startswith("image/")}


# The committed notebooks


@each_notebook
def test_every_code_cell_was_executed_in_order(path: Path) -> None:
    counts = [cell.execution_count for cell in code_cells(read(path))]
    assert counts == list(range(1, len(counts) + 1))


def test_only_the_listed_cells_are_excused_from_comparison() -> None:
    excused = {
        (path.stem, cell.metadata.get("name", cell.id))
        for path in NOTEBOOKS
        for cell in code_cells(read(path))
        if any(tag.startswith("nbval-") for tag in cell.metadata.get("tags", []))
    }
    assert excused == set(EXCUSED), "EXCUSED lists the cells tagged nbval-ignore-output, each with its reason"
    assert all(EXCUSED.values())


@each_notebook
def test_no_cell_is_hidden_from_nbval(path: Path) -> None:
    for cell in code_cells(read(path)):
        assert not re.search(r"^\s*#\s*(NBVAL|PYTEST_VALIDATE)_", cell.source, re.MULTILINE), cell.source
        hiding = {"nbval-skip", "skip-execution", "nbval-check-output", "nbval-raises-exception"}
        assert not hiding & {*cell.metadata.get("tags", [])}, cell.source


@each_notebook
def test_no_stored_output_is_on_stderr(path: Path) -> None:
    for cell in code_cells(read(path)):
        assert "stderr" not in [output.get("name") for output in cell.outputs], cell.source


@each_notebook
def test_no_stored_output_shows_a_path_an_address_or_a_warning(path: Path) -> None:
    for cell in code_cells(read(path)):
        found = re.search(
            r"/(home|root|tmp|Users|usr|work)/|(?<!…/)site-packages|Warning\b|\b0x[0-9a-f]{8}", shown(cell)
        )
        assert not found, f"{cell.source}\n…{shown(cell)[max(0, found.start() - 60) : found.end() + 60]}…"


# nbval compares


def nbval(path: Path) -> dict[int, str]:
    """What nbval, as `make test` starts it, says of each code cell of a notebook."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *NBVAL, "-c", os.devnull, "-p", "no:cacheprovider", "-rA", "-q", str(path)],
        cwd=path.parent,
        env=environment | {"DDP_COURSE_PANEL": "off"},
        capture_output=True,
        text=True,
    )
    said = re.findall(r"^(PASSED|FAILED) .*::Cell (\d+)", run.stdout, re.MULTILINE)
    assert said, run.stdout + run.stderr
    return {int(number): outcome for outcome, number in said}


def write(notebook: Any, path: Path) -> Path:
    nbformat.write(notebook, path)
    return path


def change_a_character(cell: Any) -> None:
    """Change one character in the first output of a cell."""
    output = cell.outputs[0]
    if output.output_type == "stream":
        output.text = one_other(output.text)
    elif output.output_type == "error":
        output.evalue = one_other(output.evalue)
    else:
        output.data["text/plain"] = one_other(output.data["text/plain"])


def one_other(text: str) -> str:
    middle = len(text.rstrip()) // 2
    return text[:middle] + ("a" if text[middle] != "a" else "b") + text[middle + 1 :]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An executed notebook with one cell for each kind of output."""
    cells = ["print('rank 0 │ loss 3.14')", "{'loss': 3.14, 'tokens': 512}", "1 / 0", "import time; print(time.time())"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.cells[2].metadata.tags = ["raises-exception"]
    notebook.cells[3].metadata.tags = ["nbval-ignore-output"]
    folder = tmp_path_factory.mktemp("small") / "lessons"
    folder.mkdir()
    execute(notebook, folder, "small.ipynb")
    return notebook


def test_nbval_passes_a_notebook_as_it_was_built(small: Any, tmp_path: Path) -> None:
    assert nbval(write(small, tmp_path / "small.ipynb")) == dict.fromkeys(range(4), "PASSED")


def test_nbval_fails_each_cell_with_one_stored_character_changed(small: Any, tmp_path: Path) -> None:
    changed = copy.deepcopy(small)
    for cell in changed.cells:
        change_a_character(cell)
    outcome = nbval(write(changed, tmp_path / "small.ipynb"))
    assert outcome == {0: "FAILED", 1: "FAILED", 2: "FAILED", 3: "PASSED"}, "only the last one is excused"


def start_of(notebook: Any) -> Any:
    """The cells of a notebook up to the first whose output nbval compares."""
    for number, cell in enumerate(notebook.cells, 1):
        compared = cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", [])
        if compared and cell.outputs and (cell.outputs[0].get("text") or text_data(cell.outputs[0])):
            notebook.cells = notebook.cells[:number]
            return notebook
    pytest.fail("no cell of this lesson has an output that nbval compares")


def test_nbval_fails_a_lesson_with_one_stored_character_changed(tmp_path: Path) -> None:
    if not NOTEBOOKS:
        pytest.skip("no lesson is committed yet")
    lesson = start_of(read(NOTEBOOKS[0]))
    last = len(code_cells(lesson)) - 1
    for script in NOTEBOOKS[0].parent.glob("*.py"):
        shutil.copy(script, tmp_path)
    assert nbval(write(lesson, tmp_path / "lesson.ipynb"))[last] == "PASSED"
    change_a_character(lesson.cells[-1])
    assert nbval(write(lesson, tmp_path / "lesson.ipynb"))[last] == "FAILED"


# What nbval is told


def test_make_test_runs_nbval_strictly() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for option in ("--nbval ", "--nbval-current-env", "--nbval-cell-timeout 120", "tests/nbval_sanitize.cfg"):
        assert option in makefile
    assert "--nbval-lax" not in makefile and "DDP_COURSE_PANEL=off" in makefile


def sanitize(text: str) -> str:
    for pattern, replacement in get_sanitize_patterns(RULES.read_text(encoding="utf-8")):
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("with_gpus", "stored"),
    [
        ("$ CUDA_VISIBLE_DEVICES= torchrun --standalone cell.py", "$ torchrun --standalone cell.py"),
        ("rank 1 │ backend nccl", "rank 1 │ backend gloo"),
        ("rank 1 │ tensor([2.], device='cuda:1')", "rank 1 │ tensor([2.], device='cpu')"),
        ("all of it is in .ddp_course/runs/0412/rank0.out", "all of it is in .ddp_course/runs/0001/rank0.out"),
    ],
)
def test_each_rule_turns_what_a_gpu_machine_says_into_what_is_stored(with_gpus: str, stored: str) -> None:
    assert sanitize(with_gpus) == stored == sanitize(stored)


def test_every_rule_is_explained_and_none_is_lost() -> None:
    """nbval ignores a rule that it cannot parse."""
    text = RULES.read_text(encoding="utf-8")
    sections = re.split(r"^\[.+\]$", text, flags=re.MULTILINE)[1:]
    assert len(sections) == len(get_sanitize_patterns(text)) == text.count("regex:")
    for section in sections:
        assert re.match(r"\n(# .{20,}\n)+regex: .+\nreplace: ?.*\n", section), section
