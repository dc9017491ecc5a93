"""The fault matrix (tests/faults.py), one test a fault: warm for all, cold for the ones that differ most."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import FAULTS, TIMING_SENSITIVE, Fault, Scene, run_fault

COLD_TOO = {
    "raise",
    "sys.exit(0)",
    "SIGKILL on a rank",
    "SIGKILL on the agent",
    "SIGKILL on the server",
    "interrupt during the start",
    "interrupt in a stuck collective",
    "kernel SIGKILL",
    "raise while others ignore signals",
    "SIGKILL on node 1's agent",
    "interrupt of two nodes",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("faults"))
    yield scene
    scene.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def named(faults: list[Fault]) -> list[object]:
    return [pytest.param(fault, id=fault.name.replace(" ", "_")) for fault in faults]


@pytest.mark.parametrize("fault", named([f for f in FAULTS if not f.kernel_ends]))
def test_warm(fault: Fault, shared: Scene) -> None:
    assert run_fault(fault, True, shared).problems == []


@pytest.mark.parametrize("fault", named([f for f in FAULTS if not f.kernel_ends and f.name in COLD_TOO]))
def test_cold(fault: Fault, shared: Scene) -> None:
    assert run_fault(fault, False, shared).problems == []


@pytest.mark.parametrize("fault", named([f for f in FAULTS if f.kernel_ends]))
def test_warm_kernel_ends(fault: Fault, own: Scene) -> None:
    assert run_fault(fault, True, own).problems == []


@pytest.mark.parametrize("fault", named([f for f in FAULTS if f.kernel_ends and f.name in COLD_TOO]))
def test_cold_kernel_ends(fault: Fault, own: Scene) -> None:
    assert run_fault(fault, False, own).problems == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", named([f for f in FAULTS if f.name not in COLD_TOO]))
def test_cold_for_the_rest(fault: Fault, own: Scene) -> None:
    assert run_fault(fault, False, own).problems == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", named(TIMING_SENSITIVE))
def test_twenty_times(fault: Fault, tmp_path: Path) -> None:
    scene = None
    for _ in range(20):
        scene = scene or Scene(tmp_path)
        try:
            assert run_fault(fault, True, scene).problems == []
        finally:
            if fault.kernel_ends:
                scene.close()
                scene = None
    if scene:
        scene.close()
