"""The table of known causes: what the error says, why that happens, how to mend it, which lesson explains it.

An entry is found by `pattern`, a regular expression on "Type: message" of the exception (or on what the rank
wrote last, where it ended without one), or by `waits_in`, on the names of the library functions that the
learner's line was in when a rank waited in vain. The first entry that fits is taken; {name} in a text is the
pattern's group of that name. What fits no entry is shown as it is: no cause is ever guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_course.diagnosis import launch_causes


@dataclass(frozen=True)
class Cause:
    """One row of the table."""

    kind: str
    why: str
    fix: str
    section: str
    pattern: str = ""
    waits_in: str = ""


@dataclass(frozen=True)
class Found:
    """A row of the table that fits, with its texts filled in."""

    kind: str
    why: str
    fix: str
    section: str


# Errors that only say that another rank is gone. The ranks that raise them are victims.
LOST_CONNECTION = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|Connection was likely closed"
    r"|recvValue failed|sendBytes failed|Application timeout caused pair closure"
    r"|failed to recv, got 0 bytes|remote process exited or there was a network error"
    r"|connectFullMesh failed|Socket Timeout|NCCL communicator was aborted|SignalException"
)

# Errors of a rank that waited as long as its process group's time limit allows.
TIMED_OUT = re.compile(
    r"Timed out waiting \d+ms for (recv|send) operation|Watchdog caught collective operation timeout"
    r"|monitoredBarrier|failed to pass monitoredBarrier"
)

# What a rank waited in, for the hangs, the time limits and the ranks left alone by one that ended early.
WAITING = (
    Cause(
        "state_dict_on_one_rank",
        "A full state dict is gathered from the shards of all ranks: asking for it is a collective, and only "
        "some of the ranks asked.",
        "Call it on every rank, outside `if rank == 0`, and let rank 0 alone write the file.",
        "lesson 3, section 7",
        waits_in=r"get_(model|optimizer)_state_dict|^get_state_dict$|full_tensor|^_all_gather_dtensor$",
    ),
    Cause(
        "consolidate_on_one_rank",
        "consolidate_state_dict() gathers every rank's part of the optimizer state: it is a collective, and "
        "only some of the ranks called it.",
        "Call optimizer.consolidate_state_dict(to=0) on every rank, then save on rank 0.",
        "lesson 3, section 5",
        waits_in=r"consolidate_state_dict",
    ),
    Cause(
        "uneven_batches",
        "DDP reduces the gradients of every backward pass over all ranks. Here one rank reduced more often than "
        "another: it has more batches, or the other stopped earlier, left out a backward() or made it under no_sync().",
        "Give every rank the same number of batches (DistributedSampler, drop_last=True), or train inside "
        "`with torch.distributed.algorithms.Join([model]):`. Stop early on all ranks at once.",
        "lesson 2, section 6",
        waits_in=r"^backward$|_engine_run_backward|_pre_forward|_sync_buffers|_rebuild_buckets",
    ),
    Cause(
        "process_group_incomplete",
        "init_process_group() returns when every rank of the run has called it, and one has not.",
        "Call it on every rank, before anything that can take long or end a rank.",
        "lesson 1, section 2",
        waits_in=r"^init_process_group$|^init_device_mesh$",
    ),
    Cause(
        "send_without_receive",
        "send() ends when the other rank receives, recv() when the other rank sends. Here the partner is somewhere "
        "else, or both do the same first.",
        "Order them in pairs (one rank sends while its partner receives), or start both with isend() and irecv() "
        "and wait afterwards, or use batch_isend_irecv().",
        "lesson 1, section 5",
        waits_in=r"^(send|recv|isend|irecv|batch_isend_irecv|send_object_list|recv_object_list)$",
    ),
    Cause(
        "diverging_collectives",
        "A collective ends when every rank of the process group has called it, all of them in the same order. "
        "Here the ranks took different ways through the program.",
        "Call it on every rank: look for an `if` on the rank, a loop with another number of rounds, or a return, "
        "break or exit that one rank takes alone.",
        "lesson 4, section 6",
    ),
)

# The agents of a run of several nodes that never met.
NODE_MISSING = Found(
    "rendezvous_node_missing",
    "No rank starts before the agents of all nodes have met. One was not started, died before, or looked for another "
    "endpoint.",
    "Start every node, with the same --nnodes, --rdzv-id and --rdzv-endpoint (or --master-addr and --master-port). "
    "With static rendezvous each needs its own --node-rank.",
    "lesson 4, section 3",
)

# Waits of which more is known than the function.
STOPPED = Found(
    "stopped",
    "The process was stopped by a signal (SIGSTOP, or Ctrl-Z in its terminal), so nothing in it ran.",
    "Let it go on (`kill -CONT`, or `fg`), or find what stopped it: a debugger, a job scheduler.",
    "lesson 4, section 6",
)
ELSEWHERE = Found(
    "elsewhere",
    "A collective ends when every rank of the process group has called it. Who is missing was at that line: busy or "
    "stuck there, or on a way through the program that leaves the call out.",
    "See what the line waits for. If it would have ended, follow the program from there: an `if` on the rank, a loop "
    "with another number of rounds or an early return leaves a call out on one rank alone.",
    "lesson 4, section 6",
)
ALL_CAME = Found(
    "all_came",
    "Every rank is in the same call and it does not end, so the order of the calls is not the fault.",
    "Look below the program: the network between the ranks, its interface and firewall, the GPUs.",
    "lesson 4, section 6",
)
OTHER_ROOTS = Found(
    "other_roots",
    "Every rank is in the same call and it does not end. With a broadcast, reduce, gather or scatter that happens "
    "where the ranks do not agree on the root: each waits for another one.",
    "Give the same src= (or dst=) on every rank. If all give the same, look below the program: the network between the "
    "ranks, its interface and firewall, the GPUs.",
    "lesson 1, section 3",
)
ALL_IN_INIT = Found(
    "all_in_init",
    "Every rank of the run is in init_process_group() and waits: for more ranks than there are, for a number that two "
    "of them share, or at an address where nobody listens.",
    "torchrun tells each rank its RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: do not set them in the script, and "
    "leave rank= and world_size= out. If you do neither, look at the network between the ranks.",
    "lesson 4, section 1",
)
RECEIVED_ANOTHER_SIZE = Found(
    "received_another_size",
    "What the other rank sent has another size than the tensor that was to take it; gloo compares the bytes, and ends "
    "the process that receives.",
    "Receive into a tensor of the sender's shape and dtype; where the sizes vary, send the size first.",
    "lesson 1, section 5",
)
OTHER_SHAPES = Found(
    "other_shapes",
    "A collective needs the same shape and dtype on every rank. gloo does not check: it waits for ever, or mixes up "
    "the values and goes on.",
    "Give the tensor the same shape and dtype on every rank: pad it, or tell each other the sizes first.",
    "lesson 1, section 3",
)

TRAINING = (
    Cause(
        "mismatched_collectives",
        OTHER_SHAPES.why,
        OTHER_SHAPES.fix,
        OTHER_SHAPES.section,
        r"Is there a distributed collective mismatch in your code",
    ),
    Cause(
        "unused_parameters",
        "DDP waits for the gradient of every parameter. Those with the indices {indices} in model.parameters() had no "
        "part in the loss of the last step.",
        "Use them in forward, take them out of the model, set requires_grad=False before wrapping, or wrap with "
        "find_unused_parameters=True.",
        "lesson 2, section 3",
        r"Expected to have finished reduction in the prior iteration(?s:.*)for rank \d+: (?P<indices>[\d ]+)$",
    ),
    Cause(
        "parameter_ready_twice",
        "DDP reduces each gradient once per backward pass, and one came a second time: the parameter is used in "
        "several reentrant backward passes, or forward ran on model.module instead of model.",
        "Call the wrapped model, not .module; use checkpoint(..., use_reentrant=False).",
        "lesson 2, section 3",
        r"Expected to mark a variable ready only once",
    ),
    Cause(
        "models_differ",
        "DDP averages parameter by parameter, so every rank must build the same model. This rank's differs from "
        "rank 0's.",
        "Build the model from the same settings on every rank; nothing in it may depend on the rank.",
        "lesson 2, section 3",
        r"appears not to match (sizes|strides) of the same param in process|DDP expects same model across all ranks",
    ),
    Cause(
        "parameter_added_after_wrap",
        "DDP knows the parameters that the model had when it was wrapped. Those added later get no reduced gradient: "
        "each rank trains its own.",
        "Build the whole model first, then wrap it, then make the optimizer.",
        "lesson 2, section 3",
        r"^added after wrap",
    ),
    Cause(
        "optimizer_before_sharding",
        "fully_shard() replaces the parameters by shards. The optimizer was made before and still holds the old "
        "ones: its steps change nothing.",
        "Make the optimizer after the last fully_shard().",
        "lesson 3, section 6",
        r"^optimizer before sharding",
    ),
    Cause(
        "device_ids_on_cpu",
        "device_ids names the GPU of a model that is on a GPU. This model is on the CPU.",
        "Leave device_ids out on the CPU, or move the model to the GPU before wrapping: model.to(local_rank).",
        "lesson 2, section 1",
        r"device_ids and output_device arguments only work with",
    ),
    Cause(
        "sync_batch_norm_on_cpu",
        "nn.SyncBatchNorm runs on GPUs only, and here the model or its input is on the CPU.",
        "Convert only where there are GPUs; on the CPU take the layer you write in the lesson, or GroupNorm.",
        "lesson 3, section 2",
        r"SyncBatchNorm layers only work with GPU modules|SyncBatchNorm expected input tensor to be on GPU",
    ),
    Cause(
        "batch_of_one",
        "BatchNorm subtracts the mean of the batch: with one value per channel nothing is left. This rank's last "
        "batch, or its share of it, holds one sample.",
        "Use drop_last=True, a larger batch per rank, or GroupNorm.",
        "lesson 3, section 1",
        r"Expected more than 1 value per channel when training",
    ),
    Cause(
        "module_prefix",
        "The names in the state dict start with `module.`: it was saved from the DDP wrapper, and is loaded into the "
        "model itself.",
        "Save model.module.state_dict(), or take the prefix off: "
        "torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, 'module.').",
        "lesson 3, section 7",
        r"loading state_dict for (?s:.*)Unexpected key\(s\) in state_dict: .*?\"module\.",
    ),
    Cause(
        "module_prefix",
        "The state dict was saved from the model itself, and is loaded into its DDP wrapper, whose names start with "
        "`module.`.",
        "Load it before wrapping, or into model.module.",
        "lesson 3, section 7",
        r"loading state_dict for DistributedDataParallel:(?s:.*)Missing key\(s\) in state_dict: \"module\.",
    ),
    Cause(
        "unconsolidated_state",
        "ZeroRedundancyOptimizer keeps a part of the state on each rank; state_dict() needs it gathered first.",
        "Call optimizer.consolidate_state_dict(to=0) on every rank, then state_dict() on rank 0.",
        "lesson 3, section 5",
        r"Optimizer state has not been consolidated on this rank",
    ),
)


def by_text(text: str) -> Found | None:
    """The first cause whose pattern is in `text`; None where none is."""
    for cause in (*TRAINING, *ALL_LAUNCH):
        if found := re.search(cause.pattern, text, re.M):
            words = {name: value or "" for name, value in found.groupdict().items()}
            return Found(cause.kind, _fill(cause.why, words), _fill(cause.fix, words), cause.section)
    return None


def by_wait(names: Sequence[str]) -> Found:
    """What it means that a rank waited in vain in these functions, the outermost first."""
    for cause in WAITING:
        if any(re.search(cause.waits_in, name) for name in names) or not cause.waits_in:
            return Found(cause.kind, cause.why, cause.fix, cause.section)
    raise AssertionError("the last entry of WAITING fits everything")


def by_calls(names: Sequence[Sequence[str]]) -> Found | None:
    """The same for ranks that met in calls which do not match, with the functions each of them was in: known only
    where some ranks were in a function that all of them have to call."""
    for cause in WAITING[:3]:
        inside = [any(re.search(cause.waits_in, name) for name in own) for own in names]
        if any(inside) and not all(inside):
            return by_wait([name for own in names for name in own if re.search(cause.waits_in, name)])
    return None


def _fill(text: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text


ALL_LAUNCH = tuple(Cause(*row) for row in launch_causes.ROWS)
