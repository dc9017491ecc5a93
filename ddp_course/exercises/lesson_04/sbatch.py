"""Lesson 4, section 7: a job script for nodes × GPUs."""

from __future__ import annotations

import random
import re
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from ddp_course.cluster.rehearsal import NODES, Rehearsal, rehearse
from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show

_FIRST = (NODES[0], "10.0.0.1")
_LONG = {"t": "time", "N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task"}


class SbatchScript(Exercise):
    """One agent on each node, all of which meet on the first."""

    name = "sbatch_script"
    lesson, section = "04", 7
    title = "a job script"
    minutes, difficulty = 10, 2
    tested = "the agents it starts on 2, 1 and 3 nodes, their words, the GPUs it asks for"
    worlds = (1,)
    stub = '''\
def sbatch_script(nodes, gpus):
    """Returns the text of a job script for sbatch: one training run of train.py over that many nodes, with
    a rank on each of the gpus GPUs of each node, and a time limit.
    """
    raise NotImplementedError
'''
    hints = (
        "sbatch runs the script once, on the first node. Who starts something on every node? And how many torchrun "
        "agents does a node need?",
        "Four #SBATCH options below #!/bin/bash: how many nodes, how many tasks on a node, how many GPUs on a node, "
        "and a time limit. Then one command, srun, with torchrun behind it.",
        "Section 3 has the words for several nodes. The script itself runs on the first node, so bash can ask there "
        "for the name of the endpoint, once, before srun: all agents need the same.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        sizes = [(2, 4), (1, 8), (3, pick.choice((2, 6)))]
        return [
            {"nodes": nodes, "gpus": gpus, "what": f"· a job of {nodes} node{'s' * (nodes > 1)} × {gpus} GPUs"}
            for nodes, gpus in sizes
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        script = plain(answer.sbatch_script(case["nodes"], case["gpus"]))
        return {"rehearsed": asdict(rehearse(_long(script)))} if isinstance(script, str) else {"returned": script}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if "returned" in seen[0]:
            return f"expected the script as text   you returned {show(seen[0]['returned'])}"
        return _wrong(Rehearsal(**seen[0]["rehearsed"]), case["nodes"], case["gpus"])


def _long(script: str) -> str:
    """The script with sbatch's short options, -t 10 and -t10, written out as --time=10."""
    short = re.compile(rf"(?<=\s)-([{''.join(_LONG)}])\s*(?=\S)")
    return re.sub("^#SBATCH.*", lambda line: short.sub(lambda o: f"--{_LONG[o[1]]}=", line[0]), script, flags=re.M)


def _wrong(job: Rehearsal, nodes: int, gpus: int) -> str | None:
    if job.refused:
        return f"nothing is started: {job.refused}"
    if job.ignored:
        return f"sbatch reads its options up to the first command: it never sees {job.ignored}."
    if wrong := _asked(job.options, nodes, gpus):
        return wrong
    agents = [one for one in job.started if one["program"] == "torchrun"]
    if not agents:
        return f"{job.started[0]['program']} is started, and no torchrun." if job.started else "no torchrun is started."
    where = [agent["node"] for agent in agents]
    if len(where) == 1 < nodes:
        return f"1 torchrun is started, on the first of {nodes} nodes: it is the script's own. srun starts the others."
    if len(where) != nodes or len(set(where)) != nodes:
        return f"{len(where)} agents are started on {len(set(where))} nodes. Each node has one, which starts its ranks."
    if all("train.py" not in agent["words"] for agent in agents):
        return "torchrun is started without train.py."
    if wrong := _agents([_words(agent) for agent in agents], nodes, gpus):
        return wrong
    if "time" not in job.options:
        return "without --time the job gets whatever limit the partition has. Say how long you need."
    return None


def _asked(options: dict[str, str], nodes: int, gpus: int) -> str | None:
    if options.get("nodes", "1") != str(nodes):
        return f"the script asks for {options.get('nodes', '1 (no --nodes)')} nodes; the job has {nodes}."
    total = next((options[name] for name in ("gpus", "gpus-per-node", "gres", "gpus-per-task") if name in options), "0")
    count = int(number.group()) if (number := re.search(r"\d+$", total)) else 0
    each = count / nodes if "gpus" in options else count
    if each == gpus:
        return None
    return f"the script asks for {each:g} GPUs on each node; its ranks want {gpus}."


def _words(agent: dict[str, Any]) -> dict[str, str]:
    """torchrun's options, by name."""
    words = agent["words"]
    before = words[: next((i for i, word in enumerate(words) if word.endswith(".py")), len(words))]
    found: dict[str, str] = {}
    for number, word in enumerate(before):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").replace("_", "-").partition("=")
            after = before[number + 1] if number + 1 < len(before) else ""
            found[name] = value if equals or after.startswith("-") else after
    return found


def _agents(agents: list[dict[str, str]], nodes: int, gpus: int) -> str | None:
    ranks = {agent.get("nproc-per-node", "1") for agent in agents}
    if not ranks <= {str(gpus), "gpu", "auto"}:
        many = ranks.pop()
        return f"each agent starts {many} rank{'s' * (many != '1')}; a node has {gpus} GPUs."
    if nodes == 1:
        return None
    sizes = {agent.get("nnodes", "1") for agent in agents}
    if any("standalone" in agent for agent in agents) or sizes == {"1"}:
        return f"each agent believes that it is alone: {nodes} runs of {gpus} ranks, and none of {nodes * gpus}."
    if sizes != {str(nodes)}:
        return f"the agents wait for {sizes.pop()} nodes; there are {nodes}."
    if len({agent.get("rdzv-id") for agent in agents}) > 1:
        return "each agent has another --rdzv-id: that is the name of the run, the same for all of them."
    static = any("master-addr" in agent for agent in agents)
    if static and sorted(agent.get("node-rank", "0") for agent in agents) != [str(node) for node in range(nodes)]:
        return "with --master-addr each agent needs a --node-rank of its own, from 0; SLURM numbers the nodes too."
    if not static and any(agent.get("rdzv-backend") != "c10d" for agent in agents):
        return "without --rdzv-backend=c10d torchrun takes the static one, which wants a --node-rank on each node."
    if static:
        return _endpoint([f"{agent.get('master-addr', '')}:{agent.get('master-port', 29500)}" for agent in agents])
    return _endpoint([agent.get("rdzv-endpoint", "localhost:29400") for agent in agents])


def _endpoint(given: list[str]) -> str | None:
    hosts = [endpoint.rpartition(":")[0] if re.search(r":\d+$", endpoint) else endpoint for endpoint in given]
    if len(set(given)) > 1:
        return f"the agents do not agree where to meet: {', '.join(given)}.\nWho works out the name, and how often?"
    if not hosts[0]:
        return (
            f"the endpoint is {show(given[0])}: a variable is empty there.\n"
            "A shell that srun starts, as bash -c, knows those variables only that the script exports."
        )
    if hosts[0] in ("localhost", "127.0.0.1"):
        return f"the endpoint is {show(given[0])}: each agent looks for the others on its own node."
    if "[" in hosts[0]:
        return (
            f"the endpoint is {given[0]}: the list of nodes is a short form, and no name.\n"
            '`scontrol show hostnames "$SLURM_JOB_NODELIST"` writes it out, one name a line.'
        )
    if hosts[0] not in _FIRST:
        return f"the endpoint is {show(given[0])}; the nodes are {', '.join(NODES[: len(given)])}."
    if given[0].endswith(":0"):
        return (
            f"the endpoint is {show(given[0])}: port 0 means any that is free, and each agent would choose another one."
        )
    return None
