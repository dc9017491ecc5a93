"""Lesson 4, section 1: a launcher of one's own."""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import join, rank_list, show
from ddp_course.exercises.lesson_04 import agents

_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PATIENCE = 1.0  # seconds that a rank may outlive one that has failed
_ENOUGH = 6.0  # seconds after which whatever still runs is ended

# What a rank does: tell who it is, wait until the others have too, then end as it was told.
_RANK = """\
import json, os, pathlib, signal, sys, time

folder = pathlib.Path(__file__).parent
job = json.loads((folder / "job.json").read_text())
if job["ends"].get(os.environ.get("RANK")) == "ignores SIGTERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
environment = {name: os.environ.get(name) for name in job["names"]}
(folder / f"{os.getpid()}.part").write_text(json.dumps(environment))
(folder / f"{os.getpid()}.part").rename(folder / f"{os.getpid()}.rank")
deadline = time.monotonic() + 2.5
while (here := len(list(folder.glob("*.rank")))) < job["nproc"] and time.monotonic() < deadline:
    time.sleep(0.005)
(folder / f"{os.getpid()}.met").write_text(str(here))
how = job["ends"].get(environment["RANK"], 0)
if how in ("stays", "ignores SIGTERM"):
    time.sleep(60)
elif how == "all_reduce":  # over bare sockets: it takes each rank a second or more to import torch
    import socket

    place, rank = (environment["MASTER_ADDR"], int(environment["MASTER_PORT"])), int(environment["RANK"])
    total = 2.0**rank
    if rank == 0:
        with socket.create_server(place) as store:
            others = [store.accept()[0] for _ in range(int(environment["WORLD_SIZE"]) - 1)]
        total += sum(float(other.recv(64)) for other in others)
        for other in others:
            other.sendall(str(total).encode())
    else:
        while True:
            try:
                store = socket.create_connection(place)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        store.sendall(str(total).encode())
        total = float(store.recv(64))
    (folder / f"{os.getpid()}.sum").write_text(str(total))
elif how < 0:
    os.kill(os.getpid(), -how)
else:
    time.sleep(0.1 if how == 0 else 0.2)  # who ends well ends before who fails
    sys.exit(how)
"""


