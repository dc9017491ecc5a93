"""A real notebook kernel for tests, and a count of the processes that its runs leave behind."""

from __future__ import annotations

import os
import queue
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager


class Kernel:
    """An IPython kernel in `folder`, as JupyterLab starts it, with `%load_ext ddp_course` done."""

    def __init__(self, folder: Path, panel: bool = False) -> None:
        env = {**os.environ, "DDP_COURSE_PANEL": "on" if panel else "off"}
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env=env, stderr=subprocess.DEVNULL)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.folder = folder
        self.run("%load_ext ddp_course")

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    def start(self, code: str) -> str:
        """Send a cell without waiting for it. Returns its message id."""
        return str(self.client.execute(code))

    def wait(self, message: str, timeout: float = 60) -> Result:
        """Everything the cell showed, once the kernel is idle again. Raises queue.Empty where that takes longer."""
        result = Result()
        deadline = time.monotonic() + timeout
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise queue.Empty
            reply = self.client.get_iopub_msg(timeout=remaining)
            if reply["parent_header"].get("msg_id") != message:
                continue
            kind, content = reply["msg_type"], reply["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return result
            result.take(kind, content)

    def run(self, code: str, timeout: float = 60) -> Result:
        return self.wait(self.start(code), timeout)

    def wait_for_file(self, name: str, timeout: float = 30) -> str:
        """The content of a file that a rank writes, once it is there."""
        path = self.folder / name
        deadline = time.monotonic() + timeout
        while not path.exists() or not path.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {name} after {timeout} s")
            time.sleep(0.01)
        return path.read_text()

    def family(self) -> list[psutil.Process]:
        """Every process the kernel started, and theirs."""
        return psutil.Process(self.pid).children(recursive=True)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Result:
    """What a cell showed: `stdout`, `stderr`, displayed texts, and the error's name and rendered lines."""

    def __init__(self) -> None:
        self.stdout = ""
        self.stderr = ""
        self.displays: list[dict[str, Any]] = []
        self.error: str | None = None
        self.traceback = ""
        self.messages = 0

    def take(self, kind: str, content: dict[str, Any]) -> None:
        self.messages += 1
        if kind == "stream":
            setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
        elif kind in ("display_data", "update_display_data", "execute_result"):
            self.displays.append(content["data"])
        elif kind == "error":
            self.error = content["ename"]
            self.traceback = "\n".join(content["traceback"])


def sessions(processes: list[psutil.Process]) -> set[int]:
    """The sessions these processes are in, without the test's own."""
    found = set()
    for process in processes:
        try:
            found.add(os.getsid(process.pid))
        except ProcessLookupError:
            continue
    return found - {os.getsid(0)}


def alive_in(session_ids: set[int]) -> list[int]:
    """The pids of living (not zombie) processes in these sessions."""
    alive = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in session_ids and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return alive


def wait_until_gone(session_ids: set[int], seconds: float) -> float:
    """Seconds until no process of these sessions lives; AssertionError after `seconds`."""
    began = time.monotonic()
    while alive := alive_in(session_ids):
        took = time.monotonic() - began
        assert took < seconds, f"still alive after {seconds} s: {[psutil.Process(p).cmdline() for p in alive]}"
        time.sleep(0.02)
    return time.monotonic() - began
