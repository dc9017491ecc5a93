"""Lesson 3's quick check."""

from __future__ import annotations

from ddp_course.exercises.base import Option, Question

QUIZ = [
    Question(
        "Two ranks, a batch of 4 on each, a model with BatchNorm under DDP. Over how many samples does a BatchNorm "
        "layer take its mean in training?",
        (
            Option("Over 8", "That would take an exchange in the forward pass. DDP exchanges in backward."),
            Option("Over 4", "Each rank's own ones. Gradients are averaged; statistics are not."),
            Option("Over all samples seen so far", "That is the running mean, which is used in evaluation."),
            Option("Over 2, one of each rank", "No rank sees samples of another one."),
        ),
        "b",
    ),
    Question(
        "SyncBatchNorm over C channels: what does each rank hand over in the forward pass?",
        (
            Option("Its whole batch", "Then memory and bytes would grow with the batch. Sums are enough."),
            Option("Its running statistics", "They are the result over many batches. This batch's sums are needed."),
            Option("Nothing: only gradients travel", "Without an exchange the mean stays this rank's own."),
            Option(
                "2C + 1 numbers",
                "Two for each channel, from which mean and variance follow, and the number of samples.",
            ),
        ),
        "d",
    ),
    Question(
        "`nn.SyncBatchNorm.convert_sync_batchnorm(model)` stands on a line of its own, before `DDP(model)`. The model "
        "has BatchNorm layers inside. What may be lost?",
        (
            Option(
                "Nothing inside; but where the model itself is one layer, it stays BatchNorm",
                "Layers inside are replaced in place. The outermost one can only be given back: keep the return value.",
            ),
            Option("The weights", "They are taken over into the new layers."),
            Option("The running statistics", "They are taken over too."),
            Option("Gradients: DDP is too late", "Convert, then wrap is the right order."),
        ),
        "a",
    ),
    Question(
        "DDP with plain BatchNorm and all defaults. Whose running statistics are in the checkpoint that rank 0 writes?",
        (
            Option("The mean over the ranks", "Buffers are not averaged; only gradients are."),
            Option("Those of the rank with the lowest loss", "No one compares losses."),
            Option(
                "Rank 0's",
                "Each forward begins with a broadcast of rank 0's buffers, and rank 0 writes its own: what it saw.",
            ),
            Option("None: buffers are not saved", "A state dict holds them beside the parameters."),
        ),
        "c",
    ),
    Question(
        "Mixed precision with AdamW, Ψ parameters, 64 ranks. What is the largest part on a rank under ZeRO-1?",
        (
            Option("The optimizer's 12Ψ", "That is what stage 1 has shared out: 12Ψ/64 are left."),
            Option("Activations sharded by 64", "ZeRO-1 does not touch activations, and Ψ says nothing of them."),
            Option("Nothing is left: 16Ψ/64", "That is ZeRO-3."),
            Option(
                "Parameters and gradients, 4Ψ",
                "Both are whole on every rank, however many there are. Stages 2 and 3 share them out.",
            ),
        ),
        "d",
    ),
    Question(
        "What does ZeRO-1 send in a step, compared with DDP?",
        (
            Option(
                "As much: a reduce-scatter and an all-gather",
                "They are the two halves of an all-reduce, with the step of each rank's piece between them.",
            ),
            Option("An N-th of it", "Memory shrinks to an N-th. Every weight still has to reach every rank."),
            Option("One and a half times as much", "That is ZeRO-3, which gathers the weights twice."),
            Option(
                "Twice as much: an all-reduce, and then a broadcast of the weights",
                "It can be written like that, and wastes bytes: a rank needs its own piece of the gradient only.",
            ),
        ),
        "a",
    ),
    Question(
        "A model of 12 blocks, each `fully_shard`ed with reshard_after_forward=True. How many all-gathers and "
        "reduce-scatters do the blocks alone make in one forward and backward?",
        (
            Option("12 and 12", "After forward the weights were let go: backward has to gather them again."),
            Option("24 and 12", "Two gathers for each block, and its gradient is scattered once."),
            Option("24 and 24", "Gradients exist in backward only: one reduce-scatter for each block."),
            Option("1 and 1", "That is the whole model as one group, kept after forward."),
        ),
        "b",
    ),
    Question(
        "A sharded model's loss stays the same to the last digit, and nothing fails. What do you look at first?",
        (
            Option("The network", "Slow or broken links give waiting and errors, not a constant loss."),
            Option("The batch size", "It changes how the loss falls, not whether a weight changes at all."),
            Option(
                "Whether the optimizer was built before fully_shard()",
                "Then it holds the old tensors. The new ones get gradients, and nobody steps them.",
            ),
            Option("Whether the ranks have different data", "With or without it, weights change."),
        ),
        "c",
    ),
    Question(
        "Which of these must be called on every rank?",
        (
            Option("`parameter.full_tensor()`", "It gathers the shards of all ranks."),
            Option("`torch.save(weights, path)` of gathered weights", "It writes a file. One rank is enough."),
            Option("`optimizer.consolidate_state_dict(to=0)`", "All ranks send their part, rank 0 receives."),
            Option("`get_model_state_dict` with full_state_dict=True", "It gathers, also for the ranks that get {}."),
            Option("`dcp.save(state, checkpoint_id=…)`", "Each rank writes its shards, and they agree on the plan."),
        ),
        "acde",
        choose_all=True,
    ),
    Question(
        "A job is killed while it saves. The folder holds step-000100, step-000200 and step-000300.tmp. From where "
        "does it go on?",
        (
            Option(
                "From step-000300.tmp, as far as it goes", "Files may be missing or half written, as its name says."
            ),
            Option("From the start", "Two whole checkpoints are there."),
            Option(
                "From step-000100: the second newest is the safe one",
                "step-000200 has its final name, and a folder gets that only when it is complete.",
            ),
            Option("From step-000200", "The newest with its final name. The rename came after the last byte."),
        ),
        "d",
    ),
    Question(
        "Someone sends you a DCP folder. Why not just `dcp.load` it?",
        (
            Option(
                "Its metadata is a pickle, and reading a pickle can run code",
                "Tensors are read with weights_only=True, the metadata and all that is no tensor are not.",
            ),
            Option("It needs as many ranks as wrote it", "DCP reads into any number of ranks."),
            Option("It holds no optimizer state", "It holds whatever was saved."),
            Option("It is too large for one process", "It may be, but dcp.load reads only what a rank needs."),
        ),
        "a",
    ),
    Question(
        "A matrix of 1,024 rows under FSDP2 on 16,384 ranks:",
        (
            Option("is cut into 16,384 equal pieces", "Cuts go between rows, and there are 1,024 of them."),
            Option(
                "lies on 1,024 ranks, a row on each",
                "The other ranks hold nothing of it, so that a row is 16 times the fair share.",
            ),
            Option("is refused", "It is sharded without a word, however uneven that is."),
            Option("is replicated on all ranks", "Only a mesh with a dimension for replicas does that."),
        ),
        "b",
    ),
]
