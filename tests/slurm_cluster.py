"""A real SLURM of two nodes on this machine: munged, slurmctld and two slurmd, in a folder and on ports of its own.

`python tests/slurm_cluster.py COMMAND [ARGS]` runs a command beside such a cluster.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ddp_course.launcher.worker import die_with_parent

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo")
NODES = ("127.0.0.1", "127.0.0.2")
USER = getpass.getuser()

# One machine plays two nodes: each slurmd has a name and a port of its own (Debian builds SLURM for that). A name
# that is an address resolves everywhere. linuxproc: no cgroups, which a container may not let us use. The GPUs and
# CPUs are only counted (config_overrides: whatever this machine has). All runs as the user who starts the tests.
CONFIG = """\
ClusterName=ddp-course
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
KillWait=2
NodeName={nodes[0]} NodeAddr=127.0.0.1 Port={ports[1]} NodeHostname={host} CPUs=8 Gres=gpu:4
NodeName={nodes[1]} NodeAddr=127.0.0.1 Port={ports[2]} NodeHostname={host} CPUs=8 Gres=gpu:4
PartitionName=course Nodes=ALL Default=YES
"""


def missing() -> str:
    """Why no cluster can be started here; '' where one can."""
    absent = [name for name in PROGRAMS if not _find(name)]
    return f"no SLURM: {', '.join(absent)} not found (apt-get install slurmctld slurmd munge)" if absent else ""


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def cluster() -> Iterator[Path]:
    """A running cluster, which SLURM's commands find by SLURM_CONF. Gives its folder; leaves no process."""
    before = os.environ.get("SLURM_CONF")
    daemons: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        try:
            _configure(folder)
            _start(folder, daemons)
            yield folder
        finally:
            _stop(daemons)
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before


def _configure(folder: Path) -> None:
    for name in ("state", *NODES):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    for number in range(4):
        (folder / f"gpu{number}").touch()
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-3]\n")
    host = socket.gethostname().partition(".")[0]
    text = CONFIG.format(host=host, folder=folder, ports=_free_ports(3), nodes=NODES, user=USER)
    (folder / "slurm.conf").write_text(text)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _start(folder: Path, daemons: list[subprocess.Popen[bytes]]) -> None:
    def start(program: str, *options: str) -> None:
        with open(folder / "daemons.log", "ab") as log:
            command = [str(_find(program)), *options]
            # A new session: an interrupt of the tests is none of the daemons'. They end when the tests are killed.
            daemons.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            )

    munge = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
    _wait(folder, (folder / "munge.socket").exists)
    start("slurmctld", "-D", "-i")
    for name in NODES:
        start("slurmd", "-D", "-N", name)
    _wait(folder, lambda: said("sinfo", "--noheader", "--format=%D %t") == f"{len(NODES)} idle")


def said(*command: str) -> str:
    """What a command prints, without the white space around it; '' where it fails."""
    return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()


def _wait(folder: Path, ready: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            logs = "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("*.log"))
            raise TimeoutError(f"SLURM is not ready after {seconds} s\n{logs}")
        time.sleep(0.05)


def end_jobs() -> None:
    """Cancel whatever is queued or runs, and wait until the queue is empty."""
    subprocess.run(["scancel", f"--user={USER}"], capture_output=True, timeout=30)
    deadline = time.monotonic() + 15
    while said("squeue", "--noheader") and time.monotonic() < deadline:
        time.sleep(0.05)


def _stop(daemons: list[subprocess.Popen[bytes]]) -> None:
    if len(daemons) > 1:
        end_jobs()
    for daemon in reversed(daemons):  # munged last: the others talk through it
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


if __name__ == "__main__":
    if why := missing():
        sys.exit(why)
    with cluster():
        sys.exit(subprocess.run(sys.argv[1:]).returncode)
