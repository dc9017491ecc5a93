"""What a rank did when, taken from PyTorch's profiler: `report(profile=prof)` sends it.

Runs inside a rank; standard library only, torch's objects come in as arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

COMPUTE = ("forward", "backward", "optimizer")
_FORWARD, _OPTIMIZER = "DistributedDataParallel.forward", "Optimizer.step#"
# On CPUs backward is one call after another of these, with waiting for the all-reduces between them.
_BACKWARD = ("autograd::engine::evaluate_function: ", "torch.distributed.ddp.reducer::copy_bucket_to_grad")
_COLLECTIVES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
_GAP = 50  # microseconds; calls of one kind that are closer together become one span


class Span(NamedTuple):
    """`kind` is forward, backward, optimizer, or the name of a collective; times are microseconds since 1970."""

    kind: str
    start: int
    duration: int

    @property
    def end(self) -> int:
        """When it ended, in microseconds since 1970."""
        return self.start + self.duration


def of_profile(profile: Any) -> list[Span]:
    """The spans of a `torch.profiler.profile` that has ended, in order of their start.

    Of a model on GPUs these are its kernels, of one on CPUs its calls. Backward includes the copying of
    buckets to gradients, and no waiting. Raises ValueError where nothing was recorded (yet).
    """
    inner = getattr(profile, "profiler", profile)
    results = getattr(inner, "kineto_results", None)
    if results is None:
        raise ValueError("report(profile=prof) comes after the `with profile() as prof:` block, not inside it.")
    return of_events(results.events())


def of_events(events: Iterable[Any]) -> list[Span]:
    """The spans among the events of the profiler, as its library kineto gives them."""
    events = list(events)
    kernels = [event for event in events if _on_gpu(event)]
    found = _of_kernels(kernels) if kernels else [span for event in events if (span := _of_call(event))]
    return _merged(found)


def _of_call(event: Any) -> Span | None:
    name = event.name()
    if name == _FORWARD:
        return _span("forward", event)
    if name.startswith(_BACKWARD):
        return _span("backward", event)
    if name.startswith(_OPTIMIZER):
        return _span("optimizer", event)
    if name.startswith("gloo:"):
        return _span(name.removeprefix("gloo:"), event)
    return None


def _of_kernels(kernels: list[Any]) -> list[Span]:
    """Kernels between DDP's forward and the optimizer's step, which leave marks on the GPU too, are backward's."""
    marks = [event for event in kernels if event.is_user_annotation()]
    forward = [_span("forward", event) for event in marks if event.name() == _FORWARD]
    optimizer = [_span("optimizer", event) for event in marks if event.name().startswith(_OPTIMIZER)]
    found = []
    for event in kernels:
        name = event.name().lower()
        if event.is_user_annotation() or name.startswith(("memcpy", "memset")):
            continue
        if "nccl" in name:
            known = (op for key, op in _COLLECTIVES.items() if key in name)
            found.append(_span(next(known, "collective"), event))
            continue
        middle = event.start_ns() + event.duration_ns() // 2
        around = (mark.kind for mark in (*forward, *optimizer) if mark.start <= middle // 1000 <= mark.end)
        found.append(_span(next(around, "backward"), event))
    return found


def _on_gpu(event: Any) -> bool:
    return str(event.device_type()).endswith("CUDA")


def _span(kind: str, event: Any) -> Span:
    start, end = event.start_ns() // 1000, (event.start_ns() + event.duration_ns()) // 1000
    return Span(kind, start, end - start)


def _merged(spans: list[Span]) -> list[Span]:
    """Compute spans of one kind that follow each other as one; collectives stay as they are."""
    result: list[Span] = []
    last: dict[str, int] = {}  # kind → where its last span is in the result
    for span in sorted(spans, key=lambda span: span.start):
        place = last.get(span.kind) if span.kind in COMPUTE else None
        if place is not None and span.start <= result[place].end + _GAP:
            before = result[place]
            result[place] = Span(span.kind, before.start, max(before.end, span.end) - before.start)
        else:
            last[span.kind] = len(result)
            result.append(span)
    return result


def overlap(spans: Iterable[Span]) -> float:
    """The share of the collectives' time during which the same rank also computed: 0 to 1, 0 without collectives."""
    spans = list(spans)
    compute = _union(span for span in spans if span.kind in COMPUTE)
    communication = _union(span for span in spans if span.kind not in COMPUTE)
    total = sum(end - start for start, end in communication)
    hidden = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in communication for b in compute)
    return hidden / total if total else 0.0


def _union(spans: Iterable[Span]) -> list[tuple[int, int]]:
    """The same times as intervals that do not overlap, in microseconds."""
    result: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if result and span.start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], span.end))
        else:
            result.append((span.start, span.end))
    return result
