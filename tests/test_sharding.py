"""What lesson 3 says of sharded training: collectives, bytes, equality with DDP, decoders over pretended ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_course import launch
from ddp_course.memory import decoder_parameters
from ddp_course.pictures.sharding import state_per_rank, step_traffic
from ddp_course.traffic import sent

PROGRAMS = Path(__file__).parent / "programs"
RANKS = (8, 64, 1024, 16_384)


def in_ranks(program: str, ranks: int, *arguments: str) -> list[dict[str, Any]]:
    """What each rank of a program reports last."""
    run = launch(str(PROGRAMS / program), *arguments, nproc_per_node=ranks, timeout=120)
    return [rank.reports[-1] for rank in run.ranks]


def pretending(body: str) -> Any:
    """What a script in a fresh process prints as JSON, after `from ddp_course.sharding import *`; with its peak MiB."""
    script = f"import json, resource\nfrom ddp_course.sharding import *\n{body}"
    script += (
        "\nresult = [result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]\nprint(json.dumps(result))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=280, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("ranks", [2, 3])
def test_sharded_training_is_ddps(ranks: int) -> None:
    for one in in_ranks("sharded_equals_ddp.py", ranks):
        assert one["apart"] < 1e-5 and one["norms"] < 1e-5, one
        assert one["clipped"]


def test_collectives_of_a_step_are_those_that_the_groups_ask_for() -> None:
    (one, _) = in_ranks("sharded_collectives.py", 2)
    assert one["counts"] == {"5 True": [10, 5], "5 False": [5, 5], "1 True": [2, 1], "1 False": [1, 1]}


def test_bytes_of_a_step_beside_ddps() -> None:
    (one, _) = in_ranks("sharded_collectives.py", 2)
    assert one["volume"]["resharded"] == pytest.approx(1.5)
    assert 1.0 < one["volume"]["default"] < 1.5
    assert one["volume"]["bf16"] == pytest.approx(one["volume"]["default"] - one["gathered"] / 2)
    assert one["held"] == "torch.float32"


def test_a_ring_sends_each_collective_as_nccl_tests_counts_it() -> None:
    assert sent([("all_reduce", 800)], 4) == 1200
    assert sent([("all_gather", 800), ("reduce_scatter", 800)], 4) == 1200
    assert sent([("all_gather", 800)], 1) == 0


def test_decoders_have_the_parameters_of_the_formula() -> None:
    result, _ = pretending(
        "pretend(8)\nresult = {name: [vars(dims), share(dims, 8)[0]] for name, dims in DECODERS.items()}"
    )
    for name, (dims, whole) in result.items():
        by_formula = decoder_parameters(dims["width"], dims["layers"], dims["hidden"], dims["vocabulary"], dims["kv"])
        assert whole == by_formula
        assert abs(whole / 1e9 - float(name.removesuffix(" B"))) < 1


@pytest.mark.parametrize("name", ["8 B", "70 B", "405 B"])
def test_a_decoder_over_8_to_16384_ranks_takes_little_memory_and_no_more_than_its_rows_allow(name: str) -> None:
    result, mib = pretending(f"pretend(16_384)\nresult = [share(DECODERS[{name!r}], ranks) for ranks in {RANKS}]")
    assert mib < 2048
    for ranks, (whole, here) in zip(RANKS, result, strict=True):
        assert here * ranks >= whole
        if ranks <= 64:
            assert here * ranks == whole
    assert result[2][1] * 1024 < 1.001 * result[2][0]
    assert result[3][1] * 16_384 > 1.2 * result[3][0]


@pytest.mark.parametrize("name", ["8 B", "70 B", "405 B"])
def test_one_block_counted_often_is_the_whole_model_sharded(name: str) -> None:
    (whole, counted), mib = pretending(
        f"pretend(1024)\n"
        f"dims = DECODERS[{name!r}]\n"
        f"model = shard(dims, 1024)\n"
        f"result = [sum(map(held, model.parameters())), share(dims, 1024)[1]]"
    )
    assert whole == counted
    assert mib < 2048


def test_a_traced_step_of_8_b_asks_for_what_its_groups_need() -> None:
    result, mib = pretending("pretend(1024)\nresult = trace(shard(DECODERS['8 B'], 1024))")
    names = [name for name, _ in result]
    assert names.count("all_gather") == 65 and names.count("reduce_scatter") == 33 and len(names) == 98
    assert set(names[:33]) == {"all_gather"}
    assert names[33:36] == ["all_gather", "all_gather", "reduce_scatter"], "the next block is gathered beforehand"
    assert mib < 2048
    assert sent([tuple(row) for row in result], 1024) / 1e9 == pytest.approx(92.1, abs=0.1)


def test_the_pictures_say_what_they_show() -> None:
    held = {"8 B": {8: 1 << 34, 64: 1 << 31}}
    picture = state_per_rank(held, {"8 B": 1 << 37}, gpu_gib=80)
    assert "8 B" in picture.caption and picture._repr_png_().startswith(b"\x89PNG")
    log = [("all_gather", 1 << 20), ("all_gather", 1 << 20), ("reduce_scatter", 1 << 20)]
    assert "3 collectives" in step_traffic(log, forward=1).caption
