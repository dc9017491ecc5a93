"""Scripts, folders and machines that are not as one wishes."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from kernels import Kernel

from ddp_course import LaunchError, launch
from ddp_course.launcher.folders import CellScript

CONNECT = "import torch, torch.distributed as dist\ndist.init_process_group()\ndist.all_reduce(torch.ones(1))\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str | bytes, name: str = "train.py") -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize(
    ("name", "text", "printed"),
    [
        ("größe 网.py", "print('ok')\n", "ok\n"),
        ("crlf.py", b"x = 1\r\nprint('ok', x)\r\n", "ok 1\n"),
        ("bom.py", b"\xef\xbb\xbfprint('ok')\n", "ok\n"),
        ("latin.py", b"# -*- coding: latin-1 -*-\nprint('\xe4')\n", "ä\n"),
        ("guard.py", "def main():\n    print(__name__)\n\nif __name__ == '__main__':\n    main()\n", "__main__\n"),
        (
            "exit.py",
            "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start(); t.join()\n"
            "print('on')\n",
            "on\n",
        ),
        (
            "late.py",
            "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\n",
            "late\n",
        ),
        ("atexit_.py", "import atexit\natexit.register(print, 'bye')\nprint('hi')\n", "hi\nbye\n"),
        (
            "pool.py",
            "import multiprocessing as mp\n\ndef double(x):\n    return 2 * x\n\nif __name__ == '__main__':\n"
            "    with mp.get_context('spawn').Pool(1) as pool:\n        print(pool.map(double, [1, 2]))\n"
            "    with mp.get_context('fork').Pool(1) as pool:\n        print(pool.map(double, [3]))\n",
            "[2, 4]\n[6]\n",
        ),
        (
            "pickle_.py",
            "import pickle\n\nclass A:\n    pass\n\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)\n",
            "A\n",
        ),
        (
            "loader.py",
            "import torch\nfrom torch.utils.data import DataLoader\n\nif __name__ == '__main__':\n"
            "    print(sum(b.sum().item() for b in DataLoader(torch.arange(10), batch_size=2, num_workers=2)))\n",
            "45\n",
        ),
    ],
)
def test_scripts_of_every_kind_run(name: str, text: str | bytes, printed: str, warm: bool) -> None:
    if not warm and name in ("late.py", "atexit_.py", "pickle_.py", "crlf.py", "bom.py", "latin.py"):
        pytest.skip("the bootstrap is the same; the slow start is spent on the others")
    run = launch(script(text, name), warm=warm)
    assert (run.ranks[0].stdout, run.ranks[0].stderr) == (printed, "")


def test_input_is_refused_in_plain_words() -> None:
    run = launch(script("name = input('your name? ')\n"), check=False)
    assert "EOFError" in str(run.diagnosis) and run.diagnosis is not None and run.diagnosis.culprits == [0]


def test_progress_bars_and_unfinished_lines() -> None:
    bar = (
        "import sys\nfor i in range(101):\n    sys.stderr.write(f'\\r{i:3d}%')\n"
        "sys.stderr.write('\\n')\nprint('end', end='')\n"
    )
    run = launch(script(bar), nproc_per_node=2)
    assert run.transcript.splitlines()[1:-1] == [
        f"rank {rank} {line}" for rank in range(2) for line in ("│ end", "stderr │ 100%")
    ]


@pytest.mark.parametrize("count", [2, 8])
def test_launches_at_once(count: int) -> None:
    script(CONNECT + "print(dist.get_world_size())\n")
    outputs: dict[int, list[str]] = {}

    def one(number: int) -> None:
        outputs[number] = [rank.stdout for rank in launch("train.py", nproc_per_node=2).ranks]

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert outputs == {number: ["2\n", "2\n"] for number in range(count)}


def test_the_default_ports_may_be_taken() -> None:
    holders = []
    for port in (29500, 29400):
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", port))
            holder.listen()
        except OSError:
            pass  # somebody has it: as good
        holders.append(holder)
    assert launch(script(CONNECT), nproc_per_node=2).ok
    for holder in holders:
        holder.close()


def listening(pid: int) -> list[tuple[str, int]]:
    """(address, port) of every listening socket of a process and all below it."""
    family = [pid, *(p.pid for p in psutil.Process(pid).children(recursive=True))]
    return [
        (c.laddr.ip, c.laddr.port)
        for c in psutil.net_connections("inet")
        if c.pid in family and c.status == psutil.CONN_LISTEN
    ]


@pytest.mark.parametrize("warm", [True, False])
def test_a_run_listens_on_the_loopback_interface_only(warm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_NTHREADS", "2")
    script(CONNECT + "import time\nopen('up', 'w').write('x')\nwhile True: time.sleep(0.1)\n")
    seen: list[tuple[str, int]] = []

    def look() -> None:
        while not Path("up").exists():
            time.sleep(0.02)
        for server in psutil.Process().children():
            seen.extend(listening(server.pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    launch("train.py", nproc_per_node=2, timeout=8 if warm else 20, check=False, warm=warm)
    watcher.join()
    assert len(seen) >= 2, "the store and gloo must have been listening"
    assert {address for address, _ in seen} <= {"127.0.0.1", "::1"}


RESTART = """\
import os, torch, torch.distributed as dist
dist.init_process_group()
x = torch.ones(1)
dist.all_reduce(x)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    raise RuntimeError("first attempt")
dist.all_reduce(x)
print(x.item())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_restarts_work_through_the_loopback_rendezvous(count: int) -> None:
    script(RESTART)
    for _ in range(count):
        run = launch("train.py", nproc_per_node=2, max_restarts=1)
        assert [rank.attempts[-1].text("out") for rank in run.ranks] == ["4.0\n", "4.0\n"]


