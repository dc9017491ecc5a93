"""The fault matrix: what learners, machines and operators do to a run, for real, and what must be true after.

`python tests/faults.py` prints it as a table (`--slow`: each fault warm and cold, the timing-sensitive ones
20 times). tests/test_faults.py runs the same faults one by one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from kernels import Kernel, Result, alive_in, sessions

PROGRAM = """\
import os, signal, subprocess, sys, threading, time
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])


def mark():
    open("fault", "w").write(str(time.time()))


dist.init_process_group()
dist.all_reduce(torch.ones(1))
print("before", flush=True)
{everywhere}
open(f"started-{{rank}}", "w").write(f"{{os.getpid()}} {{os.getppid()}}")
if rank == {rank}:
    {fault}
else:
    dist.all_reduce(torch.ones(1))
"""
HELLO = 'import os\nprint("hello", os.environ["RANK"])\n'
IGNORE = "for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)"
CHILD = 'subprocess.Popen(["sleep", "600"]); subprocess.Popen(["sleep", "600"], start_new_session=True)'
LOADER = "loader = iter(torch.utils.data.DataLoader(range(1000), num_workers=2, persistent_workers=True)); next(loader)"
STUCK = "time.sleep(600)"


@dataclass(frozen=True)
class Fault:
    """One fault: the program's lines or what is done to its processes, and what the run must then say.

    `seconds` is how soon the kernel must be idle again after the fault was noticed.
    """

    name: str
    fault: str = STUCK
    everywhere: str = "pass"
    action: Callable[[Scene], None] | None = None
    ranks: int = 3
    rank: int = 1
    kind: str | None = None
    culprits: list[int] | None = None
    timeout: float = 60
    seconds: float = 5.0
    interrupted: bool = False
    kernel_ends: bool = False
    program: str = PROGRAM
    nnodes: int = 1  # `ranks` are divided among them

    def source(self) -> str:
        return self.program.format(fault=self.fault, everywhere=self.everywhere, rank=self.rank)


@dataclass
class Outcome:
    """What was seen. `problems` is empty where everything was as it must be."""

    fault: Fault
    warm: bool
    back: float = 0.0
    gone: float = 0.0
    left: int = 0
    ports: int = 0
    kind: str | None = None
    culprits: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Scene:
    """A kernel in a folder of its own, and the sessions of every process its runs have had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernel = Kernel(folder)
        self.kernel.run("from ddp_course import launch; import json")
        self.sessions: set[int] = set()
        self.acted_at: float | None = None
        self._watching = True
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        while self._watching:
            try:
                self.sessions |= sessions(self.kernel.family()) - {os.getsid(self.kernel.pid)}
            except (psutil.Error, ProcessLookupError):
                pass
            time.sleep(0.03)

    def servers(self) -> list[psutil.Process]:
        """The kernel's own children. Agents and ranks that a server has forked have its command line too."""
        children = psutil.Process(self.kernel.pid).children()
        living = [p for p in children if p.status() != psutil.STATUS_ZOMBIE]
        return [p for p in living if "ddp_course.launcher.server" in " ".join(p.cmdline())]

    def left(self) -> list[int]:
        """What still lives of the runs. The servers may: they stay for the next run."""
        return alive_in(self.sessions - sessions(self.servers()))

    def started(self, ranks: int) -> list[tuple[int, int]]:
        """(pid, agent's pid) of each rank, once all have started."""
        pids = [self.kernel.wait_for_file(f"started-{rank}", 60).split() for rank in range(ranks)]
        return [(int(pid), int(parent)) for pid, parent in pids]

    def act(self) -> None:
        self.acted_at = time.time()

    def close(self) -> None:
        self._watching = False
        self._watcher.join()
        self.kernel.close()


