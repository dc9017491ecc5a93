"""Which NVIDIA GPUs are here, asked of NVML: counting them through CUDA would initialise it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any

Link = tuple[int, int, str]


@dataclass(frozen=True)
class Device:
    """One GPU: its index and identifier in NVML, its name, and its memory in bytes."""

    index: int
    uuid: str
    name: str
    memory: int


@dataclass(frozen=True)
class Gpus:
    """The GPUs a process started here may use, in CUDA's order.

    `links` has (i, j, "NVLink" or the PCIe path) for each pair, `cuda` the newest CUDA (major, minor)
    that the driver serves, `error` what the driver said where it is installed and does not answer.
    """

    devices: Sequence[Device] = ()
    links: Sequence[Link] = ()
    cuda: tuple[int, int] = (0, 0)
    error: str = ""

    def __str__(self) -> str:
        groups: dict[str, list[int]] = defaultdict(list)
        for device in self.devices:
            groups[f"{device.name}, {device.memory / 2**30:.0f} GiB"].append(device.index)
        parts = [f"{len(indices)} × {what}" for what, indices in groups.items()]
        return "; ".join([*parts, *self._connections()])

    def _connections(self) -> list[str]:
        kinds: dict[str, list[str]] = defaultdict(list)
        for i, j, kind in self.links:
            kinds[kind].append(f"{i}–{j}")
        if len(kinds) == 1:
            return [f"all connected by {kind}" for kind in kinds]
        return [f"{kind}: {', '.join(pairs)}" for kind, pairs in kinds.items()]


def find(nvml: Any = None) -> Gpus:
    """Ask NVML (the `pynvml` module, or one that answers like it). Never raises for a missing driver."""
    nvml = nvml or import_module("pynvml")
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return Gpus()
    except nvml.NVMLError as error:
        return Gpus(error=f"NVML: {error}")
    try:
        every = [_device(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        devices = visible(every, os.environ.get("CUDA_VISIBLE_DEVICES"))
        links = [(a.index, b.index, _link(nvml, a.index, b.index)) for a, b in combinations(devices, 2)]
        driver = nvml.nvmlSystemGetCudaDriverVersion()
        return Gpus(devices, links, (driver // 1000, driver % 1000 // 10))
    except nvml.NVMLError as error:
        return Gpus(error=f"NVML: {error}")
    finally:
        nvml.nvmlShutdown()


def visible(devices: Sequence[Device], setting: str | None) -> list[Device]:
    """Those of `devices` that CUDA_VISIBLE_DEVICES=`setting` leaves, in its order.

    As CUDA does: names are indices or the start of an identifier, and the first that fits no GPU
    ends the list. `None`, the variable unset, leaves them all.
    """
    if setting is None:
        return list(devices)
    chosen: list[Device] = []
    for name in setting.split(","):
        name = name.strip()
        fits = [d for d in devices if name and (name == str(d.index) or d.uuid.startswith(name))]
        if len(fits) != 1 or fits[0] in chosen:
            break
        chosen += fits
    return chosen


def _device(nvml: Any, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    return Device(index, uuid, name, nvml.nvmlDeviceGetMemoryInfo(handle).total)


def _link(nvml: Any, a: int, b: int) -> str:
    first, second = nvml.nvmlDeviceGetHandleByIndex(a), nvml.nvmlDeviceGetHandleByIndex(b)
    try:
        status = nvml.nvmlDeviceGetP2PStatus(first, second, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
        if status == nvml.NVML_P2P_STATUS_OK:
            return "NVLink"
        level = nvml.nvmlDeviceGetTopologyCommonAncestor(first, second)
    except nvml.NVMLError:
        return "unknown link"  # virtual machines hide it
    if level <= nvml.NVML_TOPOLOGY_MULTIPLE:
        return "PCIe switch"
    if level <= nvml.NVML_TOPOLOGY_HOSTBRIDGE:
        return "PCIe host bridge"
    return "PCIe across the CPU's own links" if level <= nvml.NVML_TOPOLOGY_NODE else "PCIe across sockets"
