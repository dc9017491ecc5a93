"""Scripts, folders and machines that are not as one wishes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from kernels import Kernel

from ddp_course import LaunchError, launch

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
