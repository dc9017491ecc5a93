"""`launch()`: options in, a run out. The magic and `ddp-course run` are this function with a view."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ddp_course.cluster import srun
from ddp_course.errors import LaunchError, LaunchInterrupted
from ddp_course.launcher import client, processes, transcript, worker
from ddp_course.launcher.folders import RunFolder
from ddp_course.launcher.interrupts import Interrupts
from ddp_course.launcher.live import Live
from ddp_course.launcher.nodes import Host, Job, Nodes
from ddp_course.launcher.options import Options, parse, parser
from ddp_course.launcher.run import Attempt, Ranks, Run
from ddp_course.launcher.views import Terminal, notebook_view

_TICK = 0.02  # seconds between two looks at what the ranks wrote
_GRACE = 0.7  # seconds a stopped run has to end by itself
_PATIENCE = 2.0  # seconds that the other nodes have to end by themselves, once one has ended and they cannot go on


def launch(
    script: str | Path,
    *args: object,
    nproc_per_node: int | str = 1,
    max_restarts: int = 0,
    timeout: float = 120.0,
    backend: str = "auto",
    nnodes: int | str = 1,
    node_rank: int | None = None,
    rdzv_backend: str | None = None,
    rdzv_endpoint: str | None = None,
    rdzv_id: str | None = None,
    rdzv_conf: str = "",
    master_addr: str | None = None,
    master_port: int | None = None,
    return_after: float | None = None,
    hosts: Sequence[Host] = (),
    slurm: bool | str = False,
    warm: bool | None = None,
    check: bool = True,
) -> Run:
    """Start `script` with `args` on `nproc_per_node` ranks of this machine, as torchrun does, and wait.

    `nnodes` agents are started, each with that many ranks, and meet as on several hosts: a number, or "MIN:MAX" for a
    run that goes on with fewer; `return_after` seconds later a lost one comes back, once. With `node_rank` or
    `rdzv_endpoint` only one agent is started, as torchrun would, and meets others. The names are torchrun's. `hosts`
    puts each agent on a host of its own (`ddp_course.two_hosts`). `slurm` starts them on the nodes of a SLURM cluster,
    in a job of their own: True, or the name of a partition.
    `timeout` is in seconds. `backend` auto leaves the GPUs visible where each rank has one, and hides them
    otherwise, so that the script's process group uses gloo. `warm=False` starts every process anew.
    Raises LaunchError where the run cannot start, and where it failed unless `check` is False.
    Raises KeyboardInterrupt after an interrupt, when every process of the run has ended.
    """
    nodes = Nodes(
        nnodes,
        node_rank,
        rdzv_backend,
        rdzv_endpoint,
        rdzv_id,
        rdzv_conf,
        master_addr,
        master_port,
        return_after,
        tuple(hosts) if isinstance(hosts, (list, tuple)) else (hosts,),  # type: ignore[arg-type]
    )
    options = Options(str(script), tuple(map(str, args)), nproc_per_node, max_restarts, timeout, backend, nodes)
    if not isinstance(slurm, (bool, str)):
        raise LaunchError(f"slurm={slurm!r}: give True, or the name of a partition.")
    if slurm is not False:
        options = options.under_slurm("" if slurm is True else slurm)
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
    # A host is entered by a program; and a store that other machines reach runs in a thread of the agent.
    apart = bool(options.nodes.hosts) or not options.nodes.on_loopback
    warm = (client.can_fork() if warm is None else warm) and not apart
    with Interrupts() as interrupts:
        folder = RunFolder()
        try:
            agents = srun.Agents(options, folder.path) if options.slurm is not None else client.Agents(warm)
            run = _Launch(options, folder.path, view, agents, interrupts).run()
        finally:
            folder.close()
    if run.outcome == "interrupted":
        raise LaunchInterrupted
    return run


class Agents(Protocol):
    """Something that starts a node's agent, tells what it says, and ends it."""

    def start(self, jobs: list[Job]) -> None:
        """Start an agent for each job. What becomes of it is told by `events`."""

    def events(self, seconds: float) -> list[dict[str, Any]] | None:
        """What has happened, waiting at most `seconds` for something. None when all has been told."""

    def evidence(self, attempts: list[Attempt]) -> list[Attempt]:
        """Have the ranks that still run write down where they stand. Returns those of which `events` will tell it."""

    def stop(self, grace: float) -> None:
        """Ask the agents to end, and kill what is left after `grace` seconds (0: at once). Returns at once."""

    def close(self) -> None:
        """The run has ended. What still lives of it is killed."""

    def ended_early(self) -> LaunchError:
        """What to say where all ended before any agent was started."""


