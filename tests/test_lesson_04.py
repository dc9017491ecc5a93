"""Lesson 4: what it says of torchrun, held against torchrun itself; its checks leave nothing behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddp_course import launch
from ddp_course.exercises import check, find
from ddp_course.exercises.lesson_04 import rank_arithmetic
from ddp_course.exercises.lesson_04.first_failure import who
from ddp_course.launcher.run import Run
from ddp_course.pictures.job import job

BANK = Path(__file__).parent / "answers"
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def torchrun(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | environment)


# Section 1: a launcher of one's own


@pytest.mark.parametrize("answer", ["right_polling", "wrong_leaves_them", "wrong_one_after_the_other"])
def test_no_process_outlives_the_check_of_a_launcher(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the ranks' script lies
    check.check(find("own_launcher"), BANK / "own_launcher" / f"{answer}.py", [5])
    assert not [command for process in psutil.process_iter() if str(tmp_path) in (command := command_of(process))]


@pytest.mark.parametrize("answer", ["right_polling", "right_wait_any", "right_threads"])
def test_ranks_of_a_launcher_of_ones_own_all_reduce_with_pytorch(answer: str, tmp_path: Path) -> None:
    script = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
open(os.environ["RANK"], "w").write(str(total.item()))
dist.destroy_process_group()
"""
    Path("train.py").write_text(script)
    (tmp_path / "launcher.py").write_text((BANK / "own_launcher" / f"{answer}.py").read_text())
    start = "import launcher, sys; sys.exit(launcher.my_torchrun('train.py', 2))"
    done = subprocess.run([sys.executable, "-c", start], timeout=120)
    assert done.returncode == 0
    assert [Path(rank).read_text() for rank in "01"] == ["3.0", "3.0"]


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.parametrize("left_out", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_init_process_group_needs_four_of_the_five_variables(left_out: str) -> None:
    Path("cell.py").write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\n")
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    del place[left_out]
    done = subprocess.run([sys.executable, "cell.py"], env=os.environ | place, capture_output=True, text=True)
    assert f"environment variable {left_out} expected, but not set" in done.stderr


def test_the_old_launcher_gives_the_argument_and_the_variable() -> None:
    Path("old.py").write_text("import os, sys\nprint(sys.argv[1:], os.environ['LOCAL_RANK'])\n")
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.launch", "--nproc-per-node=1", "old.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "['--local-rank=0'] 0\n", done.stderr


# Section 2: from a command line to ranks


def test_the_real_runs_of_the_rank_exercise_give_what_two_torchruns_give() -> None:
    tell = 'echo "$RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE"'
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--nnodes=2", "--nproc-per-node=3", "--master-addr=127.0.0.1", f"--master-port={port}"]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "--local-addr=127.0.0.1"]
    shell = ["--no-python", "sh", "-c", tell]
    nodes = [
        subprocess.Popen([*command, f"--node-rank={node}", *shell], stdout=subprocess.PIPE, stderr=-1, text=True)
        for node in range(2)
    ]
    printed = [sorted(node.communicate(timeout=120)[0].split("\n")[:-1]) for node in nodes]
    code = "from ddp_course.exercises.lesson_04.rank_arithmetic import run_for_real as r\nimport json\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print(json.dumps(r([(2, 3, 0), (2, 3, 1)])))"], capture_output=True, text=True
    )
    here = [
        [" ".join(str(one[n]) for n in rank_arithmetic.NAMES) for one in ranks] for ranks in json.loads(done.stdout)
    ]
    assert here == printed == [["0 0 0 6", "1 1 0 6", "2 2 0 6"], ["3 0 1 6", "4 1 1 6", "5 2 1 6"]]


def test_logs_go_where_redirects_and_tee_say() -> None:
    Path("talk.py").write_text("import os, sys\nprint('out', os.environ['RANK'])\nprint('err', file=sys.stderr)\n")
    done = torchrun("--standalone", "--nproc-per-node=2", "--log-dir=logs", "--redirects=3", "--tee=0:3", "talk.py")
    assert done.stdout == "[default0]:out 0\n" and "[default0]:err" in done.stderr and "default1" not in done.stderr
    files = {"/".join(path.parts[-2:]): path.read_text() for path in Path("logs").rglob("*.log")}
    assert files == {
        "0/stdout.log": "out 0\n",
        "0/stderr.log": "err\n",
        "1/stdout.log": "out 1\n",
        "1/stderr.log": "err\n",
    }


def test_an_option_can_be_set_in_the_environment() -> None:
    Path("who.py").write_text("import os\nprint(os.environ['WORLD_SIZE'])\n")
    assert torchrun("--standalone", "who.py", PET_NPROC_PER_NODE="3").stdout.split() == ["3"] * 3


def test_a_job_is_drawn_with_the_numbers_of_its_ranks() -> None:
    texts = [text.get_text() for text in job(nnodes=3, nproc_per_node=2).axes[0].texts]
    assert [text for text in texts if text.startswith("RANK")] == [
        f"RANK {rank}\nLOCAL_RANK {rank % 2}" for rank in range(6)
    ]
    assert texts.count("agent") == 3 and job()._repr_png_() == job()._repr_png_()


# Section 5: who failed first


def ends(run: Run) -> list[dict[str, Any]]:
    """A run's ranks in the form that the exercise gives them in."""
    rows = []
    for rank in run.ranks:
        error = rank.attempts[-1].json("error")
        text = f"{error['type']}: {error['message']}" if error and error["type"] != "SystemExit" else None
        when = error["time_ns"] if error else rank.attempts[-1].ended_ns
        rows.append({"exit_code": rank.exit_code, "error": text, "second": when // 10**9})
    return rows


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("raise_on_one_rank", ()), ("leaves_early", ()), ("signal_on_rank_1", ("SIGKILL",)), ("times_out", ())],
)
def test_the_rules_for_who_failed_first_hold_for_real_runs(program: str, arguments: tuple[str, ...]) -> None:
    run = launch(PROGRAMS / f"{program}.py", *arguments, nproc_per_node=3, timeout=30, check=False)
    assert who(ends(run)) == 1, ends(run)
    assert run.diagnosis is not None and run.diagnosis.culprits == [1]


def test_record_puts_the_traceback_into_the_summary() -> None:
    fails = "def main():\n    raise ValueError('sample 17 is empty')\n"
    imported = "from torch.distributed.elastic.multiprocessing.errors import record\n"
    Path("plain.py").write_text(fails + "main()\n")
    Path("recorded.py").write_text(imported + "@record\n" + fails + "main()\n")
    summaries = []
    for script in ("plain.py", "recorded.py"):
        report = torchrun("--standalone", "--redirects=3", script).stderr
        summaries.append(report[report.index("Root Cause") :])
    assert "error_file: <N/A>" in summaries[0] and "sample 17" not in summaries[0]
    assert "ValueError: sample 17 is empty" in summaries[1] and ", in main" in summaries[1]
