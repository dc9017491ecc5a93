"""launch(): real ranks, what they print and send, and what a caller gets back."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import bench
import psutil
import pytest

from ddp_course import LaunchError, launch
from ddp_course.launcher import client
from ddp_course.launcher.folders import KEEP

# A line in one piece: print() writes two under `python -u`, as torchrun starts it, and its ranks share a pipe.
ALL_REDUCE = """\
import sys
import torch
import torch.distributed as dist

dist.init_process_group()
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}\\n")
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str, name: str = "train.py") -> str:
    Path(name).write_text(text)
    return name


@pytest.mark.parametrize("warm", [True, False])
def test_ranks_all_reduce_and_their_lines_come_in_order(warm: bool) -> None:
    run = launch(script(ALL_REDUCE), nproc_per_node=2, warm=warm)
    assert run.ok
    assert run.transcript.splitlines() == [
        "$ torchrun --standalone --nproc-per-node=2 train.py",
        "rank 0 │ rank 0 of 2: 3.0",
        "rank 1 │ rank 1 of 2: 3.0",
        "✓ 2 ranks finished",
    ]
    assert [rank.exit_code for rank in run.ranks] == [0, 0]
    assert run.diagnosis is None


def test_the_printed_command_works_in_a_terminal() -> None:
    run = launch(script(ALL_REDUCE), "--note", "two words", nproc_per_node=2)
    program, *arguments = shlex.split(run.command)
    assert program == "torchrun"
    pasted = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments], capture_output=True, text=True, timeout=120
    )
    printed = "".join(rank.stdout for rank in run.ranks)
    assert sorted(pasted.stdout.splitlines()) == sorted(printed.splitlines())


@pytest.mark.skipif(not client.can_fork(), reason="ranks are forked on Linux only")
@pytest.mark.parametrize("nnodes", [1, 2])
def test_an_agent_that_forks_its_ranks_runs_no_thread(nnodes: int) -> None:
    """Whatever lock another thread held at the fork, a rank would wait for it without end: one launch in a thousand."""
    counted = "import os\nprint(len(os.listdir(f'/proc/{os.getppid()}/task')))\n"
    run = launch(script(counted), nproc_per_node=2, nnodes=nnodes, rdzv_backend="static", max_restarts=0)
    assert [rank.stdout for rank in run.ranks] == ["1\n"] * 2 * nnodes


def test_sixteen_ranks_on_this_machine() -> None:
    run = launch(script(ALL_REDUCE), nproc_per_node=16)
    assert [rank.stdout for rank in run.ranks] == [f"rank {r} of 16: 136.0\n" for r in range(16)]


def test_reports_come_back_with_their_rank() -> None:
    run = launch(
        script(
            "import os, torch\n"
            "from ddp_course import report\n"
            "for step in range(2):\n"
            "    report(step=step, total=2, loss=torch.tensor(0.5 + step), name='a', shape=torch.ones(2, 2))\n"
        ),
        nproc_per_node=2,
    )
    assert run.reports == [
        {"rank": rank, "step": step, "total": 2, "loss": 0.5 + step, "name": "a", "shape": [[1.0, 1.0], [1.0, 1.0]]}
        for rank in range(2)
        for step in range(2)
    ]
    frame = run.reports.to_frame()
    assert frame.groupby("rank").loss.sum().tolist() == [2.0, 2.0]


def test_report_refuses_what_it_cannot_send() -> None:
    run = launch(script("from ddp_course import report\nreport(model=object())\n"), check=False)
    assert "report() cannot send a object" in run.ranks[0].stderr