class _Launch:
    def __init__(self, options: Options, folder: Path, view: View | None, agents: Agents, interrupts: Interrupts):
        self._live = Live(options, folder)
        self._view = view
        self._options = options
        self._folder = folder
        self._interrupts = interrupts
        self._agents = agents

    def run(self) -> Run:
        outcome, agents, stopped = "lost", {}, []
        try:
            self._agents.start([self._job(node) for node in self._options.nodes.here])
            outcome = self._watch()
            agents = dict(self._live.agents)  # before those that are left are ended
            if outcome == "lost" and self._live.started is None:
                if self._view:
                    self._view.drop()
                raise self._agents.ended_early()
            if outcome == "timeout":
                stopped = self._live.stopped_agents()
                self._ask()
        finally:
            self._stop(_GRACE if outcome == "interrupted" else 0.0)
            self._agents.close()
        run = self._finish(outcome, agents, stopped)
        if self._view:
            self._view.close(run)
        for rank in run.ranks:
            for attempt in rank.attempts:
                attempt.close()
        return run

    def _ask(self) -> None:
        running = [rank.record.attempts[-1] for rank in self._live.ranks if rank.record.attempts]
        asked = self._agents.evidence(running)
        deadline = time.monotonic() + _PATIENCE
        while (
            any(one.exit_code is None and not one.asked_ns for one in asked)
            and time.monotonic() < deadline
            and self._events(0.05)
        ):
            pass

    def _job(self, node: int) -> Job:
        folder = self._live.folder_of(node)
        folder.mkdir(mode=0o700, exist_ok=True)
        # PET_… are torchrun's options by another way: --nnodes and the like, for which the job's own are the answer.
        env = {name: value for name, value in client.environment().items() if not name.startswith("PET_")}
        env.update({worker.FOLDER_VARIABLE: str(folder), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"})
        if self._options.nodes.on_loopback:
            loopback = "lo0" if sys.platform == "darwin" else "lo"
            env.setdefault("GLOO_SOCKET_IFNAME", loopback)
            env.setdefault("NCCL_SOCKET_IFNAME", loopback)
        env.setdefault("KINETO_LOG_LEVEL", "99")  # else each use of the profiler writes the time to stderr
        if (gpus := self._options.visible_gpus(node)) is not None:
            env["CUDA_VISIBLE_DEVICES"] = gpus
        hosts = self._options.nodes.hosts
        enter = hosts[node].enter if hosts else ()
        arguments = self._options.agent_arguments(node, self._folder.name, folder)
        return Job(node, arguments, env, str(Path.cwd()), str(folder / "agent.log"), enter)

    def _watch(self) -> str:
        """Until the run has ended or its time is up. Returns the outcome."""
        live = self._live
        while not live.overdue():
            if self._interrupts.pending:
                return "interrupted"
            if not self._events(_TICK):
                return live.outcome()
            if live.cannot_go_on() > _PATIENCE:
                return live.outcome()
            if back := live.returning():
                self._agents.start([self._job(node) for node in back])
            for rank in live.ranks:
                rank.poll()
            if self._view:
                self._view.update(live)
        return "timeout"

    def _events(self, seconds: float) -> bool:
        """Take in what is told within `seconds`. False when everything has been."""
        told = self._agents.events(seconds)
        for event in told or ():
            self._live.event(event)
        return told is not None

    def _stop(self, grace: float) -> None:
        """End every process of the run: ask, kill after `grace` seconds, also where nobody answers."""
        if self._live.started is None:
            return  # nothing runs; the server finds the socket closed and starts nothing
        self._agents.stop(grace)
        deadline = time.monotonic() + grace + 3
        while time.monotonic() < deadline and self._events(0.1):
            pass
        processes.end_sessions(self._live.sessions, self._live.began_at)

    def _finish(self, outcome: str, agents: dict[int, int | None], stopped: list[int]) -> Run:
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
            nodes=self._options.nodes,
            agents=agents,
            stopped_agents=stopped,
        )
        ended = f"✓ {_finished(run, self._options.nodes.several)}" if run.ok else f"✗ {_ENDED[outcome]}"
        run.transcript = transcript.transcript(
            self._options.commands, ranks, run.cwd, ended, hide_tracebacks=not run.ok
        )
        return run


_ENDED = {
    "failed": "the run failed",
    "timeout": "the run was ended at its time limit",
    "interrupted": "the run was stopped",
    "lost": "the run lost the process that watched it",
}


def _finished(run: Run, several: bool) -> str:
    ranks = run.last_attempt
    said = _count(len(ranks), "rank")
    if several:
        said += f" on {_count(len({rank.node for rank in ranks}), 'node')}"
    return f"{said} finished"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def main(argv: list[str]) -> int:
    """`ddp-course run`: exit code 0 where every rank ended with 0, 1 where not, 2 for a wrong command line."""
    options_parser = parser("ddp-course run")
    options_parser.add_argument("script", metavar="SCRIPT", help="the training script")
    rest = options_parser.add_argument("args", nargs="...", metavar="ARGS", help="the script's own arguments")
    rest.required = False
    try:
        given = parse(options_parser, argv)
        options = Options.parsed(given, given.script, given.args)
        run = start(options, view=Terminal())
    except LaunchError as error:
        prefix = "" if str(error).startswith(options_parser.prog) else f"{options_parser.prog}: "
        print(f"{prefix}{error}", file=sys.stderr)
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
