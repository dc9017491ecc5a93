"""What a job file says, whatever the cluster: a script, nodes × ranks. And what its command has in common."""

from __future__ import annotations

import argparse
import operator
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ddp_course.errors import LaunchError
from ddp_course.launcher.options import MOST_RANKS, Options, parse

MOST_NODES = 65536  # more than clusters have; SLURM takes some larger numbers for small ones
NAME_LENGTH = 50  # of a job: with its number it names log files, for which 255 bytes are the limit


@dataclass(frozen=True)
class Job:
    """`nodes` machines with `nproc_per_node` ranks on each, and as many GPUs unless `gpus_per_node` says otherwise."""

    script: str
    args: tuple[str, ...] = ()
    nodes: int = 1
    nproc_per_node: int = 1
    gpus_per_node: int | None = None
    job_name: str = ""

    @property
    def gpus(self) -> int:
        """GPUs to ask for on each node; 0 for ranks on CPUs."""
        return self.nproc_per_node if self.gpus_per_node is None else self.gpus_per_node

    @property
    def name(self) -> str:
        """The job's name: letters, digits, dots and hyphens; the script's name, shortened, where none was given."""
        return self.job_name or re.sub(r"[^\w.-]+", "-", Path(self.script).stem)[:NAME_LENGTH]

    @property
    def title(self) -> str:
        """Its size in words."""
        return f"{_count(self.nodes, 'node')} × {_count(self.nproc_per_node, 'rank')}"

    def check(self) -> None:
        """Raise LaunchError where the job could not work."""
        _number("--nodes", self.nodes, 1, MOST_NODES)
        _number("--nproc-per-node", self.nproc_per_node, 1, MOST_RANKS)
        if self.gpus_per_node is not None:
            _number("--gpus-per-node", self.gpus_per_node, 0, MOST_RANKS)
        if self.script.startswith("-"):
            raise LaunchError(f"{self.script}: torchrun would take it for an option. Name the script ./{self.script}")
        for word in (self.script, *self.args):
            if re.search("[\0\ud800-\udfff]", word):
                raise LaunchError(
                    f"The word {word!a} cannot stand in a job file, which is UTF-8 text. Write it in other "
                    "letters, or have the script read it from a file."
                )
        Options(self.script, self.args, nproc_per_node=self.nproc_per_node).check()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _number(option: str, given: Any, least: int, most: int) -> None:
    try:
        number = operator.index(given)
    except TypeError:
        number = -1
    if number < least:
        raise LaunchError(f"{option} {given}: not a number a job can ask for. Give {least} or more, for example 2.")
    if number > most:
        raise LaunchError(f"{option} {given}: more than a job can ask for. Give {most:,} or less.")


def matching(option: str, given: str, pattern: str, wanted: str) -> None:
    """Raise LaunchError unless `given` is of the form that `wanted` tells in words."""
    if not re.fullmatch(pattern, given):
        raise LaunchError(f"{option} {given!r}: give {wanted}.")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise LaunchError(f"{message}. {self.prog} --help lists the options.")


def parser(prog: str, description: str, example: str) -> argparse.ArgumentParser:
    """The options that every kind of job file has."""
    result = _Parser(prog=prog, allow_abbrev=False, description=description, epilog=f"example: {example}")
    result.usage = "%(prog)s SCRIPT [options] [-- ARGS of the script]"
    for name, default, what in (
        ("nodes", 1, "machines (default 1)"),
        ("nproc-per-node", 1, "ranks on each (default 1)"),
        ("gpus-per-node", None, "GPUs on each (default: one for each rank; 0: none, the ranks use gloo on CPUs)"),
    ):
        names = {f"--{name}", f"--{name.replace('-', '_')}"}
        result.add_argument(*sorted(names), type=_whole(name), default=default, metavar="N", help=what)
    result.add_argument("--job-name", metavar="NAME", default="", help="default: the script's name")
    result.add_argument("--output", metavar="FILE", help="write it to this new file (default: to the screen)")
    return result


def _whole(option: str) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise LaunchError(
                f"--{option} {text}: a job says how much it wants before it sees a machine. Give a number, such as 2."
            ) from None

    return convert


def write(
    prog: str, options: argparse.ArgumentParser, argv: list[str], content: Callable[[Job, argparse.Namespace], str]
) -> int:
    """Parse `argv` and put out the job file. Exit code 0, or 2 where the command line or the job is wrong."""
    end = argv.index("--") if "--" in argv else len(argv)
    words, args = argv[:end], tuple(argv[end + 1 :])
    script = words.pop(0) if words and (not words[0].startswith("-") or os.path.isfile(words[0])) else ""
    try:
        given = parse(options, words)  # also where there is no script: the line may ask for --help
        if not script:
            raise LaunchError(f"name the script first, as in {prog} train.py --nodes 2")
        job = Job(script, args, given.nodes, given.nproc_per_node, given.gpus_per_node, given.job_name)
        text = content(job, given)
        if given.output:
            _save(Path(given.output), text)
        else:
            print(text, end="")
    except LaunchError as error:
        print(f"{prog}: {str(error).removeprefix(f'{prog}: ')}", file=sys.stderr)
        return 2
    return 0


def _save(path: Path, text: str) -> None:
    made = False
    try:
        with open(path, "x", encoding="utf-8") as file:  # never over a file that somebody has edited
            made = True
            file.write(text)
    except FileExistsError:
        raise LaunchError(f"{path} exists, perhaps with changes of yours. Remove it, or give another name.") from None
    except OSError as error:
        if made:
            path.unlink()  # half a job file looks like a whole one
        raise LaunchError(f"Cannot write {path} ({error.strerror}). Give another name to --output.") from None
