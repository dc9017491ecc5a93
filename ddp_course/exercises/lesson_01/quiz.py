"""The quick check of lesson 1."""

from __future__ import annotations

from ddp_course.exercises.base import Option, Question

QUIZ = [
    Question(
        "A model of 8 billion parameters is trained in fp32 with AdamW. What is in memory before any activation?",
        (
            Option(
                "32 GB: that is what the file of weights is",
                "Those are the parameters alone: 4 bytes each. A step also needs gradients and AdamW.",
            ),
            Option("64 GB", "Parameters and gradients. AdamW keeps two more numbers for each parameter."),
            Option("128 GB", "16 bytes a parameter: 4 for itself, 4 for its gradient, 8 for AdamW's two averages."),
            Option("96 GB", "That would be an optimizer with one number a parameter, such as SGD with momentum."),
        ),
        "c",
    ),
    Question(
        "torchrun starts 8 processes, 4 on each of two nodes. What is the local rank of rank 6?",
        (
            Option("6", "Ranks count over all nodes; local ranks start again at 0 on each."),
            Option("2", "Ranks 4 to 7 are on the second node, with local ranks 0 to 3."),
            Option("1", "That is the number of its node."),
            Option("It has none, it is not on node 0", "Every process has a local rank: the GPU it takes."),
        ),
        "b",
    ),
    Question(
        "Which collective leaves every rank with a different piece of the sum?",
        (
            Option("reduce-scatter", "It sums, and each rank keeps one piece. An all-gather then completes it."),
            Option("all-reduce", "It leaves the whole sum on every rank."),
            Option("all-gather", "It gives all pieces to everybody, and sums nothing."),
            Option("reduce, with another root on each rank", "It leaves the whole sum on one rank."),
        ),
        "a",
    ),
    Question(
        "Rank 0 has 6 samples, rank 1 has 2, and the loss is the mean. Each rank takes the mean loss of its own "
        "samples, and the gradients are averaged. What is wrong?",
        (
            Option("Nothing: a mean of means is the mean", "Only where all ranks have equally many samples."),
            Option(
                "The ranks' weights drift apart",
                "All step with the same averaged gradient, so they stay equal, and equally wrong.",
            ),
            Option("The gradient is twice too large", "It is not a multiple of the right one: it mixes wrongly."),
            Option(
                "Each sample of rank 1 weighs three times as much as one of rank 0",
                "1/2 · 1/2 against 1/2 · 1/6. Sum, and divide by the 8 samples of all ranks.",
            ),
        ),
        "d",
    ),
    Question(
        "A ring all-reduce of 800 MB over 8 ranks: how much does each rank send?",
        (
            Option("800 MB", "Close: 2(N−1)/N is less than 2, and more than 1 for N above 2."),
            Option("1,400 MB", "2 · 7/8 · 800 MB, in 14 steps of 100 MB. For many ranks it approaches 1,600 MB."),
            Option(
                "5,600 MB, in 7 steps", "That is sending the whole tensor in each of 7 steps. The ring sends chunks."
            ),
            Option("100 MB", "That is one chunk: what is sent in one step of 14."),
        ),
        "b",
    ),
    Question(
        "Sixteen times as many ranks take part in an all-reduce of the same large tensor. What happens to the "
        "bytes that each rank sends in a ring?",
        (
            Option("They hardly change: 2(N−1)/N is nearly 2 in both cases", "That is why a ring scales in bandwidth."),
            Option(
                "They grow 16 times, as there are 16 times as many partners to send to",
                "What grows so is the number of steps, and with it the latency.",
            ),
            Option("They shrink to a 16th", "Chunks do, but there are that many more steps."),
            Option("They double", "2(N−1)/N never reaches 2."),
        ),
        "a",
    ),
    Question(
        "You all-reduce 1,000 tensors of 4 KB over 64 ranks, one by one. Which change helps most?",
        (
            Option("A faster link", "4 KB take hardly any time on the link; 126 latencies each do."),
            Option("Half precision", "It halves bytes, and bytes are not what this waits for."),
            Option(
                "One all-reduce of all of them together",
                "One latency instead of a thousand: that is what buckets are for.",
            ),
            Option("A ring in the other direction", "The number of steps stays the same."),
        ),
        "c",
    ),
    Question(
        "A pipeline of 4 stages gets a batch in 4 micro-batches. Which share of the time does a stage wait?",
        (
            Option("A quarter", "That is 1/p. The bubble is (p−1)/(m+p−1)."),
            Option("3/4", "That is without micro-batches, m = 1: one stage works at a time."),
            Option("None, when all stages take equally long", "The last one still waits for the first micro-batch."),
            Option("3/7", "(p−1)/(m+p−1) = 3/(4+3). With 12 micro-batches it is 3/15."),
        ),
        "d",
    ),
    Question(
        "Which of these make a model fit whose weights alone are larger than one GPU?",
        (
            Option("Tensor parallelism", "Each rank holds a part of every matrix."),
            Option("Plain data parallelism", "Every rank holds the whole model: more GPUs do not help."),
            Option("A pipeline", "Each rank holds some of the layers."),
            Option("ZeRO stage 3", "The parameters are sharded too, and gathered layer by layer."),
            Option("ZeRO stage 1", "It shards the optimizer's state only; the weights stay whole."),
        ),
        "acd",
        choose_all=True,
    ),
    Question(
        "Why is `nn.DataParallel` not used for training on several GPUs?",
        (
            Option(
                "It copies the model anew in each forward, and one process drives all GPUs",
                "One interpreter, one lock, and GPU 0 scatters, gathers and holds the sum.",
            ),
            Option("It works on one GPU only", "It runs on several, in one process; it is only slow."),
            Option("Its gradients are wrong", "They are right; it is the way to them that costs."),
            Option("It needs a fast network", "It never leaves the machine, and cannot."),
        ),
        "a",
    ),
]
