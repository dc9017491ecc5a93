"""The quick check of lesson 2."""

from __future__ import annotations

from ddp_course.exercises.base import Option, Question

QUIZ = [
    Question(
        "Two ranks hold the gradients 1.0 and 2.0 of a mean loss over equal batches. What does each rank step with "
        "under DDP?",
        (
            Option("1.5", "DDP sums and divides by the world size: what one process would have got on both batches."),
            Option("3.0", "That is the sum, what a bare all_reduce leaves. DDP divides it by the world size."),
            Option("Rank 0 with 1.0, rank 1 with 2.0", "Then the ranks would drift apart. DDP averages in backward."),
            Option("2.0, the largest one", "All-reduce can take a maximum, but gradients are averaged."),
        ),
        "a",
    ),
    Question(
        "10 samples, 4 ranks, a DistributedSampler as it comes. How many samples does an epoch go through?",
        (
            Option(
                "10: two ranks take 3, two take 2",
                "Ranks with unequal counts would call unequal numbers of all-reduces.",
            ),
            Option("8: the rest is dropped", "That is drop_last=True; as it comes the sampler pads."),
            Option(
                "12: two samples come twice",
                "Every rank gets 3, and the first samples fill up. Harmless in training, wrong in an evaluation.",
            ),
            Option("40: every rank sees them all", "That is what happens without a DistributedSampler."),
        ),
        "c",
    ),
    Question(
        "Rank 3 initialised its model with another seed. When does that stop to matter?",
        (
            Option("Never: its loss stays different", "Its loss differs because its data differs; its weights do not."),
            Option(
                "When DDP wraps the model",
                "The constructor broadcasts rank 0's parameters and buffers. No later step repairs a difference.",
            ),
            Option(
                "After the first all-reduce",
                "That makes gradients alike. Equal steps from unequal weights stay unequal.",
            ),
            Option(
                "With the first optimizer.step()",
                "Each rank steps from where it is; the step itself exchanges nothing.",
            ),
        ),
        "b",
    ),
    Question(
        "A model has 100 MiB of gradients in 8 layers of equal size, and DDP its usual caps: 1 MiB for the first "
        "bucket, 25 MiB for the others. Which layer's gradient travels first?",
        (
            Option(
                "The first layer's: buckets follow the forward pass", "Its gradient is the last one to be computed."
            ),
            Option(
                "All in one: 100 MiB in one all-reduce", "Then no communication could overlap with the backward pass."
            ),
            Option("The largest layer's", "They are all equal here, and size does not decide on the order."),
            Option(
                "The last layer's, as soon as it is ready",
                "Backward starts there. Its 12.5 MiB cross the cap of 1 MiB, so the bucket closes and goes at once.",
            ),
        ),
        "d",
    ),
    Question(
        "You accumulate 4 micro-batches. Which lines belong inside `model.no_sync()` for the first three?",
        (
            Option(
                "`loss.backward()`", "Too late: DDP decided in the forward pass to exchange. You count 4 reductions."
            ),
            Option(
                "`model(inputs)` and `loss.backward()`",
                "Both: the forward decides, the backward acts on it. 1 reduction.",
            ),
            Option("`optimizer.step()`", "There is one step, after the last micro-batch, and it talks to nobody."),
            Option(
                "All four micro-batches, the last one too", "Then nothing is ever exchanged, and the ranks drift apart."
            ),
        ),
        "b",
    ),
    Question(
        "Where in a step does gradient clipping belong?",
        (
            Option("Before backward", "There is no gradient yet."),
            Option(
                "In a hook, before each all-reduce",
                "Each rank would clip by the norm of its own shard, by other factors.",
            ),
            Option("After optimizer.step()", "The optimizer has used the gradient by then."),
            Option(
                "Between the last backward and optimizer.step()",
                "There every rank holds the same averaged gradient, finds the same norm and clips alike.",
            ),
        ),
        "d",
    ),
    Question(
        "What must a checkpoint hold for an exact resume?",
        (
            Option("The model", "Needed, and not enough."),
            Option("The optimizer's state", "AdamW's moments are as much a part of the next step as the weights are."),
            Option("The step, and with it the sampler's position", "Otherwise samples come twice and others never."),
            Option("The gradients of the last step", "They are zeroed and computed anew before they are used."),
            Option("Each rank's random state", "Dropout draws from it, and it differs from rank to rank."),
        ),
        "abce",
        choose_all=True,
    ),
    Question(
        "`DDP(model)` stops at the second step: Expected to have finished reduction in the prior iteration. What is "
        "the cause to look for first?",
        (
            Option(
                "Parameters that took no part in the loss of the first step",
                "Their gradients never come: that step's reduction stays open. find_unused_parameters=True allows it.",
            ),
            Option("A rank that is slower than the others", "The others would wait for it, without any error."),
            Option(
                "A learning rate that is too high", "Losses may explode; which gradients arrive does not depend on it."
            ),
            Option(
                "Another batch size on each rank", "DDP does not look at it. Only the average is then weighted wrongly."
            ),
        ),
        "a",
    ),
    Question(
        "Ranks 0 and 1 have 5 and 4 batches. Which repairs let every rank finish the epoch?",
        (
            Option(
                "`with model.join():` around the loop", "The rank that has finished answers the other's all-reduces."
            ),
            Option(
                "All ranks stop after as many batches as every rank has", "An all-reduce with MIN finds that number."
            ),
            Option("A longer time limit", "The missing all-reduce never comes, however long one waits."),
            Option("`drop_last=True` in the DistributedSampler", "Each rank then gets the same number of samples."),
        ),
        "abd",
        choose_all=True,
    ),
    Question(
        "The loss is a sum over each rank's samples instead of a mean. Against one process with all samples, DDP's "
        "gradient on N ranks is:",
        (
            Option(
                "The same", "It would be for a mean loss over equal shards; then averaging is what one process does."
            ),
            Option("N times as large", "That is a bare all_reduce of mean losses. DDP divides."),
            Option(
                "1/N of it",
                "The sums add up to the one-process sum, and DDP divides that by N. Multiply the loss by N.",
            ),
            Option("Wrong by a factor that changes from step to step", "The factor is fixed as long as N is."),
        ),
        "c",
    ),
    Question(
        "Two nodes with InfiniBand train three times slower than expected. rank 0's NCCL log says `Using network "
        "Socket`. What does that tell you?",
        (
            Option("The ranks inside a node have no NVLink", "That would show as `via SHM` between two of its GPUs."),
            Option("NCCL fell back to gloo", "NCCL never does. gloo is another backend, with no NCCL log at all."),
            Option(
                "Data between the nodes goes over TCP sockets, past the InfiniBand adapters",
                "NCCL found no usable adapter. Look at the `NET/IB` line, the drivers and NCCL_IB_HCA.",
            ),
            Option(
                "A rank is missing",
                "Then `Init COMPLETE` would be missing too, and nothing would train.",
            ),
        ),
        "c",
    ),
    Question(
        "PowerSGD with r = 2, every other setting as it comes. Which gradients does it send whole?",
        (
            Option(
                "That of a 4 × 1,000 weight",
                "(4 + 1,000) · 2 · 2 = 4,016 is not below its 4,000 numbers, so nothing would be saved.",
            ),
            Option("That of a 100 × 100 weight", "(100 + 100) · 2 · 2 = 800 is below 10,000: it is compressed."),
            Option("All of them in the first 1,000 steps", "start_powerSGD_iter is 1,000 unless you change it."),
            Option("That of a bias with 4,096 numbers", "A vector is no matrix: it cannot be a product of thin ones."),
        ),
        "acd",
        choose_all=True,
    ),
]
