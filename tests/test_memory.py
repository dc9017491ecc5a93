"""The memory calculator: equal to what is measured, and to the published figures."""

from __future__ import annotations

import pytest

from ddp_course.controls import memory_calculator
from ddp_course.memory import GB, decoder_parameters, fits, fp32_adamw, gpt_activations, mixed_adam


def test_the_state_of_the_small_gpt_is_the_formula_to_the_byte() -> None:
    import torch

    from ddp_course.small_gpt import GPT

    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 8, dtype=torch.int64)).sum().backward()
    optimizer.step()
    parameters = list(model.parameters())
    state = fp32_adamw(sum(p.numel() for p in parameters), len(parameters))
    assert sum(p.nbytes for p in parameters) == state.parameters
    assert sum(p.grad.nbytes for p in parameters if p.grad is not None) == state.gradients
    assert sum(t.nbytes for one in optimizer.state.values() for t in one.values()) == state.optimizer


@pytest.mark.parametrize(("batch", "length"), [(1, 64), (16, 64), (3, 17)])
def test_the_activations_of_the_small_gpt_are_the_formula_to_the_byte(batch: int, length: int) -> None:
    import torch

    from ddp_course.small_gpt import GPT, loss_sum

    model = GPT()
    tokens, targets = (torch.randint(256, (batch, length)) for _ in range(2))
    kept: dict[int, int] = {}
    alive = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        alive.append(tensor)  # else a later tensor could take its place
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_sum(model, tokens, targets) / targets.numel()
    for parameter in model.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert sum(kept.values()) == gpt_activations(batch, length, 192, 2, 6, 256)
    assert loss.requires_grad


def test_the_8_billion_case() -> None:
    state = fp32_adamw(8_000_000_000)
    assert [state.parameters / GB, state.gradients / GB, state.optimizer / GB] == [32, 32, 64]
    assert not fits(state.total, 80) and fits(state.total, 192)


@pytest.mark.parametrize(("stage", "published"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_zero_papers_7_5_billion_case(stage: int, published: float) -> None:
    assert mixed_adam(7_500_000_000, stage, 64).total / GB == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize(("stage", "gb"), [(1, 4011), (2, 2013), (3, 15.6)])
def test_the_zero_papers_case_of_a_trillion(stage: int, gb: float) -> None:
    assert mixed_adam(10**12, stage, 1024).total / GB == pytest.approx(gb, abs=1)


def test_there_is_no_fourth_stage() -> None:
    with pytest.raises(ValueError, match="4 is none"):
        mixed_adam(1, 4)


def test_a_llama_like_decoder_of_8_billion() -> None:
    assert decoder_parameters(4096, 32, 14336, 128256, kv_width=1024) == 8_030_261_248


def test_the_calculator_answers_for_every_position_of_its_sliders() -> None:
    control = memory_calculator()
    assert "32 + 32 + 64 = 128 GB before activations: fills 1.5 GPUs" in control.text()
    assert "fits on one GPU" in control.text(parameters="124 M") and "fits on one GPU" not in control.text(
        parameters="1 T"
    )
    assert repr(control) == repr(memory_calculator()), "it is stored in the notebook"


def test_moving_a_slider_changes_the_text() -> None:
    sliders_and_text = memory_calculator().widget().children
    *sliders, shown = sliders_and_text
    before = shown.value
    sliders[0].value = "124 M"
    assert before != shown.value and "fits on one GPU" in shown.value
    assert all(slider.description for slider in sliders) and 'aria-live="polite"' in shown.value