def run_fault(fault: Fault, warm: bool, scene: Scene) -> Outcome:
    """Run `fault` in `scene` and look at everything the matrix asks for."""
    outcome = Outcome(fault, warm)
    for old in [*scene.folder.glob("*started*"), scene.folder / "fault", scene.folder / "go"]:
        old.unlink(missing_ok=True)
    (scene.folder / "program.py").write_text(fault.source())
    scene.sessions.clear()
    scene.acted_at = None
    scene.kernel.run("run = None")
    options = f"nproc_per_node={fault.ranks // fault.nnodes}, nnodes={fault.nnodes}"
    timeout = fault.timeout if warm else fault.timeout + 40  # cold ranks import torch first
    options += f", timeout={timeout}, warm={warm}, check=False"
    call = f"open('cell-started', 'w').write('x'); run = launch('program.py', {options})"
    message = scene.kernel.start(call)
    if fault.action:
        fault.action(scene)
    if fault.kernel_ends:
        _look_after_the_kernel(scene, outcome, limit=2.0)
        return outcome
    result = scene.kernel.wait(message, timeout + 60)
    ended = time.time()
    if fault.kind in ("hang", "stopped"):  # the limit counts from the agents' start, a little before the ranks'
        over = ended - timeout - min(path.stat().st_mtime for path in scene.folder.glob("started-*"))
        if over > fault.seconds:
            outcome.problems.append(f"{over:.1f} s over the time limit")
    outcome.back = ended - _noticed(scene, fault)
    if outcome.back > fault.seconds:
        outcome.problems.append(f"kernel back after {outcome.back:.1f} s")
    _look_at_processes(scene, outcome, ended)
    _look_at_run(scene, fault, result, outcome)
    (scene.folder / "hello.py").write_text(HELLO)
    hello = scene.kernel.run("print([rank.stdout for rank in launch('hello.py', nproc_per_node=2).ranks])")
    if hello.stdout != "['hello 0\\n', 'hello 1\\n']\n":
        outcome.problems.append(f"the next launch failed: {hello.stdout} {hello.traceback}")
    return outcome


def _noticed(scene: Scene, fault: Fault) -> float:
    """When the fault could be noticed first, in seconds since the epoch."""
    if fault.kind in ("hang", "stopped"):  # when the time was up, and the ranks were asked where they stand
        asked = "max(attempt.asked_ns for rank in run.ranks for attempt in rank.attempts)"
        return int(scene.kernel.run(f"print({asked})").stdout) / 1e9
    return scene.acted_at or float((scene.folder / "fault").read_text())


def _look_at_processes(scene: Scene, outcome: Outcome, ended: float) -> None:
    while (alive := scene.left()) and time.time() - ended < 5:
        time.sleep(0.02)
    outcome.gone = time.time() - ended
    outcome.left = len(alive)
    if outcome.left:
        outcome.problems.append(f"{outcome.left} processes left: {[psutil.Process(p).cmdline() for p in alive]}")
    family = {scene.kernel.pid, *(p.pid for p in scene.kernel.family()), *alive}
    own = set(scene.kernel.manager.ports) if hasattr(scene.kernel.manager, "ports") else set()
    listening = [
        c for c in psutil.net_connections("inet") if c.status == "LISTEN" and c.pid in family - {scene.kernel.pid}
    ]
    outcome.ports = len([c for c in listening if c.laddr.port not in own])
    if outcome.ports:
        outcome.problems.append(f"ports left: {[c.laddr.port for c in listening]}")


def _look_at_run(scene: Scene, fault: Fault, result: Result, outcome: Outcome) -> None:
    if fault.interrupted:
        if result.error not in ("LaunchInterrupted", "KeyboardInterrupt"):
            outcome.problems.append(f"expected an interrupted cell, got {result.error}: {result.traceback}")
        return
    if result.error:
        outcome.problems.append(f"the cell raised {result.error}: {result.traceback}")
        return
    shown = scene.kernel.run(
        "d = run.diagnosis\n"
        "print(json.dumps({'kind': d and d.kind, 'culprits': d and d.culprits, 'transcript': run.transcript,"
        " 'block': str(d), 'folder': run.folder.name}))"
    )
    if shown.error:
        outcome.problems.append(f"the run cannot be read: {shown.traceback}")
        return
    seen = json.loads(shown.stdout)
    outcome.kind, outcome.culprits = seen["kind"], seen["culprits"] or []
    if fault.kind and (outcome.kind, outcome.culprits) != (
        fault.kind,
        fault.culprits or [],
    ):
        outcome.problems.append(
            f"diagnosis {outcome.kind} {outcome.culprits}, expected {fault.kind} {fault.culprits}\n{seen['block']}"
        )
    if "before" in fault.source():
        lines = seen["transcript"].splitlines()
        for rank in range(fault.ranks):
            if lines.count(f"rank {rank} │ before") != 1:
                outcome.problems.append(f"rank {rank}'s line is not there once:\n{seen['transcript']}")


def _look_after_the_kernel(scene: Scene, outcome: Outcome, limit: float) -> None:
    began = time.time()
    while (alive := alive_in(scene.sessions)) and time.time() - began < limit:
        time.sleep(0.02)
    outcome.gone, outcome.left = time.time() - began, len(alive)
    if alive:
        outcome.problems.append(f"{len(alive)} processes outlive the kernel by {limit} s")


def _kill_agent(number: signal.Signals, ranks: int = 3, of: int = 0) -> Callable[[Scene], None]:
    """Send a signal to the agent that started rank `of`."""

    def action(scene: Scene) -> None:
        agent = scene.started(ranks)[of][1]
        scene.act()
        os.kill(agent, number)

    return action


