"""%%torchrun in a real kernel."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, sessions, wait_until_gone

WAIT = """\
%%torchrun --nproc-per-node 2
import os, time
import torch.distributed as dist
dist.init_process_group()
print("before", flush=True)
dist.barrier()
open(f"started-{dist.get_rank()}", "w").write("x")
if dist.get_rank() == 0:
    dist.barrier()
time.sleep(600)
"""
HELLO = """\
%%torchrun --nproc-per-node 2
import torch.distributed as dist
dist.init_process_group()
print("hello from", dist.get_rank())
dist.destroy_process_group()
"""
HELLO_SHOWN = """\
$ torchrun --standalone --nproc-per-node=2 cell.py
rank 0 │ hello from 0
rank 1 │ hello from 1
✓ 2 ranks finished
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("notebook"))
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path)
    yield kernel
    kernel.close()


def test_a_cell_runs_on_two_ranks(shared: Kernel) -> None:
    result = shared.run(HELLO)
    assert (result.stdout, result.stderr, result.error) == (HELLO_SHOWN, "", None)


def test_the_cell_can_be_started_from_a_terminal_afterwards(shared: Kernel) -> None:
    shared.run(HELLO)
    text = (shared.folder / "cell.py").read_text()
    assert text == "# " + HELLO


def test_a_traceback_names_the_lines_of_the_cell(shared: Kernel) -> None:
    result = shared.run("%%torchrun --nproc-per-node 2\n\ndef step():\n    return 1 / 0\n\nstep()\n")
    assert result.error == "LaunchError"
    assert "line 4" in result.traceback and "return 1 / 0" in result.traceback
    assert "ZeroDivisionError" in result.traceback
    assert "torchelastic" not in result.traceback and "site-packages" not in result.traceback


def test_a_syntax_error_is_shown_before_anything_starts(shared: Kernel) -> None:
    before = (
        set((shared.folder / ".ddp_course" / "runs").iterdir()) if (shared.folder / ".ddp_course").exists() else set()
    )
    result = shared.run("%%torchrun\nx = 1\nif x = 2:\n    pass\n")
    assert result.error == "LaunchError"
    assert "line 3" in result.traceback and "if x = 2:" in result.traceback
    after = set((shared.folder / ".ddp_course" / "runs").iterdir()) if before else set()
    assert before == after


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%torchrun --nproc-per-nod 2\nx", "no option --nproc-per-nod. Did you mean --nproc-per-node?"),
        ("%%torchrun --zzz\nx", "no option --zzz. The options are"),
        ("%%torchrun --nproc-per-node\nx", "expected one argument"),
        ("%%torchrun --timeout soon\nx", "invalid float value: 'soon'"),
        ("%%torchrun --nproc-per-node 'two\nx", "a quote is opened and not closed"),
        ("%%torchrun --nproc-per-node 2", "the cell is empty"),
        ("%%torchrun --nproc-per-node 2\n   \n", "the cell is empty"),
        ("%%torchrun\n!ls\n", "lines that start with % or ! are for notebooks only"),
        ("%%torchrun --out 2x\npass", "--out 2x is not a variable name"),
        ("%%torchrun --file no/such/folder/f.py\npass", "cannot write no/such/folder/f.py"),
    ],
)
def test_a_wrong_cell_gets_one_clear_paragraph(cell: str, message: str, shared: Kernel) -> None:
    result = shared.run(cell)
    assert result.error == "LaunchError"
    assert message in result.traceback
    assert result.stdout == ""
    assert "Traceback" not in result.traceback


def test_help_lists_the_options(shared: Kernel) -> None:
    result = shared.run("%%torchrun --help")
    assert "--nproc-per-node" in result.stdout and "--timeout" in result.stdout
    assert result.error is None


def test_file_saves_the_cell_and_an_empty_cell_runs_it(shared: Kernel) -> None:
    first = shared.run("%%torchrun --file kept.py -- --epochs 3\nimport sys\nprint(sys.argv)\n")
    again = shared.run("%%torchrun --file kept.py -- --epochs 3")
    shown = "$ torchrun --standalone --nproc-per-node=1 kept.py --epochs 3\nrank 0 │ ['kept.py', '--epochs', '3']\n"
    assert first.stdout == again.stdout == shown + "✓ 1 rank finished\n"
    shared.run("%%torchrun --file kept.py\nprint('new')\n")
    assert (shared.folder / ".ddp_course" / "kept.py.previous").read_text().startswith("import sys")


def test_out_binds_the_run(shared: Kernel) -> None:
    shared.run("%%torchrun --out run\nfrom ddp_course import report\nreport(a=1)\n")
    assert shared.run("print(run.ok, run.reports)").stdout == "True [{'rank': 0, 'a': 1}]\n"


def test_no_check_explains_and_goes_on(shared: Kernel) -> None:
    result = shared.run("%%torchrun --no-check --out run\nraise ValueError('lab')\n")
    assert result.error is None
    shown = result.stdout + "".join(str(d) for d in result.displays)
    assert "✗" in shown and "ValueError: lab" in shown
    assert shared.run("print(run.ok)").stdout == "False\n"


def test_a_lab_shows_the_symptom_and_leaves_the_reason_to_the_learner(shared: Kernel) -> None:
    result = shared.run("%%torchrun --nproc-per-node 2 --lab\nimport no_such_package\n")
    assert result.error is None and result.displays == []
    assert "✗ both ranks: ModuleNotFoundError: No module named 'no_such_package'" in result.stdout
    assert "cell.py, line 2:" in result.stdout
    assert "Why" not in result.stdout and "Fix" not in result.stdout


def test_a_learners_own_cell_py_is_left_alone(kernel: Kernel) -> None:
    (kernel.folder / "cell.py").write_text("mine = True\n")
    result = kernel.run(HELLO)
    assert result.stdout == HELLO_SHOWN.replace("cell.py", "cell2.py")
    assert (kernel.folder / "cell.py").read_text() == "mine = True\n"


def test_an_interrupt_ends_the_run_and_the_kernel_goes_on(kernel: Kernel) -> None:
    cell = kernel.start(WAIT)
    kernel.wait_for_file("started-0")
    kernel.wait_for_file("started-1")
    family = kernel.family()
    ranks = sessions([p for p in family if p.ppid() != kernel.pid])
    assert len(ranks) == 3  # the agent and two ranks
    began = time.monotonic()
    kernel.manager.interrupt_kernel()
    result = kernel.wait(cell, 5)
    assert time.monotonic() - began < 5
    assert result.error == "LaunchInterrupted"
    assert result.stdout.splitlines() == [
        "$ torchrun --standalone --nproc-per-node=2 cell.py",
        "rank 0 │ before",
        "rank 1 │ before",
        "✗ the run was stopped",
    ]
    wait_until_gone(ranks, 1.5)
    assert kernel.run(HELLO).stdout == HELLO_SHOWN


@pytest.mark.parametrize("how", ["shutdown", "restart", "SIGKILL"])
def test_no_rank_outlives_its_kernel(how: str, kernel: Kernel) -> None:
    kernel.start(WAIT)
    kernel.wait_for_file("started-1")
    ranks = sessions(kernel.family())
    assert len(ranks) >= 4  # server, agent, two ranks
    if how == "shutdown":
        kernel.manager.shutdown_kernel(now=False)
    elif how == "restart":
        kernel.manager.restart_kernel(now=False)
    else:
        os.kill(kernel.pid, signal.SIGKILL)
    wait_until_gone(ranks, 2)
