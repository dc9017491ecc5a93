"""`launch()`: options in, a run out. The magic and `ddp-course run` are this function with a view."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from ddp_course.errors import LaunchError, LaunchInterrupted
from ddp_course.launcher import agent, client, evidence, processes, transcript
from ddp_course.launcher.folders import RunFolder
from ddp_course.launcher.interrupts import Interrupts
from ddp_course.launcher.live import Live
from ddp_course.launcher.options import Options, parse, parser
from ddp_course.launcher.run import Ranks, Run
from ddp_course.launcher.views import Terminal, notebook_view

_TICK = 0.02  # seconds between two looks at what the ranks wrote
_GRACE = 0.7  # seconds a stopped run has to end by itself


def launch(
    script: str | Path,
    *args: object,
    nproc_per_node: int | str = 1,
    max_restarts: int = 0,
    timeout: float = 120.0,
    backend: str = "auto",
    warm: bool | None = None,
    check: bool = True,
) -> Run:
    """Start `script` with `args` on `nproc_per_node` ranks of this machine, as torchrun does, and wait.

    `timeout` is in seconds. `backend` auto leaves the GPUs visible where each rank has one, and hides them
    otherwise, so that the script's process group uses gloo. `warm=False` starts every process anew.
    Raises LaunchError where the run cannot start, and where it failed unless `check` is False.
    Raises KeyboardInterrupt after an interrupt, when every process of the run has ended.
    """
    options = Options(str(script), tuple(map(str, args)), nproc_per_node, max_restarts, timeout, backend)
    run = start(options, view=notebook_view(show_transcript=False), warm=warm)
    diagnosis = run.diagnosis  # now, while its files and the script are as they were
    if diagnosis and check:
        if not run.ok:
            raise LaunchError(str(diagnosis), run)
        print(diagnosis, file=sys.stderr)
    return run


class View(Protocol):
    """Something that shows a run while it lasts."""

    def update(self, live: Live) -> None:
        """Called at every look; the view decides how often it shows something new."""

    def close(self, run: Run) -> None:
        """Called once, when the run has ended."""

    def drop(self) -> None:
        """Called instead of `close` where nothing was started."""


def start(options: Options, view: View | None, warm: bool | None = None) -> Run:
    """Run `options` and wait for the end, showing it in `view`. Raises LaunchError only where nothing started."""
    options.check()
    warm = client.can_fork() if warm is None else warm
    with Interrupts() as interrupts:
        folder = RunFolder()
        try:
            run = _Launch(options, folder.path, view, warm, interrupts).run()
        finally:
            folder.close()
    if run.outcome == "interrupted":
        raise LaunchInterrupted
    return run


class _Launch:
    def __init__(self, options: Options, folder: Path, view: View | None, warm: bool, interrupts: Interrupts) -> None:
        self._live = Live(options, folder)
        self._view = view
        self._options = options
        self._folder = folder
        self._interrupts = interrupts
        self._buffer = b""
        self._warm = warm
        self._socket = client.open_run(warm)
        self._news = select.poll()  # select.select() takes no file descriptor above 1023
        self._news.register(self._socket, select.POLLIN)

    def run(self) -> Run:
        outcome = "lost"
        try:
            self._request(do="start", agents=[self._job()])
            outcome = self._watch()
            if outcome == "lost" and self._live.started is None:
                if self._view:
                    self._view.drop()
                raise client.ended_early(self._warm)
            if outcome == "timeout":
                evidence.collect(rank.record.attempts[-1] for rank in self._live.ranks if rank.record.attempts)
        finally:
            self._stop(_GRACE if outcome == "interrupted" else 0.0)
            self._socket.close()
        run = self._finish(outcome)
        if self._view:
            self._view.close(run)
        for rank in run.ranks:
            for attempt in rank.attempts:
                attempt.close()
        return run

    def _job(self) -> dict[str, Any]:
        # PET_… are torchrun's options by another way: --nnodes and the like, for which the job's own are the answer.
        env = {name: value for name, value in client.environment().items() if not name.startswith("PET_")}
        env.update({"DDP_COURSE_RUN_FOLDER": str(self._folder), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"})
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        env.setdefault("GLOO_SOCKET_IFNAME", loopback)
        env.setdefault("NCCL_SOCKET_IFNAME", loopback)
        env.setdefault("KINETO_LOG_LEVEL", "99")  # else each use of the profiler writes the time to stderr
        if self._options.hides_gpus:
            env["CUDA_VISIBLE_DEVICES"] = ""
        return {
            "arguments": self._options.agent_arguments(self._folder.name, self._folder),
            "env": env,
            "cwd": str(Path.cwd()),
            "log": str(self._folder / "agent.log"),
        }

    def _request(self, **request: Any) -> None:
        try:
            self._socket.sendall((json.dumps(request) + "\n").encode())
        except OSError:
            pass  # the server is gone; the next read says so

    def _watch(self) -> str:
        """Until the run has ended or its time is up. Returns the outcome."""
        while not self._live.overdue():
            if self._interrupts.pending:
                return "interrupted"
            if not self._events(_TICK):
                code = self._live.agent_exit
                if code is None or code < 0 or code >= agent.SIGNALLED:
                    return "lost"
                return "failed" if code else "finished"
            for rank in self._live.ranks:
                rank.poll()
            if self._view:
                self._view.update(self._live)
        return "timeout"

    def _events(self, seconds: float) -> bool:
        """Take in what the server tells within `seconds`. False when it has told everything."""
        if not self._news.poll(seconds * 1000):
            return True
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._live.event(json.loads(line))
        return bool(data)

    def _stop(self, grace: float) -> None:
        """End every process of the run: ask, kill after `grace` seconds, without the server if it is silent."""
        if self._live.started is None:
            return  # nothing runs; the server finds the socket closed and starts nothing
        self._request(do="stop", grace=grace)
        deadline = time.monotonic() + grace + 3
        while time.monotonic() < deadline and self._events(0.1):
            pass
        processes.end_sessions(self._live.sessions, self._live.began_at)

    def _finish(self, outcome: str) -> Run:
        live = self._live
        ranks = [rank.record for rank in live.ranks]
        run = Run(
            command=self._options.command,
            folder=self._folder,
            cwd=Path.cwd(),
            script=Path(self._options.script).resolve(),
            ranks=Ranks(ranks),
            outcome=outcome,
            seconds=time.monotonic() - live.began,
            timeout=self._options.timeout,
            agent_exit=live.agent_exit,
        )
        ended = f"✓ {_count(len(ranks))} finished" if run.ok else f"✗ {_ENDED[outcome]}"
        run.transcript = transcript.transcript(run.command, ranks, run.cwd, ended, hide_tracebacks=not run.ok)
        return run


_ENDED = {
    "failed": "the run failed",
    "timeout": "the run was ended at its time limit",
    "interrupted": "the run was stopped",
    "lost": "the run lost the process that watched it",
}


def _count(ranks: int) -> str:
    return f"{ranks} rank" + "s" * (ranks != 1)


def main(argv: list[str]) -> int:
    """`ddp-course run`: exit code 0 where every rank ended with 0, 1 where not, 2 for a wrong command line."""
    options_parser = parser("ddp-course run")
    options_parser.add_argument("script", metavar="SCRIPT", help="the training script")
    options_parser.add_argument("args", nargs="...", metavar="ARGS", help="the script's own arguments")
    try:
        given = parse(options_parser, argv)
        options = Options(
            given.script,
            tuple(given.args),
            given.nproc_per_node,
            given.max_restarts,
            given.timeout,
            given.backend,
        )
        run = start(options, view=Terminal())
    except LaunchError as error:
        print(f"ddp-course run: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who read the output has left, as in `ddp-course run … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("\nddp-course run: stopped; no process of the run is left", file=sys.stderr)
        return 130
    if run.diagnosis:
        print(run.diagnosis, file=sys.stderr)
    return 0 if run.ok else 1