def _kill_server(number: signal.Signals) -> Callable[[Scene], None]:
    def action(scene: Scene) -> None:
        scene.started(3)
        scene.act()
        for server in scene.servers():
            server.send_signal(number)

    return action


def _interrupt(after: float | None = None, ranks: int = 3) -> Callable[[Scene], None]:
    """Interrupt the kernel `after` seconds, or once all ranks have started."""

    def action(scene: Scene) -> None:
        if after is None:
            scene.started(ranks)
            time.sleep(0.2)
        else:
            scene.kernel.wait_for_file("cell-started")
            time.sleep(after)
        scene.act()
        scene.kernel.manager.interrupt_kernel()

    return action


def _end_kernel(how: str, ranks: int = 3) -> Callable[[Scene], None]:
    def action(scene: Scene) -> None:
        scene.started(ranks)
        time.sleep(0.1)
        if how == "SIGKILL":
            os.kill(scene.kernel.pid, signal.SIGKILL)
        elif how == "restart":
            scene.kernel.manager.restart_kernel(now=False)
        else:
            scene.kernel.manager.shutdown_kernel(now=False)

    return action


def _delete_folder(scene: Scene) -> None:
    import shutil

    scene.started(3)
    time.sleep(0.3)  # until the launcher has looked at every rank's file
    shutil.rmtree(scene.folder / ".ddp_course" / "runs")
    (scene.folder / "go").write_text("x")
    scene.act()


TWO_NODES: dict[str, Any] = {"ranks": 4, "nnodes": 2}
_WAIT_FOR_GO = "while not os.path.exists('go'): time.sleep(0.01)"

