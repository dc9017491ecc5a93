"""Cells on a SLURM cluster: srun starts the agents of a run, one on each node of a job of its own.

srun gives what is written to it to the program on every node (`ddp_course.cluster.node`), and writes what those write:
requests and events go that way. The ranks' files are in the run's folder, which all nodes must share.
"""

from __future__ import annotations

import math
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_course.cluster.submit import answers
from ddp_course.errors import LaunchError
from ddp_course.launcher import client, processes
from ddp_course.launcher.nodes import Host, Job, Nodes

if TYPE_CHECKING:
    from ddp_course.launcher.options import Options
    from ddp_course.launcher.run import Attempt

FIRST_NODE = "FIRST_NODE"  # stands for its name until the job has nodes
_ON_THE_NODE = {FIRST_NODE: "$(scontrol show hostnames | head -n 1)", "--node-rank=0": "--node-rank=$SLURM_NODEID"}
_OF_THE_NODE = ("--node-rank=", "--master-addr=", "--rdzv-endpoint=")  # options whose value only a node knows
_NOT_HERE = ("node_rank", "rdzv_endpoint", "master_addr", "master_port", "return_after")
_LOGIN = "Start JupyterLab on the cluster's login node, or leave --slurm out: all nodes then start here."
_NO_CLUSTER = (
    "--slurm: SLURM is installed, but no cluster answers: this machine belongs to none, or its cluster is down. "
    f"{_LOGIN}"
)
_NEVER = {  # squeue's reasons for a job that waits without end
    "PartitionDown": "partition {partition} is down: no job starts there until the cluster's administrators set it up "
    "again. Give another --partition (sinfo lists them), or leave --slurm out: all nodes then start here.",
    "PartitionTimeLimit": "in partition {partition} a job may last {limit}, and this one asks for {asked}: its "
    "--timeout and two minutes to end. Give a shorter --timeout, or another --partition (sinfo lists them).",
}
_LONGEST = 365 * 24 * 60  # minutes: who asks for more asks for no limit, and SLURM counts no further than 68 years
_PATIENCE = 5.0  # seconds srun has to end
_QUEUE_SECONDS = 2.0  # between two looks at the queue


def hosts(nodes: Nodes) -> tuple[Host, ...]:
    """A host for each node of a job that does not exist yet. Raises LaunchError where hosts are given."""
    if nodes.hosts:
        raise LaunchError("hosts= with slurm=: SLURM chooses the hosts of a job. Leave one of the two out.")
    return tuple(Host(FIRST_NODE, ()) for _ in range(nodes.most))


def check(options: Options) -> None:
    """Raise LaunchError where `options` cannot run under SLURM, or there is none."""
    if given := [name for name in _NOT_HERE if getattr(options.nodes, name) is not None]:
        words = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise LaunchError(
            "--slurm starts an agent on each of --nnodes=N nodes, once, and tells them where to meet, at a port that "
            f"no other job has. Leave {words} out."
        )
    if options.nodes.elastic:
        raise LaunchError(
            f"--nnodes={options.nodes.nnodes} with --slurm: a job has as many nodes as it asks for, and "
            "waits for all of them. Please give --nnodes one number."
        )
    if not shutil.which("srun"):
        raise LaunchError(
            "--slurm: there is no srun on PATH, so this machine belongs to no SLURM cluster, or its module is not "
            f"loaded. {_LOGIN}"
        )


def line(options: Options) -> str:
    """What starts the same ranks from a terminal on the cluster."""
    words = options.nodes.words(0)
    rest = [f"--nproc-per-node={options.nproc}"]
    rest += [f"--max-restarts={options.max_restarts}"] * bool(options.max_restarts)
    torchrun = " ".join(["torchrun", *map(_in_bash, words), shlex.join([*rest, options.script, *options.args])])
    if any(word.startswith(_OF_THE_NODE) for word in words):
        torchrun = f"bash -c {shlex.quote(torchrun)}"
    return f"{'CUDA_VISIBLE_DEVICES= ' * options.hides_gpus}{shlex.join(_srun(options))} {torchrun}"


def _in_bash(word: str) -> str:
    """An option of torchrun for a shell on a node, which fills in what only the node knows."""
    if not word.startswith(_OF_THE_NODE):
        return shlex.quote(word)
    for ours, theirs in _ON_THE_NODE.items():
        word = word.replace(ours, theirs)
    return word


def _srun(options: Options) -> list[str]:
    """A task on each node, and a core, where there are GPUs also a GPU, for each of its ranks."""
    words = ["srun", f"--nodes={options.nodes.most}", "--ntasks-per-node=1", f"--cpus-per-task={options.nproc}"]
    partition = [f"--partition={options.slurm}"] * bool(options.slurm)
    gpus = [f"--gpus-per-node={options.nproc}"] * (not options.hides_gpus and _has_gpus(tuple(partition)))
    return [*words, *gpus, *partition]