def test_report_outside_a_launch_does_nothing() -> None:
    done = subprocess.run(
        [sys.executable, script("from ddp_course import report\nreport(step=1)\nprint('on')\n")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("on\n", "")


def test_stderr_and_stdout_are_apart_and_labelled() -> None:
    run = launch(script("import sys\nprint('out')\nprint('err', file=sys.stderr)\n"), nproc_per_node=2)
    assert run.ranks[1].stdout == "out\n"
    assert run.ranks[1].stderr == "err\n"
    assert "rank 1 stderr │ err" in run.transcript


def test_a_failed_run_raises_with_the_diagnosis_and_keeps_the_run() -> None:
    with pytest.raises(LaunchError, match="ValueError: no") as raised:
        launch(script("import os\nprint('before')\nraise ValueError('no')\n"), nproc_per_node=2)
    run = raised.value.run
    assert run is not None and not run.ok
    assert [rank.stdout for rank in run.ranks] == ["before\n", "before\n"]
    assert run.diagnosis is not None
    assert (run.diagnosis.line, Path(str(run.diagnosis.file)).name) == (3, "train.py")


def test_check_false_returns_the_failed_run() -> None:
    run = launch(script("import sys\nsys.exit(3)\n"), check=False)
    assert (run.ok, run.outcome, run.ranks[0].exit_code) == (False, "failed", 3)


def test_the_time_limit_ends_the_run() -> None:
    began = time.monotonic()
    run = launch(script("print('on', flush=True)\nwhile True: pass\n"), nproc_per_node=2, timeout=2, check=False)
    assert time.monotonic() - began < 20
    assert run.outcome == "timeout"
    assert [rank.stdout for rank in run.ranks] == ["on\n", "on\n"]
    deadline = time.monotonic() + 2  # the server takes in what it killed
    while left := [rank for rank in run.ranks if psutil.pid_exists(rank.attempts[-1].pid)]:
        assert time.monotonic() < deadline, left


def test_max_restarts_starts_all_ranks_again() -> None:
    run = launch(
        script(
            "import os\n"
            "attempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
            "print('attempt', attempt)\n"
            "assert attempt == 1, 'first attempt'\n"
        ),
        nproc_per_node=2,
        max_restarts=1,
    )
    assert run.ok
    assert [len(rank.attempts) for rank in run.ranks] == [2, 2]
    assert "rank 0 ↻ attempt 2\nrank 0 │ attempt 1" in run.transcript


def test_two_launches_at_once_both_work() -> None:
    script(ALL_REDUCE)
    runs = {}

    def one(name: str) -> None:
        runs[name] = launch("train.py", nproc_per_node=2)

    threads = [threading.Thread(target=one, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert runs["a"].ok and runs["b"].ok
    assert runs["a"].folder != runs["b"].folder


@pytest.mark.parametrize("guard", [True, False])
def test_launch_works_from_a_plain_script(guard: bool) -> None:
    script(ALL_REDUCE)
    call = "run = launch('train.py', nproc_per_node=2)\n    print(run.ok, len(run.ranks))"
    body = f"if __name__ == '__main__':\n    {call}\n" if guard else call.replace("\n    ", "\n")
    caller = script(f"from ddp_course import launch\n{body}\n", "caller.py")
    done = subprocess.run([sys.executable, caller], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("True 2\n", "")


def test_the_command_line_shows_lines_and_passes_failure_on() -> None:
    command = [sys.executable, "-m", "ddp_course.cli", "run", "--nproc-per-node", "2"]
    good = subprocess.run([*command, script(ALL_REDUCE)], capture_output=True, text=True, timeout=120)
    assert good.returncode == 0
    assert sorted(good.stdout.splitlines()) == [
        "rank 0 │ rank 0 of 2: 3.0",
        "rank 1 │ rank 1 of 2: 3.0",
        "✓ 2 ranks finished",
    ]
    bad = subprocess.run(
        [*command, script("raise ValueError('no')\n"), "--x"], capture_output=True, text=True, timeout=120
    )
    assert bad.returncode == 1
    assert "ValueError: no" in bad.stderr


def test_a_script_in_another_folder_imports_its_neighbours() -> None:
    Path("sub folder").mkdir()
    script("VALUE = 7\n", "sub folder/neighbour.py")
    run = launch(script("import neighbour\nprint(neighbour.VALUE)\n", "sub folder/trän.py"))
    assert run.ranks[0].stdout == "7\n"


def test_environment_set_in_the_notebook_reaches_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    show = script("import os, torch.distributed as d\nprint(os.environ['COLOUR'], d.get_debug_level().name)\n")
    monkeypatch.setenv("COLOUR", "blue")
    assert launch(show).ranks[0].stdout == "blue OFF\n"
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "INFO")
    assert launch(show).ranks[0].stdout == "red INFO\n"


def test_the_last_twenty_runs_are_kept_for_their_owner_only() -> None:
    script("print('x')\n")
    runs = [launch("train.py") for _ in range(KEEP + 3)]
    kept = sorted(p.name for p in Path(".ddp_course/runs").iterdir() if p.name != "latest")
    assert kept == [run.folder.name for run in runs[-KEEP:]]
    assert {oct(p.stat().st_mode & 0o777) for p in [Path(".ddp_course"), *Path(".ddp_course/runs").iterdir()]} == {
        "0o700"
    }
    assert Path(".ddp_course/.gitignore").read_text() == "*\n"


def test_import_is_quick_and_brings_no_torch() -> None:
    code = "import ddp_course, sys; print('torch' in sys.modules, 'IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nproc_per_node": 0}, "needs at least 1 rank"),
        ({"nproc_per_node": -2}, "needs at least 1 rank"),
        ({"nproc_per_node": "two"}, "not a number of ranks"),
        ({"nproc_per_node": 2, "backend": "nccl"}, "NCCL needs one GPU for each rank and this machine has no GPU"),
        ({"backend": "mpi"}, "no such backend"),
        ({"max_restarts": -1}, "give 0 or more"),
        ({"timeout": 0}, "seconds above 0"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(
    options: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(LaunchError, match=message) as raised:
        launch(script(ALL_REDUCE), **options)
    assert raised.value.run is None
    assert not Path(".ddp_course").exists()


@pytest.mark.skipif(not client.can_fork(), reason="a server forks on Linux only")
def test_a_server_that_was_stopped_is_replaced() -> None:
    client.warm_up()
    stopped = client._servers[True].process
    stopped.send_signal(signal.SIGSTOP)
    while psutil.Process(stopped.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert launch(script("print('hello')\n")).ranks[0].stdout == "hello\n"
    assert stopped.wait(10) == -signal.SIGKILL


def test_missing_script_and_directory_are_refused() -> None:
    script("", "train.py")
    with pytest.raises(LaunchError, match=r"There is no script tran\.py .* Did you mean train\.py\?"):
        launch("tran.py")
    Path("folder").mkdir()
    with pytest.raises(LaunchError, match="folder is a directory"):
        launch("folder")


def test_an_unwritable_folder_is_refused() -> None:
    Path(".ddp_course").write_text("in the way")
    with pytest.raises(LaunchError, match="Cannot write in"):
        launch(script(ALL_REDUCE))
    assert sorted(os.listdir()) == [".ddp_course", "train.py"]


def test_a_run_is_read_like_before_when_its_folder_has_gone() -> None:
    first = launch(
        script("import sys\nfrom ddp_course import report\nreport(x=3)\nprint('said')\nprint('so', file=sys.stderr)\n")
    )
    shutil.rmtree(first.folder)
    rank = first.ranks[0]
    assert (first.reports, rank.stdout, rank.stderr) == ([{"rank": 0, "x": 3}], "said\n", "so\n")


def test_long_output_is_cut_in_the_middle_and_kept_whole_on_disk() -> None:
    run = launch(script("for i in range(100000): print('line', i)\n"), nproc_per_node=2)
    lines = run.transcript.splitlines()
    assert len(lines) <= 400
    assert "rank 0 │ line 0" in lines and "rank 1 │ line 99999" in lines
    assert sum("left out; all of it is in .ddp_course/runs/" in line for line in lines) == 2
    assert run.ranks[1].stdout.count("\n") == 100000


def test_output_of_every_kind_gets_exactly_one_label_a_line() -> None:
    run = launch(
        script(
            "import sys\n"
            "out = sys.stdout.buffer\n"
            "out.write(b'bad \\xff byte\\n')\n"
            "out.write(b'nul \\x00 here\\n')\n"
            "out.write(b'10%\\r50%\\r100%\\n')\n"
            "out.write(b'\\x1b[31mred\\n')\n"
            "out.write(b'windows\\r\\n')\n"
            "out.write(b'\\n')\n"
            "out.write(b'unfinished')\n"
        )
    )
    assert run.transcript.splitlines()[1:-1] == [
        "rank 0 │ bad � byte",
        "rank 0 │ nul  here",
        "rank 0 │ 100%",
        "rank 0 │ \x1b[31mred\x1b[0m",
        "rank 0 │ windows",
        "rank 0 │ ",
        "rank 0 │ unfinished",
    ]


def test_the_rows_of_the_benchmark_are_measured() -> None:
    """Each once, and only whether a value comes back: how large it is wants a quiet machine."""
    script(bench.ALL_REDUCE, "all_reduce.py")
    for entry in (bench.first_launch(1), bench.line_latency(), bench.import_time(), bench.controls_answer()):
        assert 0 < entry["value"] < 60 and entry["limit"] > 0
        assert entry["what"] in bench.line(entry)