@contextmanager
def mounted(folder: Path, options: list[str]) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    script("import sys\nprint('before')\nfor _ in range(40): print('x' * 50000)\n")
    with mounted(tmp_path / ".ddp_course", ["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]):
        run = launch("train.py", nproc_per_node=2, check=False)
        assert not run.ok
        assert "rank 0 │ before" in run.transcript
        assert run.diagnosis is not None and run.diagnosis.kind == "disk_full", str(run.diagnosis)
    shutil.rmtree(tmp_path / ".ddp_course")
    assert launch(script("print('again')\n")).ok


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "lessons"
    inner.mkdir()
    script("print('x')\n", "lessons/train.py")
    with mounted(inner, ["--bind", str(inner)]):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(inner)], check=True)
        os.chdir(inner)
        try:
            with pytest.raises(LaunchError, match=r"Cannot write in .*lessons \(Read-only file system\)"):
                launch("train.py")
        finally:
            os.chdir(tmp_path)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("ending", ["", "raise ValueError('no')", "time.sleep(600)"])
def test_a_child_in_a_session_of_its_own_does_not_outlive_the_run(ending: str, warm: bool) -> None:
    script(
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '601'], start_new_session=True)\n"
        f"print(child.pid, flush=True)\n{ending}\n"
    )
    run = launch("train.py", nproc_per_node=2, check=False, warm=warm, timeout=2 if warm else 8)
    children = [int(rank.stdout) for rank in run.ranks]
    deadline = time.monotonic() + 2
    while left := [pid for pid in children if psutil.pid_exists(pid)]:
        assert time.monotonic() < deadline, left


FLOOD = """\
import os
if os.environ["RANK"] == "0":
    for number in range({lines}):
        print("line", number, "-" * 85)
"""


