"""Two hosts in one machine: network namespaces with a cable between them, each with its own address and hostname.

For `launch(..., nnodes=2, hosts=hosts)`. Needs Linux, root and `ip` (iproute2).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from ddp_course.errors import LaunchError
from ddp_course.launcher.nodes import Host

_PREFIX = "ddp-course-"  # of a namespace's name; then comes the process that made it
_INTERFACE = "eth0"  # the end of the cable, in each host
_ADDRESSES = {"node0": "10.77.0.1", "node1": "10.77.0.2"}
_ETC = Path("/etc/netns")  # what `ip netns exec` puts over /etc


def why_not() -> str | None:
    """Why two hosts cannot be made here, in one sentence; None where they can."""
    if sys.platform != "linux":
        return "Network namespaces are a part of Linux, and this is another system."
    if os.geteuid() != 0:
        return "Making network namespaces needs root, and this notebook has not."
    if missing := [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]:
        return f"Making network namespaces needs {' and '.join(missing)}, not installed here."
    try:
        with two_hosts():
            return None
    except LaunchError as error:
        return str(error)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make the hosts node0 (10.77.0.1) and node1 (10.77.0.2), which know each other by name.

    Afterwards they are removed, and all that still runs in them is killed. Raises LaunchError where the system refuses.
    """
    spaces = [f"{_PREFIX}{os.getpid()}-{node}" for node in range(2)]
    _remove_abandoned()
    try:
        for space in spaces:
            _ip("netns", "add", space)
        cable = ["link", "add", _INTERFACE, "netns", spaces[0], "type", "veth"]
        _ip(*cable, "peer", "name", _INTERFACE, "netns", spaces[1])
        node0, node1 = map(_host, spaces, _ADDRESSES)
        yield node0, node1
    finally:
        for space in spaces:
            _remove(space)


def _remove_abandoned() -> None:
    """What a process left that was killed before it could remove it."""
    for space in json.loads(_ip("-json", "netns") or "[]"):
        name = str(space["name"])
        if name.startswith(_PREFIX) and not psutil.pid_exists(int(name.split("-")[2])):
            _remove(name)


def _host(space: str, name: str) -> Host:
    _ip("-n", space, "address", "add", f"{_ADDRESSES[name]}/24", "dev", _INTERFACE)
    for interface in ("lo", _INTERFACE):
        _ip("-n", space, "link", "set", interface, "up")
    named = ("unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh")
    lines = ["127.0.0.1 localhost"]
    for known, address in _ADDRESSES.items():
        lines += [f"{address} {known}", f"::ffff:{address} {known}"]  # the second is as PyTorch's store asks
    try:
        (_ETC / space).mkdir(parents=True)
        (_ETC / space / "hosts").write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise LaunchError(f"The hosts cannot be given names: {_ETC} cannot be written ({error.strerror}).") from error
    return Host(name, ("ip", "netns", "exec", space, *named))


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise LaunchError(f"This system makes no network namespaces: `ip {' '.join(words)}` says {done.stderr.strip()}")
    return done.stdout


def _remove(space: str) -> None:
    shutil.rmtree(_ETC / space, ignore_errors=True)
    try:
        pids = _ip("netns", "pids", space).split()
    except LaunchError:
        return  # it was never made
    for pid in pids:
        try:
            os.kill(int(pid), 9)
        except ProcessLookupError:
            continue
    _ip("netns", "delete", space)
