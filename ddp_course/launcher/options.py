"""The options of `%%torchrun`, `launch()` and `ddp-course run`: torchrun's own names and meanings."""

from __future__ import annotations

import argparse
import difflib
import operator
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import NoReturn

from ddp_course.cluster import srun
from ddp_course.errors import LaunchError
from ddp_course.launcher import gpus, worker
from ddp_course.launcher.folders import here
from ddp_course.launcher.nodes import Nodes

BACKENDS = ("auto", "gloo", "nccl")
MOST_RANKS = 1024
RENDEZVOUS = "ddp-course-loopback"  # rendezvous.py, found by torchrun through its entry point


def _gpu_count() -> int:
    return _count_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def _count_gpus(visible: str | None) -> int:
    return len(gpus.find().devices)


@dataclass(frozen=True)
class Options:
    """What to start. `nproc_per_node` as torchrun takes it: a number, or auto, gpu, cpu."""

    script: str
    args: tuple[str, ...] = ()
    nproc_per_node: int | str = 1
    max_restarts: int = 0
    timeout: float = 120.0
    backend: str = "auto"
    nodes: Nodes = field(default_factory=Nodes)
    slurm: str | None = None  # the partition of the SLURM cluster to run on ('': its default one)

    @property
    def nproc(self) -> int:
        """The number of ranks. Raises LaunchError where it is not a positive number or not to be had."""
        given = self.nproc_per_node
        if self.slurm is not None and given in ("auto", "cpu", "gpu"):
            raise LaunchError(f"--nproc-per-node={given} with --slurm: a job asks for a number of ranks. Give one.")
        if given == "auto":
            return _gpu_count() or os.cpu_count() or 1
        if given == "cpu":
            return os.cpu_count() or 1
        if given == "gpu":
            if not (found := _gpu_count()):
                raise LaunchError("--nproc-per-node=gpu: this machine has no GPU. Give a number, for example 2.")
            return found
        try:
            ranks = int(given) if isinstance(given, str) else operator.index(given)
        except (ValueError, TypeError):
            raise LaunchError(
                f"--nproc-per-node={given}: not a number of ranks. Give a number (2), or auto, gpu or cpu."
            ) from None
        if ranks < 1:
            raise LaunchError(f"--nproc-per-node={given}: a run needs at least 1 rank. Give 1 or more.")
        if ranks * (1 if self.slurm is not None else len(self.nodes.here)) > MOST_RANKS:
            nodes = f" on each of {len(self.nodes.here):,} nodes" if self.nodes.several else ""
            raise LaunchError(
                f"--nproc-per-node={given}{nodes}: more than {MOST_RANKS:,} ranks do not start on one machine."
            )
        return ranks

    @property
    def hides_gpus(self) -> bool:
        """Whether the ranks must not see the GPUs: more ranks than GPUs, which NCCL refuses, or gloo asked for."""
        if self.backend == "nccl":
            return False
        if self.slurm is not None:
            return self.backend == "gloo"
        found = _gpu_count()
        return found > 0 and (self.backend == "gloo" or self.ranks_here > found)

    @property
    def ranks(self) -> range:
        """The ranks that will run here, as far as that is known before they start."""
        if self.nodes.joins:
            first = (self.nodes.node_rank or 0) * self.nproc
            return range(first, first + self.nproc) if self.nodes.backend == "static" else range(0)
        return range(self.ranks_here)

    @property
    def ranks_here(self) -> int:
        """The most ranks that run on this machine at once."""
        return self.nproc * len(self.nodes.here)

    def visible_gpus(self, node: int) -> str | None:
        """CUDA_VISIBLE_DEVICES for a node; None where it stays as it is. Nodes on one machine divide its GPUs."""
        if self.hides_gpus:
            return ""
        if not self.nodes.several or self.slurm is not None or not (found := _gpu_count()):
            return None
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = given.split(",") if given else list(map(str, range(found)))
        return ",".join(names[node * self.nproc : (node + 1) * self.nproc])

    def check(self) -> None:
        """Raise LaunchError, before anything starts, where the run cannot work."""
        if self.slurm is not None:
            srun.check(self)
        self.nodes.check()
        ranks, folder = self.ranks_here, here()
        if self.backend not in BACKENDS:
            raise LaunchError(f"--backend={self.backend}: no such backend here. Give one of {', '.join(BACKENDS)}.")
        if self.backend == "nccl" and self.slurm is None and ranks > (found := _gpu_count()):
            have = "no GPU" if not found else f"{found} GPU" + "s" * (found > 1)
            raise LaunchError(
                f"--backend=nccl with {ranks} ranks: NCCL needs one GPU for each rank and this machine has {have}. "
                "Ask for fewer ranks, or leave --backend out: the ranks then use gloo on the CPU."
            )
        if not isinstance(self.max_restarts, int) or isinstance(self.max_restarts, bool) or self.max_restarts < 0:
            raise LaunchError(f"--max-restarts={self.max_restarts}: give 0 or more.")
        if not isinstance(self.timeout, (int, float)) or isinstance(self.timeout, bool) or not self.timeout > 0:
            raise LaunchError(f"--timeout={self.timeout}: give a number of seconds above 0.")
        if not self.script:
            raise LaunchError("The script's name is empty. Give the script that is to run.")
        path = Path(self.script)
        if path.is_dir():
            raise LaunchError(f"{self.script} is a directory. Give the script in it that is to run.")
        if not path.is_file():
            near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], n=1)
            hint = f" Did you mean {path.with_name(near[0])}?" if near else ""
            raise LaunchError(f"There is no script {self.script} in {folder}.{hint}")

    @property
    def command(self) -> str:
        """What starts the same ranks from a terminal in this folder: a line for each node that is started here."""
        return "\n".join(self.commands.values())

    @property
    def commands(self) -> dict[int, str]:
        """The line for each node; one line where SLURM starts them."""
        if self.slurm is not None:
            return {0: srun.line(self)}
        return {node: self._command_of(node) for node in self.nodes.here}

    def _command_of(self, node: int) -> str:
        words = ["torchrun", *self.nodes.words(node), f"--nproc-per-node={self.nproc_per_node}"]
        if self.max_restarts:
            words.append(f"--max-restarts={self.max_restarts}")
        gpus = self.visible_gpus(node)
        prefix = "" if gpus is None else f"CUDA_VISIBLE_DEVICES={gpus} "
        if self.nodes.elastic:  # else a node that comes later waits for ever for the address of the ranks' store
            prefix += "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 "
        return prefix + shlex.join([*words, self.script, *self.args])

    def agent_arguments(self, node: int, run_id: str, folder: Path) -> list[str]:
        """torchrun's arguments as the agent of a node gets them."""
        return [
            *self.nodes.agent_words(node, RENDEZVOUS, run_id),
            f"--nproc-per-node={self.nproc}",
            f"--max-restarts={self.max_restarts}",
            "--monitor-interval=0.02",
            "--shutdown-timeout=3",
            f"--log-dir={folder / 'torchrun'}",
            worker.__file__,
            str(Path(self.script)),
            *self.args,
        ]

    @classmethod
    def parsed(cls, given: argparse.Namespace, script: str, args: Iterable[str]) -> Options:
        """The options that `parser` found. Raises LaunchError where --standalone contradicts the others."""
        nodes = Nodes(**{f.name: getattr(given, f.name) for f in fields(Nodes) if f.name != "hosts"})
        if given.standalone and (nodes.most > 1 or nodes.joins):
            raise LaunchError("--standalone is for one node that meets no other. Leave it out.")
        if given.partition and not given.slurm:
            raise LaunchError(f"--partition={given.partition} goes with --slurm.")
        made = cls(script, tuple(args), given.nproc_per_node, given.max_restarts, given.timeout, given.backend, nodes)
        return made.under_slurm(given.partition) if given.slurm else made

    def under_slurm(self, partition: str) -> Options:
        """The same, on the nodes of a SLURM cluster."""
        return replace(self, slurm=partition, nodes=replace(self.nodes, hosts=srun.hosts(self.nodes)))

    def with_script(self, script: str) -> Options:
        return replace(self, script=script)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LaunchError(f"{self.prog}: {message}. {self.prog} --help lists the options.")


