"""What training keeps in memory: state bytes by formula, for one GPU and sharded as ZeRO does.

Bytes are plain bytes; GB means 10⁹ where a paper uses it, GiB 2³⁰. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

GB, GIB = 10**9, 2**30


@dataclass(frozen=True)
class State:
    """Bytes of what a training step needs before any activation."""

    parameters: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer


def fp32_adamw(parameters: int, tensors: int = 0, stage: int = 0, ranks: int = 1) -> State:
    """Training in fp32 with AdamW: 4 bytes for a parameter, 4 for its gradient, 8 for AdamW's two averages.

    PyTorch's AdamW also keeps a step counter of 4 bytes for each of the rank's `tensors`. Sharded as `mixed_adam` says.
    """
    state = _sharded(parameters, (4, 4, 8), stage, ranks)
    return State(state.parameters, state.gradients, state.optimizer + 4 * tensors)


def mixed_adam(parameters: int, stage: int = 0, ranks: int = 1, k: int = 12) -> State:
    """Mixed precision with Adam: 2 bytes a parameter, 2 a gradient, K = 12 for fp32 copy and averages.

    ZeRO `stage` 1 shards the optimizer over the ranks, 2 the gradients too, 3 the parameters too
    (Rajbhandari et al. 2020). Raises ValueError for another stage.
    """
    return _sharded(parameters, (2, 2, k), stage, ranks)


def _sharded(parameters: int, each: tuple[int, int, int], stage: int, ranks: int) -> State:
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"ZeRO has stages 1 to 3, and 0 for none; {stage} is none of them")
    over = [ranks if stage >= level else 1 for level in (3, 2, 1)]
    whole = [size * parameters for size in each]
    return State(*(size / share if share > 1 else size for size, share in zip(whole, over, strict=True)))


def gpt_activations(
    batch: int, length: int, width: int, layers: int, heads: int, vocabulary: int, bytes_each: int = 4
) -> int:
    """Bytes that the lesson's small GPT saves for backward, without dropout and with fused attention.

    A block saves 16 vectors of `width` for each token (the inputs of 2 norms and 4 matrices, of GELU 4 wide, and q,
    k, v, output of attention), 4 numbers of the norms and one for each head. After the blocks: the last norm, the
    head's input, the log-probabilities, and two int64 lists of tokens. One more number: the mean's divisor.
    """
    tokens = batch * length
    block = 16 * width + 4 + heads
    last = 2 * width + 2 + vocabulary
    return tokens * (layers * block + last) * bytes_each + 2 * tokens * 8 + bytes_each


def decoder_parameters(width: int, layers: int, hidden: int, vocabulary: int, kv_width: int | None = None) -> int:
    """Parameters of a Llama-like decoder: q, k, v, o, three matrices of a gated MLP, two norms, two tables."""
    kv = width if kv_width is None else kv_width
    block = 2 * width * width + 2 * width * kv + 3 * width * hidden + 2 * width
    return layers * block + 2 * vocabulary * width + width


def fits(needed: float, gpu_gib: float, usable: float = 0.9) -> bool:
    """Whether `needed` bytes fit on a GPU of `gpu_gib` GiB, of which a tenth goes to CUDA and to fragmentation."""
    return needed <= usable * gpu_gib * GIB