FAULTS = [
    Fault("raise", "mark(); raise ValueError('fault')", kind="exception", culprits=[1]),
    Fault("raise, rank 0 of 2", "mark(); raise ValueError('fault')", ranks=2, rank=0, kind="exception", culprits=[0]),
    Fault("raise, rank 3 of 4", "mark(); raise ValueError('fault')", ranks=4, rank=3, kind="exception", culprits=[3]),
    Fault("sys.exit(0)", "mark(); sys.exit(0)", kind="left_early", culprits=[1]),
    Fault("sys.exit(3)", "mark(); sys.exit(3)", rank=2, kind="exit_code", culprits=[2]),
    Fault("os._exit(0)", "mark(); os._exit(0)", rank=0, kind="left_early", culprits=[0]),
    Fault("os._exit(5)", "mark(); os._exit(5)", kind="exit_code", culprits=[1]),
    Fault("SIGKILL on a rank", "mark(); os.kill(os.getpid(), 9)", rank=2, kind="killed", culprits=[2]),
    Fault("SIGSEGV in a rank", "mark(); import ctypes; ctypes.string_at(0)", kind="native_crash", culprits=[1]),
    Fault("abort in a rank", "mark(); os.abort()", rank=0, kind="native_crash", culprits=[0]),
    Fault("SIGSTOP on a rank", "os.kill(os.getpid(), signal.SIGSTOP)", timeout=4, kind="hang", culprits=[1]),
    Fault("SIGKILL on the agent", action=_kill_agent(signal.SIGKILL), kind="agent_lost", culprits=[]),
    Fault("SIGSTOP on the agent", action=_kill_agent(signal.SIGSTOP), timeout=4, kind="stopped", culprits=[]),
    Fault("SIGTERM on the agent", action=_kill_agent(signal.SIGTERM), kind="terminated", culprits=[]),
    Fault("SIGKILL on the server", action=_kill_server(signal.SIGKILL), kind="agent_lost", culprits=[]),
    Fault("SIGTERM on the server", action=_kill_server(signal.SIGTERM), kind="agent_lost", culprits=[]),
    Fault("interrupt at once", action=_interrupt(0.0), interrupted=True, seconds=1.5),
    Fault("interrupt during the start", action=_interrupt(0.12), interrupted=True, seconds=1.5),
    Fault("interrupt in a stuck collective", action=_interrupt(), interrupted=True, seconds=1.5),
    Fault("interrupt, signals ignored", everywhere=IGNORE, action=_interrupt(), interrupted=True, seconds=1.5),
    Fault(
        "interrupt during the shutdown",
        "pass",
        "import atexit; atexit.register(time.sleep, 30)",
        action=_interrupt(),
        interrupted=True,
        seconds=1.5,
        program=PROGRAM.replace("else:\n    dist.all_reduce(torch.ones(1))\n", ""),
    ),
    Fault("kernel restart", action=_end_kernel("restart"), kernel_ends=True),
    Fault("kernel shutdown", action=_end_kernel("shutdown"), kernel_ends=True),
    Fault("kernel SIGKILL", action=_end_kernel("SIGKILL"), kernel_ends=True),
    Fault("kernel SIGKILL, signals ignored", everywhere=IGNORE, action=_end_kernel("SIGKILL"), kernel_ends=True),
    Fault(
        "raise while others ignore signals",
        "mark(); raise ValueError('fault')",
        f"{IGNORE}\nif rank != 1: open(f'started-{{rank}}', 'w').write('0 0'); time.sleep(600)".replace(
            "{{", "{"
        ).replace("}}", "}"),
        seconds=10,
        kind="exception",
        culprits=[1],
    ),
    Fault("raise with subprocesses", "mark(); raise ValueError('fault')", CHILD, kind="exception", culprits=[1]),
    Fault("raise with DataLoader workers", "mark(); raise ValueError('fault')", LOADER, kind="exception", culprits=[1]),
    Fault("interrupt with subprocesses", everywhere=CHILD, action=_interrupt(), interrupted=True, seconds=1.5),
    Fault("interrupt with DataLoader workers", everywhere=LOADER, action=_interrupt(), interrupted=True, seconds=1.5),
    Fault("endless loop", "while True: pass", timeout=4, kind="hang", culprits=[1]),
    Fault("asleep", "time.sleep(600)", timeout=4, rank=0, kind="hang", culprits=[0]),
    Fault("another collective", "dist.barrier()", timeout=4, kind="hang", culprits=[1]),
    Fault(
        "memory limit",
        "mark(); import resource; resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); bytearray(2**33)",
        kind="out_of_memory",
        culprits=[1],
    ),
    Fault(
        "run folder deleted",
        f"{_WAIT_FOR_GO}\n    raise ValueError('fault')",
        action=_delete_folder,
        kind="run_folder_deleted",
        culprits=[],
    ),
    Fault("raise on node 1", "mark(); raise ValueError('fault')", rank=3, kind="exception", culprits=[3], **TWO_NODES),
    Fault(
        "raise on node 1, node 0 notices nothing",
        "mark(); raise ValueError('fault')",
        rank=3,
        kind="exception",
        culprits=[3],
        program=PROGRAM.replace("else:\n    dist.all_reduce(torch.ones(1))\n", f"else:\n    {STUCK}\n"),
        **TWO_NODES,
    ),
    Fault("asleep on node 1", rank=2, timeout=4, kind="hang", culprits=[2], **TWO_NODES),
    Fault(
        "SIGKILL on node 1's agent",
        action=_kill_agent(signal.SIGKILL, 4, of=2),
        kind="agent_lost",
        culprits=[],
        **TWO_NODES,
    ),
    Fault(
        "SIGTERM on node 1's agent",
        action=_kill_agent(signal.SIGTERM, 4, of=2),
        kind="terminated",
        culprits=[],
        **TWO_NODES,
    ),
    Fault(
        "SIGKILL on node 0's agent",
        action=_kill_agent(signal.SIGKILL, 4, of=0),
        kind="agent_lost",
        culprits=[],
        **TWO_NODES,
    ),
    Fault("interrupt of two nodes", action=_interrupt(ranks=4), interrupted=True, seconds=1.5, **TWO_NODES),
    Fault("kernel SIGKILL, two nodes", action=_end_kernel("SIGKILL", 4), kernel_ends=True, **TWO_NODES),
]
TIMING_SENSITIVE = [f for f in FAULTS if f.interrupted or f.kernel_ends or "SIG" in f.name]


def main() -> None:
    slow = "--slow" in sys.argv
    only = [word for word in sys.argv[1:] if not word.startswith("-")]
    bad = total = 0
    print(f"{'fault':<40} ranks start  kernel back  left ports  diagnosis")
    for fault in [f for f in FAULTS if not only or f.name in only]:
        for warm in (True, False) if "--warm" not in sys.argv else (True,):
            for _ in range(20 if slow and warm and fault in TIMING_SENSITIVE else 1):
                with tempfile.TemporaryDirectory() as folder:
                    scene = Scene(Path(folder))
                    try:
                        seen = run_fault(fault, warm, scene)
                    finally:
                        scene.close()
                total += 1
                bad += bool(seen.problems)
                back = "ended" if fault.kernel_ends else f"{seen.back:.2f} s"
                who = f"{seen.kind} {seen.culprits}" if seen.kind else "interrupted" if fault.interrupted else "–"
                print(
                    f"{fault.name:<40} {fault.ranks:>5} {'warm' if warm else 'cold':<6} {back:>10}  {seen.left:>4} "
                    f"{seen.ports:>5}  {who}" + ("  " + "; ".join(seen.problems) if seen.problems else ""),
                    flush=True,
                )
    print(f"{total} faults, {bad} with problems")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
