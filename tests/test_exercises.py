"""Every exercise against its answer bank, and against answers that only pretend."""

from __future__ import annotations

import ast
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from kernels import Kernel

from ddp_course import LaunchError
from ddp_course.exercises import answers as given
from ddp_course.exercises import check, every, find
from ddp_course.exercises.base import Exercise, Lab
from ddp_course.launcher.launch import start
from ddp_course.launcher.options import Options, parse, parser

BANK = Path(__file__).parent / "answers"
LESSONS = Path(__file__).parent.parent / "lessons"
SEEDS = (11, 202, 3003)
EXERCISES = {exercise.name: exercise for exercise in every()}
LABS = [exercise for exercise in EXERCISES.values() if isinstance(exercise, Lab)]
STUB = "raise NotImplementedError"


def answers(kind: str) -> list[object]:
    """The bank's answers of a kind; those that test-fast leaves out are marked."""
    found: list[object] = []
    for name in EXERCISES:
        for number, path in enumerate(sorted((BANK / name).glob(f"{kind}_*.py"))):
            marks = [pytest.mark.bank] if number else []
            found.append(pytest.param(name, path, id=f"{name}-{path.stem}", marks=marks))
    return found


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_bank_is_complete(name: str) -> None:
    right, wrong = sorted((BANK / name).glob("right_*.py")), sorted((BANK / name).glob("wrong_*.py"))
    assert len(right) >= 2 and len(wrong) >= 5, f"{name} has {len(right)} right and {len(wrong)} wrong answers"
    for kind, paths in (("# right: ", right), ("# feedback: ", wrong)):
        for path in paths:
            first = path.read_text().splitlines()[0]
            assert first.startswith(kind) and len(first) > len(kind), f"{path.name} begins with {first!r}"


def test_the_bank_has_no_answers_of_an_exercise_that_is_gone() -> None:
    assert {path.name for path in BANK.iterdir()} == set(EXERCISES)


@pytest.mark.parametrize(("name", "path"), answers("right"))
def test_a_right_answer_passes_on_three_seeds(name: str, path: Path) -> None:
    result = check.check(EXERCISES[name], path, SEEDS)
    assert result.state == "passed", result.text
    assert not any(str(seed) in result.text for seed in SEEDS), "a stored notebook would differ from run to run"


@pytest.mark.parametrize(("name", "path"), answers("wrong"))
def test_a_wrong_answer_gets_its_feedback(name: str, path: Path) -> None:
    wanted = " ".join(path.read_text().splitlines()[0].removeprefix("# feedback: ").split())
    result = check.check(EXERCISES[name], path, SEEDS[:1])
    assert result.state == "failed" and wanted in " ".join(result.text.split()), result.text


PRETENCES = {
    "prints the success line": 'print("✓ {name} · 2, 3 and 4 ranks, {tested}")',
    "exits with 0": "import sys; sys.exit(0)",
    "ends the process": "import os; os._exit(0)",
    "catches everything": "try: raise ValueError\n        except BaseException: return next(iter(locals().values()))",
    "reports a success": "import ddp_course; ddp_course.report(done=True, case=0, seen=0, expected=0)",
}


def pretend(exercise: Exercise, body: str) -> str:
    """The stub with `body` in place of each NotImplementedError, so that nothing is computed."""
    body = body.format(name=exercise.name, tested=exercise.tested)
    lines = []
    for line in exercise.stub.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == STUB:
            shift = "    " if len(indent) > 4 else ""
            lines.append(indent + body.replace("\n    ", "\n" + shift))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("pretence", PRETENCES)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.bank] * (i > 1)) for i, n in enumerate(EXERCISES)])
def test_a_pretence_does_not_pass(name: str, pretence: str) -> None:
    result = given.answer(EXERCISES[name], pretend(EXERCISES[name], PRETENCES[pretence]), seeds=[11])
    assert result.state == "failed", result.text
    assert not result.text.startswith("✓")
    assert all(line.startswith(("rank ", "…")) for line in result.printed.splitlines())


@pytest.mark.parametrize("name", EXERCISES)
def test_a_blank_stub_costs_no_launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "check", None)
    exercise = EXERCISES[name]
    commented = "# my notes\n" + exercise.stub.replace('"""', '"""Mine. ', 1) + "\n\nimport math\n"
    for text in (exercise.stub, commented, "", "# nothing yet\n"):
        result = given.answer(exercise, text)
        assert result.state == "blank"
        assert result.text.startswith(f"○ {name} · not attempted yet.")
    assert not Path(".ddp_course").exists()