@cache
def _has_gpus(partition: tuple[str, ...]) -> bool:
    """Whether SLURM has GPUs to give."""
    words = ["sinfo", "--noheader", "--format=%G", *partition]
    try:
        return "gpu" in subprocess.run(words, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False  # srun will say what is wrong


class Agents(client.Channel):
    """The agents of one run, in a job of its own."""

    def __init__(self, options: Options, folder: Path) -> None:
        self._env = _environment()
        self._name = f"ddp-course-{secrets.token_hex(4)}"
        self._log = folder / "srun.log"
        self._look = time.monotonic() + 0.5  # when to look next whether the job is still in the queue
        self._refusal = ""  # why SLURM never starts the job, though it takes it
        minutes = options.timeout / 60 + 2  # SLURM's own limit, should nobody be left to end the job
        limit = "UNLIMITED" if minutes > _LONGEST else str(math.ceil(minutes))
        request = [*_srun(options), f"--job-name={self._name}", f"--time={limit}"]
        done = subprocess.run([*request, "--test-only", "true"], env=self._env, capture_output=True, text=True)
        if done.returncode:  # such a job could stay in the queue for ever
            refused = "SLURM does not take the job." if answers() else _NO_CLUSTER
            raise LaunchError(f"{refused} It says:\n{done.stderr.strip()}")
        ours, theirs = socket.socketpair()
        with theirs, open(self._log, "wb") as log:
            self._srun = subprocess.Popen(
                [
                    *processes.program("ddp_course.cluster.bound"),
                    str(os.getpid()),
                    *request,
                    "--quiet",
                    *processes.program("ddp_course.cluster.node"),
                ],
                env=self._env,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=log,
                start_new_session=True,  # an interrupt is for the notebook
            )
        super().__init__(ours)

    def start(self, jobs: list[Job]) -> None:
        # A node has this environment from srun, with what SLURM says of the node.
        own = [{name: value for name, value in job.env.items() if self._env.get(name) != value} for job in jobs]
        super().start([replace(job, env=env) for job, env in zip(jobs, own, strict=True)])

    def events(self, seconds: float) -> list[dict[str, Any]] | None:
        told = super().events(seconds)
        if told:
            self._look = math.inf
        elif told == [] and time.monotonic() >= self._look:
            self._look = time.monotonic() + _QUEUE_SECONDS
            return self._queue()
        return told

    def _queue(self) -> list[dict[str, Any]] | None:
        """Why the job waits, if it does. None where that is without end."""
        words = ["squeue", "--noheader", "--states=PENDING", "--format=%r|%P|%l", f"--name={self._name}"]
        said = subprocess.run(words, capture_output=True, text=True).stdout.strip()
        reason, partition, asked = said.rsplit("|", 2) if said else ("None", "", "")
        if reason in _NEVER and "," not in partition:  # of several, another may take it
            words = ["sinfo", "--noheader", "--format=%l", f"--partition={partition}"]
            limit = subprocess.run(words, capture_output=True, text=True).stdout.strip()
            self._refusal = _NEVER[reason].format(partition=partition, asked=asked, limit=limit)
            return None
        return [{"event": "queue", "reason": reason}] * (reason != "None")  # SLURM's word until it has looked

    def stop(self, grace: float) -> None:
        super().stop(grace)
        if grace:
            self._cancel()

    def evidence(self, attempts: list[Attempt]) -> list[Attempt]:
        self._request(do="evidence")
        return attempts

    def close(self) -> None:
        super().close()
        try:
            self._srun.wait(1.0)
        except subprocess.TimeoutExpired:  # it waits in the queue, or for a node that does not answer
            self._cancel()
            try:
                self._srun.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._srun.kill()
                self._srun.wait()

    def _cancel(self) -> None:
        subprocess.run(["scancel", f"--name={self._name}"], capture_output=True, timeout=30)

    def ended_early(self) -> LaunchError:
        if self._refusal:
            return LaunchError(f"SLURM cannot start the job: {self._refusal}")
        words = self._log.read_text(errors="replace").strip()
        return LaunchError(f"SLURM started no agent. It says:\n{words or 'nothing'}")


def _environment() -> dict[str, str]:
    """A terminal's. Where this notebook is itself in a job, nothing of that one: the run gets a job of its own."""
    env = {name: value for name, value in client.environment().items() if not name.startswith("PET_")}
    if "SLURM_JOB_ID" in env:
        env = {k: v for k, v in env.items() if not k.startswith(("SLURM", "SRUN_")) or k == "SLURM_CONF"}
    return env
