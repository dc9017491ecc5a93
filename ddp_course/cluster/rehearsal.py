"""A job script tried without a cluster. bash runs it as SLURM would on the job's first node, but srun starts its tasks
here, and torchrun only writes down with which words it was started, and on which node.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NODES = ("gpu07", "gpu11", "gpu12", "gpu20")  # what the cluster that is not there calls its nodes
_SECONDS = 3.0

# What the script finds under each of these names, which it gets as its first argument.
_NAMES = ("srun", "torchrun", "scontrol", "hostname", "python", "python3")
_COMMANDS = ("torchrun", "python", "python3", "bash", "sh")  # what srun is asked to start, behind its own options
_STAND_IN = """\
import argparse, json, os, subprocess, sys

name, *words = sys.argv[1:]
nodes, here = {nodes!r}, os.environ["SLURMD_NODENAME"]
if name == "hostname":
    print(f"10.0.0.{{nodes.index(here) + 1}}" if words[:1] in (["-i"], ["-I"], ["--ip-address"]) else here)
elif name == "scontrol":
    print("\\n".join(nodes))
elif name == "srun":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-N", "--nodes", type=int, default=len(nodes))
    parser.add_argument("-n", "--ntasks", type=int)
    parser.add_argument("--ntasks-per-node", type=int, default=int(os.environ["SLURM_NTASKS_PER_NODE"]))
    commands = [i for i, word in enumerate(words) if os.path.basename(word) in {commands!r}]
    start = (commands or [i for i, word in enumerate(words) if word[0] != "-"] or [len(words)])[0]
    asked, _ = parser.parse_known_args(words[:start])
    if asked.nodes > len(nodes):
        sys.exit(f"srun: error: Only allocated {{len(nodes)}} nodes asked for {{asked.nodes}}")
    tasks = min(asked.ntasks or asked.nodes * asked.ntasks_per_node, 64) if words[start:] else 0
    running = []
    for task in range(tasks):
        node = task * asked.nodes // tasks
        place = dict(SLURM_PROCID=str(task), SLURM_NODEID=str(node), SLURMD_NODENAME=nodes[node], HOSTNAME=nodes[node])
        running.append(subprocess.Popen(words[start:], env=dict(os.environ, **place)))
    sys.exit(max([process.wait() for process in running], default=1))
else:
    if name != "torchrun" and words[:2] == ["-m", "torch.distributed.run"]:
        name, words = "torchrun", words[2:]
    with open({log!r}, "a") as log:
        log.write(json.dumps(dict(program=name, node=here, words=words)) + "\\n")
"""


@dataclass
class Rehearsal:
    """What a script would do. `options` are sbatch's, by their long names."""

    options: dict[str, str] = field(default_factory=dict)
    started: list[dict[str, Any]] = field(default_factory=list)  # program (torchrun or python), node, words
    refused: str = ""  # why nothing was started
    ignored: str = ""  # an option that sbatch does not see


def rehearse(script: str) -> Rehearsal:
    """Try the text of a script. Options that say nothing of nodes and tasks are taken as they are."""
    if not script.startswith("#!"):
        return Rehearsal(refused="This does not look like a batch script: its first line must start with #!")
    options, ignored = _options(script)
    found = Rehearsal(options, ignored=ignored)
    nodes = list(NODES[: _number(options.get("nodes", "1"))])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "started"
        stand_in = folder / "stand_in.py"
        stand_in.write_text(_STAND_IN.format(nodes=nodes, log=str(log), commands=_COMMANDS))
        for program in _NAMES:
            words = shlex.join([sys.executable, "-IS", str(stand_in), program])
            (folder / program).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (folder / program).chmod(0o700)
        try:
            done = subprocess.run(
                ["bash"],
                input=script,
                env=_environment(folder, nodes, options),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            found.refused = f"It did not end within {_SECONDS:g} seconds."
            return found
        if log.exists():
            started = [json.loads(line) for line in log.read_text().splitlines()]
            found.started = sorted(started, key=lambda one: (one["node"], one["words"]))
        elif done.returncode:
            found.refused = (done.stderr.strip() or f"It ended with exit code {done.returncode}.").splitlines()[-1]
    return found


def _options(script: str) -> tuple[dict[str, str], str]:
    """What sbatch reads: the #SBATCH lines in front of the first command, and the first one behind it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for short, long in (("-N", "--nodes"), ("-n", "--ntasks"), ("-G", "--gpus")):
        parser.add_argument(short, long)
    found: dict[str, str] = {}
    command = False
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            command = command or (bool(line.strip()) and not line.lstrip().startswith("#"))
            continue
        words = line.removeprefix("#SBATCH").partition(" #")[0].split()
        if command:
            return found, " ".join(words)
        known, rest = parser.parse_known_args(words)
        found |= {name: value for name, value in vars(known).items() if value is not None}
        found |= dict(re.findall(r"--([\w-]+)[= ](\S+)", " ".join(rest)))
    return found, ""


def _number(text: str) -> int:
    return max(1, min(int(text), len(NODES))) if text.isdecimal() else 1


def _environment(folder: Path, nodes: list[str], options: dict[str, str]) -> dict[str, str]:
    """What SLURM tells a job script, which runs on the first node."""
    tasks = _number_of_tasks(options, len(nodes))
    numbers = [node.removeprefix("gpu") for node in nodes]
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "USER": "you",
        "HOSTNAME": nodes[0],
        "SLURMD_NODENAME": nodes[0],
        "SLURM_JOB_ID": "4711",
        "SLURM_JOBID": "4711",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_JOB_NODELIST": nodes[0] if len(nodes) == 1 else f"gpu[{','.join(numbers)}]",
        "SLURM_NODELIST": nodes[0] if len(nodes) == 1 else f"gpu[{','.join(numbers)}]",
        "SLURM_NTASKS_PER_NODE": str(max(1, tasks // len(nodes))),
        "SLURM_NTASKS": str(tasks),
        "SLURM_GPUS_ON_NODE": options.get("gpus-per-node", options.get("gres", "")).rpartition(":")[2] or "0",
        "SLURM_GPUS_PER_NODE": options.get("gpus-per-node", ""),
        "SLURM_CPUS_PER_TASK": options.get("cpus-per-task", "1"),
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
    }


def _number_of_tasks(options: dict[str, str], nodes: int) -> int:
    if (tasks := options.get("ntasks", "")).isdecimal():
        return int(tasks)
    each = options.get("ntasks-per-node", "1")
    return nodes * (int(each) if each.isdecimal() else 1)