def parser(prog: str) -> argparse.ArgumentParser:
    """The options that the magic and the command share, under torchrun's names (`-` and `_` both work)."""

    def names(name: str) -> list[str]:
        return [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])

    result = _Parser(prog=prog, allow_abbrev=False)
    result.add_argument(
        *names("nproc-per-node"),
        default="1",
        metavar="N",
        help="ranks: a number, auto, gpu or cpu (default 1)",
    )
    result.add_argument(
        *names("max-restarts"),
        type=int,
        default=0,
        metavar="N",
        help="restarts of all ranks after a failure (default 0)",
    )
    result.add_argument("--standalone", action="store_true", help="one node that meets no other; so without --nnodes")
    _add_node_options(result, names)
    _add_slurm_options(result)
    result.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds after which the run is ended and explained (default 120)",
    )
    result.add_argument(
        "--backend", default="auto", choices=BACKENDS, help="auto: NCCL where each rank has a GPU, else gloo"
    )
    return result


def _add_node_options(result: argparse.ArgumentParser, names: Callable[[str], list[str]]) -> None:
    nodes = result.add_argument_group(
        "nodes", "All of them start on this machine, unless --node-rank or an endpoint says which one this is."
    )
    nodes.add_argument(
        "--nnodes", default="1", metavar="N", help="agents: a number, or MIN:MAX for a run that goes on with fewer"
    )
    nodes.add_argument(*names("node-rank"), type=int, metavar="K", help="start node K only (static rendezvous)")
    nodes.add_argument(*names("master-addr"), metavar="HOST", help="where node 0 listens (static; default 127.0.0.1)")
    nodes.add_argument(*names("master-port"), type=int, metavar="PORT", help="its port (static; default 29500)")
    nodes.add_argument(*names("rdzv-backend"), metavar="NAME", help="c10d (default), or static as with --master-…")
    nodes.add_argument(*names("rdzv-endpoint"), metavar="HOST:PORT", help="join the agents that meet there")
    nodes.add_argument(*names("rdzv-id"), metavar="NAME", help="a name that the agents of one run share")
    nodes.add_argument(*names("rdzv-conf"), default="", metavar="K=V,…", help="last_call_timeout=5 and the like")
    nodes.add_argument(
        *names("return-after"),
        type=float,
        metavar="S",
        help="start a lost node again after S seconds, once, as a cluster would (with MIN:MAX)",
    )


def _add_slurm_options(result: argparse.ArgumentParser) -> None:
    slurm = result.add_argument_group("SLURM")
    slurm.add_argument("--slurm", action="store_true", help="start the nodes on a SLURM cluster, in a job of their own")
    slurm.add_argument("--partition", default="", metavar="NAME", help="of the cluster (default: the cluster's own)")


def parse(result: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parse, naming the nearest right option where one is unknown. Raises LaunchError."""
    actions = {option: action for action in result._actions for option in action.option_strings}
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if word == "--" or not name.startswith("-"):
            break
        if name not in actions:
            near = difflib.get_close_matches(name.replace("_", "-"), sorted(actions), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"The options are {', '.join(sorted(actions))}."
            raise LaunchError(f"{result.prog}: no option {name}. {hint}")
        if actions[name].nargs != 0 and not value:
            next(rest, None)
    return result.parse_args(words)