@pytest.mark.parametrize("lines", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_flood_is_cut_on_the_screen_and_whole_on_disk(lines: int, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        kernel.run("%%torchrun --nproc-per-node 2\nprint('warm')\n")
        before = psutil.Process(kernel.pid).memory_info().rss
        cell = "%%torchrun --nproc-per-node 2 --out run\n" + FLOOD.format(lines=lines)
        result = kernel.run(cell, timeout=200)
        grown = psutil.Process(kernel.pid).memory_info().rss - before
        assert result.error is None
        assert len(result.stdout.splitlines()) <= 400
        assert f"line {lines - 1} " in result.stdout
        size = json.loads(kernel.run("import os; print(os.path.getsize(run.ranks[0].attempts[0].path('out')))").stdout)
        assert size == sum(len(f"line {n} ") for n in range(lines)) + lines * 86
        assert grown < 50 * 2**20
    finally:
        kernel.close()


def test_a_flood_takes_at_most_twice_what_a_file_takes() -> None:
    script(FLOOD.format(lines=200_000))
    launch("train.py", nproc_per_node=2)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    began = time.monotonic()
    with open("out", "wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=200)
    theirs = time.monotonic() - began
    began = time.monotonic()
    assert launch("train.py", nproc_per_node=2).ok
    assert time.monotonic() - began < 2 * theirs


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_many_launches_in_a_row(count: int) -> None:
    script(CONNECT + "dist.destroy_process_group()\n")
    files = len(os.listdir("/proc/self/fd"))
    assert all(launch("train.py", nproc_per_node=2, timeout=30).ok for _ in range(count))
    assert len(os.listdir("/proc/self/fd")) <= files + 2
    zombies = [p for p in psutil.Process().children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]
    assert zombies == []


@pytest.mark.parametrize("name", ["torch.py", "random.py", "json.py", "ddp_course.py"])
def test_a_module_of_the_learners_is_used_by_the_script_and_by_nothing_else(name: str) -> None:
    Path("shadows").mkdir()
    os.chdir("shadows")
    script("WHOSE = 'mine'\n", name)
    script(f"import {name[:-3]} as module\nprint(module.WHOSE)\n")
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}  # for the program itself, whose folder this is not
    code = "from ddp_course import launch; print([launch('train.py', warm=w).ranks[0].stdout for w in (True, False)])"
    command = [sys.executable, "-c", "import os; del os.environ['PYTHONSAFEPATH']; " + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "['mine\\n', 'mine\\n']\n", done.stderr


def test_a_server_that_cannot_start_says_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "no_such_log")
    with pytest.raises(LaunchError, match=r"(?s)environment variable.*no_such_log"):
        launch(script("print(1)\n"))
    monkeypatch.delenv("TORCH_LOGS")
    assert launch("train.py").ok


@pytest.mark.parametrize(("value", "threads"), [("4,2", "4\n"), ("soon", None)])
def test_any_omp_num_threads_will_do(value: str, threads: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    printed = launch(script("import torch\nprint(torch.get_num_threads())\n")).ranks[0].stdout
    assert printed == threads or (threads is None and int(printed) > 0)


def test_torchruns_options_in_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NNODES", "2")
    monkeypatch.setenv("PET_NO_PYTHON", "1")
    assert launch(script(CONNECT), nproc_per_node=2).ok


def test_a_deleted_current_folder_is_named() -> None:
    path = Path(script("print(1)\n")).resolve()
    Path("gone").mkdir()
    os.chdir("gone")
    os.rmdir("../gone")
    with pytest.raises(LaunchError, match="The current folder is gone"):
        launch(path)


def test_a_cell_takes_no_name_that_something_else_has() -> None:
    Path("cell.py").write_bytes(b"\xff\xfe not UTF-8")
    Path("cell2.py").mkdir()
    os.mkfifo("cell3.py")
    cell = CellScript("torchrun", "pass\n")
    cell.close()
    assert (cell.path, cell.path.read_text()) == (Path("cell4.py"), "# %%torchrun\npass\n")
    assert Path("cell.py").read_bytes() == b"\xff\xfe not UTF-8"


def test_a_launch_with_many_files_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    files = [open(os.devnull) for _ in range(1100)]
    try:
        assert launch(script("print(1)\n")).ranks[0].stdout == "1\n"
    finally:
        for file in files:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_any_step_may_be_reported() -> None:
    text = (
        "from ddp_course import report\nimport time\n"
        "for step in ('three', float('nan'), float('inf'), 10**400, [1], None, -1):\n"
        "    report(step=step, total=step)\n    time.sleep(0.05)\n"
    )
    run = launch(script(text))
    assert [one["step"] for one in run.reports][3:] == [10**400, [1], None, -1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys\nsys.stdout.close()\n", 0),
        ("import sys\nsys.stdout = None\n", 0),
        ("import sys\nsys.stdout = object()\n", 120),
        ("import sys\nsys.stderr.close()\nsys.exit('bye')\n", 1),
        ("import sys\nsys.stderr = None\nsys.exit('bye')\n", 1),
    ],
)
def test_exit_codes_are_pythons_own(text: str, code: int) -> None:
    pythons = subprocess.run([sys.executable, script(text)], capture_output=True).returncode
    assert (launch("train.py", check=False).ranks[0].exit_code, pythons) == (code, code)


@pytest.mark.parametrize("options", [{"nproc_per_node": 2.5}, {"nproc_per_node": 10**9}, {"timeout": "60"}])
def test_a_number_that_is_none_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match=f"--{next(iter(options)).replace('_', '-')}="):
        launch(script("print(1)\n"), **options)


def test_the_command_prints_the_lines_of_the_transcript_also_in_ascii() -> None:
    script("import sys\nsys.stderr.write('0%\\r99%\\n')\nprint('a\\u2028b')\n")
    command = [sys.executable, "-m", "ddp_course.cli", "run", "train.py"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True)
    lines = [r"rank 0 \u2502 a\u2028b", r"rank 0 stderr \u2502 99%", r"\u2713 1 rank finished"]
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")
