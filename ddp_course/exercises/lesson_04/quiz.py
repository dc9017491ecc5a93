"""The quick check of lesson 4."""

from __future__ import annotations

from ddp_course.exercises.base import Option, Question

QUIZ: list[Question] = [
    Question(
        "torchrun --nnodes=3 --nproc-per-node=4, on the node with --node-rank=2: which RANK has the process with "
        "LOCAL_RANK 1?",
        (
            Option("5", "That is 4 + 1: the place on node 1. Nodes are counted from 0, and two come before this one."),
            Option("9", "Nodes 0 and 1 have ranks 0 to 7; this node begins with 8, and its local rank 1 is 9."),
            Option("7", "3 · 2 + 1 takes the nodes for the ranks of a node. Each node has 4 of them."),
            Option("1", "That is the local rank. Only on node 0 is it the rank as well."),
        ),
        "b",
    ),
    Question(
        "Which number picks the GPU, and which one picks the data?",
        (
            Option(
                "RANK the GPU, LOCAL_RANK the data",
                "On node 1 the rank is larger than any GPU's number there, and both nodes would see the same data.",
            ),
            Option("RANK both", "Right for the data. On the second node there is no GPU with that number."),
            Option("LOCAL_RANK both", "Right for the GPU. But local rank 0 of two nodes would train on the same data."),
            Option(
                "LOCAL_RANK the GPU, RANK the data",
                "GPUs are counted on each machine, samples over all of them.",
            ),
        ),
        "d",
    ),
    Question(
        "One of 16 ranks ends with exit code 1, and --max-restarts is 2. What happens?",
        (
            Option(
                "All 16 are ended, and all 16 start anew from the first line",
                "A process group takes in no new member, so all of them have to meet again.",
            ),
            Option(
                "That rank starts anew, and joins the 15 others again",
                "The others are in a process group that cannot take it in, and some already wait for it.",
            ),
            Option(
                "The 15 others go on with a world size of 15",
                "No process group shrinks by itself. With --nnodes MIN:MAX, a new start can be smaller.",
            ),
            Option("The run ends: a restart is for signals only", "An exception is a failure like a signal."),
        ),
        "a",
    ),
    Question(
        "With two restarts a run got through, but its loss jumped back twice to what it was at the beginning. Why?",
        (
            Option(
                "The learning rate's warm-up began again",
                "A learning rate does not undo steps. It would begin again if it were counted in steps of this start.",
            ),
            Option("torchrun took an older snapshot", "torchrun knows nothing of snapshots: it starts the script."),
            Option(
                "The script looks for no snapshot when it starts",
                "Each start is the script's first line anew. Without reading a snapshot it trains from step 0.",
            ),
            Option("Another rank became rank 0", "Which process is rank 0 makes no difference to the weights."),
        ),
        "c",
    ),
    Question(
        "A run goes on from its snapshot with 4 ranks instead of 8; the global batch stays. What stays equal, as "
        "train_ddp.py does it?",
        (
            Option("The samples of each global batch", "The position is a number of global batches, without any rank."),
            Option("The learning rate of each step", "It is a function of the step, and belongs to the global batch."),
            Option("The bits of the weights after ten more steps", "Sums are made in another order, and rounded."),
            Option("The dropout masks", "Each rank draws its own, and half of the ranks are gone."),
        ),
        "ab",
        choose_all=True,
    ),
    Question(
        "--nnodes 2:4, and one of four nodes loses its power. What follows?",
        (
            Option(
                "The run ends: torchrun restarts ranks, not nodes", "With MIN:MAX it goes on with fewer, down to MIN."
            ),
            Option(
                "The three others meet anew, and their ranks start again with a smaller world size",
                "Its heartbeats stop, the others meet without it, and all ranks begin at the snapshot.",
            ),
            Option(
                "The ranks of the three others go on where they are",
                "They wait in a collective for the lost ones, and are ended.",
            ),
            Option("Everything waits until the fourth node is back", "So it would be with --nnodes 4."),
        ),
        "b",
    ),
    Question(
        "torchrun's summary names rank 5 as the root cause: Connection closed by peer. What do you do first?",
        (
            Option("Replace the machine of rank 5", "Rank 5 only noticed that another one had gone."),
            Option("Set a longer time limit", "Nothing timed out: a connection was closed from the other side."),
            Option("Lower the batch size", "Memory may be why the other rank died. First find that rank."),
            Option(
                "Look for a rank that failed otherwise, or left with exit code 0",
                "Rank 5 is a victim. The cause is a rank with another error or signal, or one that left early.",
            ),
        ),
        "d",
    ),
    Question(
        "What does @record do around main()?",
        (
            Option(
                "It writes an exception to a file that torchrun's summary then shows",
                "To TORCHELASTIC_ERROR_FILE, as JSON: message, traceback and time.",
            ),
            Option("It keeps the ranks' output for --log-dir", "That is for --redirects and --tee to do."),
            Option("It starts main() again after an exception", "Starting again is the agent's part."),
            Option("It records every collective", "That is the flight recorder, and it needs no decorator."),
        ),
        "a",
    ),
    Question(
        "Four ranks hang. The flight recorders' last entries are all_reduce 117, 117, 116 and 117; the third has ended "
        "its own. Which rank do you look at?",
        (
            Option("Rank 0: it coordinates the others", "It waits in collective 117, as ranks 1 and 3 do."),
            Option(
                "All but rank 2: they wait longest",
                "They are victims, and their stacks all show the same line.",
            ),
            Option("Rank 2: it has not come to 117", "It is the missing one. Its stack says what keeps it."),
            Option("None: the limit is too short", "With a longer one they wait longer."),
        ),
        "c",
    ),
    Question(
        "Who may be able to reach the rendezvous port of a job?",
        (
            Option("Everybody: it carries no data", "It carries pickles, and reading a pickle can run code."),
            Option("The nodes of the job, on a network that you trust", "The store asks for no password."),
            Option("Whoever knows the job's --rdzv-id", "The id keeps jobs apart. It is not checked like a password."),
            Option("Nobody: ranks talk directly", "They first have to find each other, and do so through the store."),
        ),
        "b",
    ),
    Question(
        "64 ms of backward fill 4 buckets at an even pace, and each all-reduce takes 16 ms. How much of the 64 ms of "
        "communication shows?",
        (
            Option("0 ms: it all fits under backward", "The last bucket is full only when backward ends."),
            Option("64 ms", "That would be without overlap, or with a single bucket."),
            Option("48 ms", "Three of the four are through by the end of backward: each ends as the next is full."),
            Option("16 ms", "The last bucket's. The network is just fast enough for the three others."),
        ),
        "d",
    ),
    Question(
        "A training scales to 95 % on 1,024 GPUs with 32 samples on each. Which of these lower the efficiency?",
        (
            Option("Half as many samples on each GPU", "Half the computing, and just as many bytes."),
            Option("A model with fewer parameters, but equally much computing", "Fewer bytes hide more easily."),
            Option("A network that is half as fast", "Each bucket takes twice as long."),
            Option("One GPU that now and then needs longer for a step", "All others wait for it, in every such step."),
        ),
        "acd",
        choose_all=True,
    ),
]
