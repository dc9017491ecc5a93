"""The drawing of lesson 4 about who starts whom: nodes, their agents, their ranks, and the store."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from ddp_course.pictures.base import COLOURS, DARK, Picture

_WIDTH, _GAP = 1.5, 0.25  # of a rank's box, and beside it


def job(nnodes: int = 2, nproc_per_node: int = 2) -> Picture:
    """The processes of a job: on each node an agent that starts its ranks, and the store that all connect to."""
    picture = Picture(
        f"{nnodes} nodes with {nproc_per_node} ranks each. Arrows: an agent starts the ranks of its node. "
        "Dashed: agents meet at the store; their ranks do after them.",
        height=3.2,
    )
    axes = picture.subplots()
    axes.axis("off")
    node_width = nproc_per_node * (_WIDTH + _GAP) + _GAP
    pitch = node_width + 2 * _GAP
    centre = (nnodes * pitch - 2 * _GAP) / 2
    for node in range(nnodes):
        left = node * pitch
        middle = left + node_width / 2
        _box(axes, left, 0, node_width, 2.6, "white", f"node {node}", (left + _GAP, 2.35))
        axes.plot([centre, middle], [3.1, 2.05], "--", color=DARK, linewidth=1.2, zorder=2.5)
        _box(axes, middle - _WIDTH / 2, 1.45, _WIDTH, 0.6, "#e4e4e4", "agent")
        for local_rank in range(nproc_per_node):
            rank, x = node * nproc_per_node + local_rank, left + _GAP + local_rank * (_WIDTH + _GAP)
            _box(axes, x, 0.2, _WIDTH, 0.75, COLOURS[rank % 8], f"RANK {rank}\nLOCAL_RANK {local_rank}")
            start = {"arrowstyle": "->", "color": DARK}
            axes.annotate("", (x + _WIDTH / 2, 0.97), (middle, 1.43), arrowprops=start)
    _box(axes, centre - 2, 3.1, 4, 0.75, "#e4e4e4", "store at MASTER_ADDR:MASTER_PORT\n(served on node 0)")
    axes.set(xlim=(-0.1, 2 * centre + 0.1), ylim=(-0.1, 3.95), aspect="equal")
    return picture


def _box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str,
    text: str,
    place: tuple[float, float] | None = None,
) -> None:
    """A box with its text, in the middle where no `place` is given."""
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, style, facecolor=colour, edgecolor=DARK, zorder=2))
    ink = "white" if colour == COLOURS[0] else "black"
    at = place or (x + width / 2, y + height / 2)
    axes.text(*at, text, ha="left" if place else "center", va="center", fontsize=9.5, color=ink, zorder=3)
