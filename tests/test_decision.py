"""The decision: ten known cases, each with its reason."""

from __future__ import annotations

import pytest

from ddp_course.controls import decision_control
from ddp_course.decision import choose

CASES = {
    "GPT-2 small on one card": ((124e6, 24, 1), "one GPU", "nobody to share"),
    "1 B on a node": ((1e9, 80, 8), "DDP", "whole state fits on each GPU"),
    "1 B on cards of a desktop": ((1e9, 24, 2), "DDP", "sends the least"),
    "7.5 B on 64 large GPUs": ((7.5e9, 80, 64), "ZeRO-1", "the optimizer's state"),
    "the ZeRO paper's 7.5 B on 64 V100s": ((7.5e9, 32, 64), "ZeRO-2", "state and the gradients"),
    "13 B on a node of A100 40 GB": ((13e9, 40, 8), "ZeRO-3", "hide under the computing"),
    "70 B on 64 GPUs, InfiniBand": ((70e9, 80, 64), "ZeRO-3", "hide under the computing"),
    "70 B on 64 GPUs, Ethernet": ((70e9, 80, 64, 8, 450, 3), "tensor, 8 ways, and pipeline of 3", "take longer"),
    "8 B on two small nodes, slow between": ((8e9, 24, 16, 8, 450, 1), "tensor, 8 ways", "of a node hold the model"),
    "8 B on PCIe and Ethernet": ((8e9, 24, 16, 8, 16, 1), "pipeline of 8", "stages send least"),
    "175 B on a node": ((175e9, 80, 8), "more GPUs", "needs 47 GPUs"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_known_case(name: str) -> None:
    arguments, choice, reason = CASES[name]
    decision = choose(*arguments)
    assert decision.choice == choice, str(decision)
    assert reason in decision.reason and decision.reason.endswith(".")
    assert all(any(digit in value for digit in "0123456789") for value in decision.numbers.values())


def test_more_memory_never_asks_for_a_dearer_way() -> None:
    order = ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "more GPUs"]
    for parameters in (1e9, 7e9, 30e9, 175e9):
        ways = [order.index(choose(parameters, gib, 64, 8, 450, 400).choice) for gib in (16, 40, 80, 141, 192)]
        assert ways == sorted(ways, reverse=True), (parameters, ways)


@pytest.mark.parametrize("wrong", [(0, 80, 8), (1e9, -1, 8), (1e9, 80, 0), (1e9, 80, 8, 8, 0, 1)])
def test_numbers_have_to_be_positive(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        choose(*wrong)  # type: ignore[arg-type]


def test_the_control_shows_the_function() -> None:
    control = decision_control()
    assert control.text() == str(choose(13e9, 40, 8))
    slow = control.text(parameters="8 B", gpu_gib="24 GiB", gpus="16", between_gb_s="1 GB/s")
    assert slow == str(choose(8e9, 24, 16, between_gb_s=1)) and slow.startswith("→ tensor")
    *sliders, shown = control.widget().children
    sliders[2].value = "1,024"
    assert "→ ZeRO-2" in shown.value