def test_a_stub_that_is_half_written_says_what_is_left() -> None:
    exercise = find("uneven_batches")
    first, second = exercise.stub.split("def train_all")
    text = first.replace(STUB, "return None") + "def train_all" + second
    result = given.answer(exercise, text)
    line = next(n for n, row in enumerate(text.splitlines(), 2) if STUB in row)  # line 1 is the magic
    assert f"line {line} still raises NotImplementedError" in result.text, result.text


def test_a_cell_without_the_asked_name_says_so() -> None:
    result = given.answer(find("early_stop"), "def shouldStop(x):\n    return x\n")
    assert result.text == "✗ early_stop · the cell defines no should_stop. Keep the name that the exercise gives."


def test_the_seed_that_failed_fails_again_alike_and_another_one_otherwise() -> None:
    text = "import torch.distributed as dist\ndef average_gradient(grad, tokens_here):\n    return grad\n"
    first, again, other = (given.answer(find("average_gradient"), text, seeds=[s]).text for s in (7, 7, 8))
    assert first == again != other
    assert "(seed 7)" in first


def test_seeds_change_from_run_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(check, "make_cases", lambda exercise, world, seeds: seen.extend(seeds) or [])
    for _ in range(4):
        check.check(find("predict_buckets"), BANK / "predict_buckets" / "right_lists.py")
    assert len(set(seen)) > 1


@pytest.mark.parametrize("name", ["average_gradient", "early_stop"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "not finished after the time limit"),
        ("return undefined_name", "NameError: name 'undefined_name' is not defined"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    ],
)
def test_a_hang_and_a_crash_get_the_diagnosis(name: str, body: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check.check, "__defaults__", ((), 2.0))
    result = given.answer(EXERCISES[name], pretend(EXERCISES[name], body), seeds=[11])
    assert said in " ".join(result.text.split()), result.text
    assert "driver.py" not in result.text


@pytest.mark.parametrize("name", ["average_gradient", "early_stop"])
def test_a_flood_is_cut(name: str) -> None:
    result = given.answer(
        EXERCISES[name], pretend(EXERCISES[name], "for i in range(100_000): print('x' * 50)"), seeds=[11]
    )
    assert result.state == "failed"
    assert len(result.printed) < 10_000 and "more lines" in result.printed


def test_every_version_of_an_answer_is_kept() -> None:
    texts = ["def should_stop(stop_here):\n    return 1\n", "def should_stop(stop_here):\n    return 0\n"]
    for text in (texts[0], texts[0], texts[1], texts[0]):
        given.answer(find("early_stop"), text, seeds=[11])
    kept = sorted(Path(".ddp_course/answers/early_stop").glob("0*.py"))
    assert [path.read_text() for path in kept] == [texts[0], texts[1], texts[0]]


@pytest.mark.parametrize("name", EXERCISES)
def test_hints_keep_the_answer_and_the_stub_is_python(name: str) -> None:
    exercise = EXERCISES[name]
    assert len(exercise.hints) == 3 and STUB in exercise.stub
    ast.parse(exercise.stub)
    for path in (BANK / name).glob("right_*.py"):
        given = "".join(exercise.stub.split())
        for line in path.read_text().splitlines()[1:]:
            bare = "".join(line.split())
            if len(bare) > 30 and bare not in given:
                assert bare not in "".join("".join(exercise.hints).split()), f"a hint of {name} holds {line.strip()!r}"


