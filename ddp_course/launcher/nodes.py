"""Which nodes a run has and how their agents find each other, in torchrun's own terms."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ddp_course.errors import LaunchError

C10D_PORT, STATIC_PORT = 29400, 29500  # torchrun's
BACKENDS = ("c10d", "static")
MOST_NODES = 10_000
HERE = "127.0.0.1"


def is_loopback(host: str) -> bool:
    """Whether the name or address can be meant for this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Host:
    """Where a node runs that is not this machine as it is: its name, and the words to put before a command that is to
    run there."""

    name: str
    enter: tuple[str, ...]


@dataclass(frozen=True)
class Nodes:
    """The options about nodes, None where they were not given.

    All nodes are started here, as agents of their own, unless `--node-rank`, an endpoint or the address of another
    machine is given: then the one agent that torchrun would start, which meets the others.
    """

    nnodes: int | str = 1
    node_rank: int | None = None
    rdzv_backend: str | None = None
    rdzv_endpoint: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: str = ""
    master_addr: str | None = None
    master_port: int | None = None
    return_after: float | None = None
    hosts: tuple[Host, ...] = ()

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the most nodes. Raises LaunchError where `nnodes` is not N or MIN:MAX."""
        least, colon, most = str(self.nnodes).partition(":")
        try:
            found = int(least), int(most if colon else least)
        except ValueError:
            raise LaunchError(f"--nnodes={self.nnodes}: give a number of nodes (2), or MIN:MAX (1:2).") from None
        if not 0 < found[0] <= found[1]:
            raise LaunchError(f"--nnodes={self.nnodes}: MIN is at least 1 and MAX at least MIN.")
        if found[1] > MOST_NODES:
            raise LaunchError(
                f"--nnodes={self.nnodes}: more than {MOST_NODES:,} nodes are not started from a notebook."
            )
        return found

    @property
    def most(self) -> int:
        return self.limits[1]

    @property
    def elastic(self) -> bool:
        """Whether the run goes on with fewer nodes than it may have."""
        return self.limits[0] < self.limits[1]

    @property
    def joins(self) -> bool:
        """Whether one agent is started here that meets others, started elsewhere."""
        away = bool(self.master_addr) and not is_loopback(str(self.master_addr))
        return self.node_rank is not None or self.rdzv_endpoint is not None or away

    @property
    def here(self) -> list[int]:
        """The numbers of the nodes that are started here."""
        return [self.node_rank or 0] if self.joins else list(range(self.most))

    @property
    def several(self) -> bool:
        """Whether more than one node is started here."""
        return len(self.here) > 1

    @property
    def on_loopback(self) -> bool:
        """Whether no other machine takes part."""
        endpoint = self.endpoint(True)
        return not endpoint or is_loopback(endpoint.rpartition(":")[0] or endpoint)

    @property
    def backend(self) -> str:
        """c10d or static: what was given, or else torchrun's default for these options."""
        said = (self.node_rank, self.rdzv_endpoint, self.master_addr, self.master_port)
        return self.rdzv_backend or ("static" if any(value is not None for value in said) else "c10d")

    def check(self) -> None:
        """Raise LaunchError where an option is of the wrong kind, or the options do not fit together."""
        self._check_kinds()
        _, most = self.limits
        if self.backend not in BACKENDS:
            raise LaunchError(f"--rdzv-backend={self.backend}: here it is {' or '.join(BACKENDS)}.")
        if self.node_rank is not None and not 0 <= self.node_rank < most:
            raise LaunchError(f"--node-rank={self.node_rank}: with --nnodes={self.nnodes} it is 0 to {most - 1}.")
        if self.backend == "static" and ":" not in self.endpoint(False):
            raise LaunchError(f"--rdzv-endpoint={self.rdzv_endpoint}: static rendezvous needs a port, HOST:PORT.")
        if self.backend == "static" and self.elastic:
            raise LaunchError(f"--nnodes={self.nnodes}: only --rdzv-backend=c10d lets nodes come and go.")
        if self.backend == "c10d" and (self.master_addr or self.master_port):
            raise LaunchError(
                "--master-addr and --master-port belong to --rdzv-backend=static. With c10d, give --rdzv-endpoint."
            )
        if self.hosts and (self.joins or len(self.hosts) != most):
            raise LaunchError(f"{len(self.hosts)} hosts with --nnodes={self.nnodes}: give a host for each node.")
        if self.return_after is not None and not (self.elastic and not self.joins and self.return_after >= 0):
            raise LaunchError(
                "--return-after: seconds after which a lost node is started again; it needs --nnodes=MIN:MAX."
            )

    def _check_kinds(self) -> None:
        for names, kinds, wanted in (
            (("node_rank", "master_port"), (int,), "a whole number"),
            (("rdzv_endpoint", "rdzv_id", "rdzv_conf", "master_addr"), (str,), "a text"),
            (("return_after",), (int, float), "a number of seconds"),
        ):
            for name in names:
                value = getattr(self, name)
                if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
                    raise LaunchError(f"--{name.replace('_', '-')}={value!r}: give {wanted}.")
        if not all(isinstance(host, Host) for host in self.hosts):
            raise LaunchError("hosts: give what ddp_course.two_hosts made.")
        if self.master_addr == "":
            raise LaunchError("--master-addr is empty: give the name or address of the machine of node 0.")
        for option, port in (("--master-port", self.master_port), ("--rdzv-endpoint", self._endpoint_port())):
            if port is not None and not 0 <= port <= 65535:
                raise LaunchError(f"{option}: {port} is no port. They go from 0 to 65535.")
        for part in filter(None, self.rdzv_conf.split(",")):
            key, equals, setting = part.partition("=")
            if not (key and equals and setting):
                raise LaunchError(f"--rdzv-conf={self.rdzv_conf}: {part!r} is no KEY=VALUE.")
            if key == "rank" and self.backend == "c10d":
                raise LaunchError(f"--rdzv-conf={self.rdzv_conf}: with c10d the rendezvous numbers the nodes itself.")

    def _endpoint_port(self) -> int | None:
        _, colon, port = (self.rdzv_endpoint or "").rpartition(":")
        return int(port) if colon and port.isdecimal() else None

    def endpoint(self, port_of_its_own: bool) -> str:
        """Where the agents meet. '' for nodes that are all here and may choose a port of their own."""
        if self.rdzv_endpoint is not None:
            return self.rdzv_endpoint
        if self.hosts:
            port = (self.master_port or STATIC_PORT) if self.backend == "static" else C10D_PORT
            return f"{self.hosts[0].name}:{port}"
        if self.backend == "static" and (self.joins or self.master_port or not port_of_its_own):
            return f"{self.master_addr or HERE}:{self.master_port or STATIC_PORT}"
        return "" if port_of_its_own and not self.joins else f"localhost:{C10D_PORT}"

    def words(self, node: int) -> list[str]:
        """torchrun's options for one node, as they are typed in a terminal."""
        if self.most == 1 and not self.joins and self.rdzv_backend is None and self.master_port is None:
            return ["--standalone"]
        words, endpoint = [f"--nnodes={self.nnodes}"], self.endpoint(False)
        if self.backend == "c10d":
            words += ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}"]
        else:  # what torchrun takes by itself
            address, _, port = endpoint.rpartition(":")
            words += [f"--node-rank={node}", f"--master-addr={address}", f"--master-port={port}"]
        if self.rdzv_id is not None:
            words.append(f"--rdzv-id={self.rdzv_id}")
        if self.rdzv_conf:
            words.append(f"--rdzv-conf={self.rdzv_conf}")
        return words

    def agent_words(self, node: int, plug_in: str, run_id: str) -> list[str]:
        """The same for the agent that is started here: all backends are served by `plug_in`."""
        endpoint = self.endpoint(True)
        alone = self.most == 1 and not self.joins
        conf = [self.rdzv_conf] if self.rdzv_conf else []
        if alone or self.backend == "static":
            conf.append(f"rank={node}")
        elif not endpoint:
            conf.append(f"is_host={str(node == 0).lower()}")
        words = [
            f"--nnodes={self.nnodes}",
            f"--rdzv-backend={plug_in}",
            f"--rdzv-id={self.rdzv_id or ('none' if self.joins else run_id)}",
            f"--rdzv-endpoint={endpoint}",
            f"--rdzv-conf={','.join(conf)}",
        ]
        return [*words, f"--local-addr={HERE}"] if self.on_loopback else words


@dataclass(frozen=True)
class Job:
    """What starts one agent: the node's number, torchrun's arguments, environment, folder, the agent's own log, and
    what to put before its command."""

    node: int
    arguments: list[str]
    env: dict[str, str]
    cwd: str
    log: str
    enter: tuple[str, ...] = ()