class OwnLauncher(Exercise):
    """N processes, five variables, and nobody left behind."""

    name = "own_launcher"
    lesson, section = "04", 1
    title = "your own torchrun"
    minutes, difficulty = 12, 2
    tested = "which starts 3 and 4 of its own: all-reduce, failures passed on, nothing left behind, no fixed port"
    worlds = (1,)
    patience = 4.0
    stub = '''\
import os
import socket
import subprocess
import sys
import time


def my_torchrun(script, nproc):
    """Starts nproc ranks on this machine, each a Python process that runs script, and waits for them.

    Each has RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment.
    Returns 0 once every rank has ended with exit code 0. As soon as a rank ends with another one, it ends
    the others, and returns that code. No process is left, whatever the ranks do. Several launches can run at once.
    """
    raise NotImplementedError
'''
    hints = (
        "Which rank will fail? You cannot know, so you may not wait for one rank after the other.",
        "Popen.poll() gives None while a process runs, and its exit code afterwards. Ask all of them in turn, and "
        "sleep a little between two rounds.",
        "Two steps at the end, for each process: kill() it if it still runs, then wait() for it. A process that has "
        "ended stays in the system's table until its parent has waited for it.",
    )

    def __init__(self) -> None:
        self._failed = False
        self._port = 0  # of the launch before

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        code = pick.randint(3, 90)
        many, bad = pick.randint(3, 4), pick.randint(1, 2)
        # Whoever waits in order, up or down, waits for another rank than rank 1; and for the last one at the end.
        deaf = {"1": code, str(many - 1): "ignores SIGTERM"}
        hang, all_reduce = ({str(rank): how for rank in range(many)} for how in ("stays", "all_reduce"))
        return [
            {"nproc": many, "ends": {}, "what": f"starting {many}, which end well"},
            {
                "nproc": many,
                "ends": hang | deaf,
                "what": f"starting {many}; rank 1 exits with {code}, the others hang, rank {many - 1} ignores SIGTERM",
            },
            {
                "nproc": 3,
                "ends": {str(bad): code},
                "what": f"starting 3; rank {bad} exits with {code}, after the others",
            },
            {
                "nproc": many,
                "ends": hang | {"0": -9},
                "what": f"starting {many}; rank 0 is ended by SIGKILL, the others hang",
            },
            {
                "nproc": many,
                "ends": all_reduce,
                "beside": True,
                "what": f"starting {many}, which all-reduce, beside a launch that still runs",
            },
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        if self._failed:
            return None  # the notebook shows the first case that is wrong
        seen = self._try(answer, case)
        self._failed = self.judge(case, None, [seen], []) is not None
        return seen

    def _try(self, answer: SimpleNamespace, case: Case) -> Any:
        import psutil

        from ddp_course.exercises.ranks import plain

        with tempfile.TemporaryDirectory() as name, _no_rank():
            folder = Path(name)
            job = {"names": _NAMES, "nproc": case["nproc"], "ends": case["ends"]}
            (folder / "job.json").write_text(json.dumps(job))
            (folder / "rank.py").write_text(_RANK)
            taken = self._port if "beside" in case else 0
            with _listening(taken), _watching(folder, case) as late:
                returned = plain(answer.my_torchrun(str(folder / "rank.py"), case["nproc"]))
            time.sleep(0.1)  # a process that was just killed may take a moment to go
            left = {pid: _state(psutil, pid) for pid in _ranks(folder) if psutil.pid_exists(pid)}
            for pid in left:
                _kill(psutil, pid)
            ranks = list(_ranks(folder).values())
            port = str(ranks[0]["MASTER_PORT"]) if ranks else ""
            self._port = int(port) if port.isdecimal() else 0
            return {
                "returned": returned,
                "ranks": ranks,
                "met": [int(path.read_text() or 0) for path in folder.glob("*.met")],
                "taken": taken,
                "sums": [float(path.read_text()) for path in sorted(folder.glob("*.sum"))],
                "left": sorted(left.values()),
                "late": list(late),
            }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        one = seen[0]
        if {1, 2} <= set(one["met"]):  # how many had started when a rank's patience ended
            return "each rank was alone: the next one starts only when the last has ended. Start all, then wait."
        if wrong := _environment(case, one["ranks"]):
            return wrong
        if one["taken"] and str(one["taken"]) == one["ranks"][0]["MASTER_PORT"]:
            return f"MASTER_PORT is {one['taken']} again, which another launch uses. Who knows a port that is free now?"
        codes = [how for how in case["ends"].values() if isinstance(how, int)]
        if one["late"]:
            return _late(case, one["late"], codes)
        if wrong := _returned(one["returned"], codes):
            return wrong
        if one["left"].count("running") == 1 and "ignores SIGTERM" in case["ends"].values():
            return f"my_torchrun has returned, and the last rank still runs: {_DEAF}"
        if "running" in one["left"]:
            many = one["left"].count("running")
            return f"my_torchrun has returned, and {many} of its processes still run{'s' * (many == 1)}."
        if one["left"]:
            return (
                "every rank has ended, but nobody has waited for some of them: they stay in the system's table of "
                "processes, as zombies.\nCall wait() on each process, also on one that you have killed."
            )
        total = 2.0 ** case["nproc"] - 1
        if "all_reduce" in case["ends"].values() and one["sums"] != [total] * case["nproc"]:
            return f"the ranks' all-reduce gave {show(one['sums'])}, and not {total:g} on each of them."
        return None


def _environment(case: Case, ranks: list[dict[str, str | None]]) -> str | None:
    nproc = case["nproc"]
    if len(ranks) != nproc:
        return f"asked for {nproc} ranks; {len(ranks)} started."
    for name in _NAMES:
        if missing := [one["RANK"] for one in ranks if one[name] is None]:
            which = "on every rank" if len(missing) == nproc else f"on some ranks (rank {missing[0]})"
            return f"{name} is not set {which}."
    for name in ("RANK", "LOCAL_RANK"):
        values = sorted(str(one[name]) for one in ranks)
        if values != [str(rank) for rank in range(nproc)]:
            return f"{name} is {join(values)} on the {nproc} ranks. Each of 0 to {nproc - 1} is given once."
    if odd := [one for one in ranks if one["RANK"] != one["LOCAL_RANK"]]:
        return f"RANK {odd[0]['RANK']} has LOCAL_RANK {odd[0]['LOCAL_RANK']}. On one machine they are the same."
    if sizes := {one["WORLD_SIZE"] for one in ranks} - {str(nproc)}:
        return f"WORLD_SIZE is {join(sorted(map(str, sizes)))}; there are {nproc} ranks."
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if len({one[name] for one in ranks}) > 1:
            return f"{name} differs between the ranks: they would never meet."
    return None


_DEAF = "it ignores SIGTERM, which terminate() sends. Nothing can ignore kill()."


def _late(case: Case, late: list[int], codes: list[int]) -> str:
    who = f"{rank_list(late)} still ran"
    if not any(codes):
        return f"{who} after {_ENOUGH:g} seconds: the ranks did not find each other, or you waited for something else."
    if [case["ends"].get(str(rank)) for rank in late] == ["ignores SIGTERM"]:
        return f"a rank had failed, and {who} after {_ENOUGH:g} seconds: {_DEAF}"
    if min(codes) < 0:
        text = f"a signal had ended a rank, and {who} {_PATIENCE} seconds later."
        return f"{text}\nIts exit code is {min(codes)}: that is not 0, and not above 0 either."
    text = f"a rank had failed, and {who} {_PATIENCE} seconds later."
    return f"{text}\nWhile you wait for one rank, who looks at the others?"


def _returned(returned: Any, codes: list[int]) -> str | None:
    wanted = next((code for code in codes if code), 0)
    same = {wanted, 128 - wanted} if wanted < 0 else {wanted}  # a shell says 137 for SIGKILL
    if isinstance(returned, int) and not isinstance(returned, bool) and returned in same:
        return None
    text = f"expected {wanted}   you returned {show(returned)}"
    if not wanted:
        text += "\nA rank failed, or was ended by you, where all of them could have ended well."
    if wanted and returned == 0:
        text += "\nA rank failed, and whoever started you believes that all went well."
    if wanted > 0 and returned in (-9, -15):
        text += "\nThat is the code of a rank that you ended yourself. Which one failed first?"
    return text


@contextmanager
def _no_rank() -> Iterator[None]:
    """Without what torchrun told this process: the learner's processes must not take it for theirs."""
    kept = dict(os.environ)
    agents.ask_name_servers_once()
    for name in kept:
        if name in _NAMES or name.startswith(("TORCHELASTIC_", "GROUP_", "ROLE_")):
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


@contextmanager
def _listening(port: int) -> Iterator[None]:
    """Meanwhile the port is taken, as by a launch that still runs; 0 for any."""
    try:
        listener = socket.create_server(("", port))
    except (OSError, OverflowError):  # another program has it by now, or it is no port
        listener = socket.create_server(("", 0))
    with listener:
        yield


@contextmanager
def _watching(folder: Path, case: Case) -> Iterator[list[int]]:
    """End ranks that stay too long meanwhile, so that no answer waits for ever; the list has their numbers."""
    import psutil

    done, late = threading.Event(), list[int]()

    def watch() -> None:
        begin, failed = time.monotonic(), 0.0
        while not done.wait(0.02):
            now = time.monotonic()
            ranks = _ranks(folder)
            running = [pid for pid in ranks if _state(psutil, pid) == "running"]
            ends = {rank for rank, how in case["ends"].items() if isinstance(how, int) and how}
            deaf = all(case["ends"].get(ranks[pid]["RANK"]) == "ignores SIGTERM" for pid in running)
            if not failed and any(ranks[pid]["RANK"] in ends for pid in ranks if pid not in running):
                failed = now
            if (failed and not deaf and now > failed + _PATIENCE) or now > begin + _ENOUGH:
                late.extend(sorted(int(ranks[pid]["RANK"] or 0) for pid in running))
                for pid in running:
                    _kill(psutil, pid)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield late
    finally:
        done.set()
        watcher.join()


def _ranks(folder: Path) -> dict[int, dict[str, str | None]]:
    return {int(path.stem): json.loads(path.read_text()) for path in sorted(folder.glob("*.rank"))}


def _state(psutil: Any, pid: int) -> str:
    try:
        return "zombie" if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE else "running"
    except psutil.NoSuchProcess:
        return "gone"


def _kill(psutil: Any, pid: int) -> None:
    try:
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        pass