SYMPTOMS = {
    "mismatched_lengths": "rank 1 │ the sum: [4.0, 2.0, 6.0]",
    "sampler_left_out": "rank 1 │ 8 of 8 samples",
    "sum_loss": "gradient 30.0; one process has 60.0",
    "send_recv_order": "sending to rank 1",
    "rank_0_only": "step 0: mean loss 5.5",
    "uneven_batches": "batch 3 done",
    "early_stop": "epoch 2: no better than 0.8, stop",
    "module_in_training": "step 2: first weight",
    "head_after_wrap": "body",
    "unused_parameters": "step 0 done",
    "no_sync_places": "4 micro-batches, 4 reductions",
    "set_epoch_forgotten": "epoch 2: [[8, 5], [7, 2], [3, 11]]",
    "batch_of_one": "rank 1 │ batch 1 done",
    "conversion_ignored": "step 2: running mean",
    "rank_0_evaluates": "rank 1 │ trained",
    "unconsolidated_state": "bias: saved after step 1 of 3",
    "optimizer_before_sharding": "rank 1 │ step 2: loss 0.2624",
    "full_state_on_rank_0": "✗ the run was ended at its time limit",
    "port_in_use": "rank 0 │ name: EADDRINUSE, message: address already in use",
    "local_rank_argument": "error: the following arguments are required: --local-rank",
    "more_ranks_than_gpus": "rank 0 │ local rank 0 takes cuda:0",
    "hidden_traceback": "rank 0 │ error_file: <N/A>",
    "missing_rank": "rank 0 │ step 2: mean gradient 5.5",
    "each_alone": "✗ the run was ended at its time limit",
    "no_restart": "start 0, step 1: 2 ranks are here",
    "from_zero": "rank 1 │ start 1, step 0: weight 2",
}
STOPS = {
    "mismatched_lengths",
    "send_recv_order",
    "rank_0_only",
    "uneven_batches",
    "early_stop",
    "unused_parameters",
    "batch_of_one",
    "rank_0_evaluates",
    "full_state_on_rank_0",
    "port_in_use",
    "local_rank_argument",
    "more_ranks_than_gpus",
    "hidden_traceback",
    "missing_rank",
    "each_alone",
    "no_restart",
}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_broken_program_shows_its_symptom(lab: Lab) -> None:
    Path("cell.py").write_text(lab.broken)
    given = parse(parser("a lab"), lab.options.removesuffix("--lab").split())
    options = Options.parsed(given, "cell.py", ())
    if "--timeout" in lab.options:  # a lab that hangs
        options = replace(options, timeout=4)
    run = start(options, view=None)
    assert SYMPTOMS[lab.name] in run.transcript, run.transcript
    assert run.ok != (lab.name in STOPS), run.transcript
    assert lab.options.endswith("--lab")
    if lab.name in ("module_in_training", "head_after_wrap", "conversion_ignored"):
        assert run.ranks[0].stdout != run.ranks[1].stdout


@pytest.mark.parametrize("notebook", sorted(LESSONS.glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_a_lesson_gives_each_of_its_exercises_as_the_checks_know_it(notebook: Path) -> None:
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    sources = ["".join(c["source"]) for c in cells]
    number = notebook.stem[:2]
    for exercise in (e for e in EXERCISES.values() if e.lesson == number):
        own = [s for s in sources if s.startswith(f"%%exercise {exercise.name}\n")]
        assert len(own) == 1, f"{notebook.name} has {len(own)} cells %%exercise {exercise.name}"
        assert given.is_blank(exercise, ast.parse(own[0].split("\n", 1)[1])), f"{exercise.name} is no blank stub"
        if isinstance(exercise, Lab):
            assert any(s.split("\n", 1)[-1].strip() == exercise.broken.strip() for s in sources), exercise.name
            assert any(f'lab("{exercise.name}")' in s for s in sources), f"{exercise.name} asks for no cause"


def test_the_magic_in_a_kernel(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        blank = kernel.run("%%exercise early_stop\n" + find("early_stop").stub)
        assert blank.stdout.startswith("○ early_stop · not attempted yet.")
        right = kernel.run("%%exercise early_stop\n" + (BANK / "early_stop" / "right_max.py").read_text())
        assert right.stdout == f"✓ early_stop · 2, 3 and 4 ranks, {find('early_stop').tested}\n"
        assert (right.stderr, right.error) == ("", None)
        wrong = kernel.run("%%exercise early_stop --seed 4\ndef should_stop(x):\n    return x\n")
        assert wrong.stdout.startswith(
            "✗ early_stop · 2 ranks of which rank 0 wants to stop (seed 4)\n  expected True "
        )
        assert 'Stuck? hint("early_stop")' in wrong.stdout
        broken = kernel.run("%%exercise early_stop\ndef should_stop(x:\n    return x\n")
        assert broken.error == "LaunchError" and "line 2" in broken.traceback
        unknown = kernel.run("%%exercise early_stopp")
        assert unknown.error == "LaunchError" and "Did you mean early_stop?" in unknown.traceback
        kernel.run("from ddp_course import hint, progress, quiz, lab, score")
        steps = [kernel.run('hint("early_stop")').stdout for _ in range(4)]
        assert [step[:11] for step in steps[:3]] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
        assert "section 6 of solutions/02_ddp_basics.ipynb" in steps[3]
        assert "✓ early_stop\n" in kernel.run('print(progress("02"))').stdout
        assert kernel.run('print(type(quiz("02")).__name__, type(lab("early_stop")).__name__)').stdout == "Quiz Quiz\n"
    finally:
        kernel.close()


def test_a_wrong_magic_line_names_the_form() -> None:
    for line in ("", "a b", "early_stop --seed x", "'"):
        with pytest.raises(LaunchError, match=r"%%exercise NAME \[--seed N\]"):
            given.exercise_cell(line, "")
    assert not os.path.exists(".ddp_course")
