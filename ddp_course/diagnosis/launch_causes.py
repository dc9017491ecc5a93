"""The rows of the table that are about starting, finding each other, devices, memory and files.

(kind, why, fix, section, pattern), as in `ddp_course.diagnosis.causes`.
"""

from __future__ import annotations

ROWS = (
    # Starting the script
    (
        "syntax_error",
        "Python cannot read the file, so nothing in it ran.",
        "Mend that line; the caret in the log marks where reading stopped.",
        "lesson 4, section 5",
        r"^(SyntaxError|IndentationError|TabError):",
    ),
    (
        "local_rank_argument",
        "The script wants --local-rank on its command line, as the old torch.distributed.launch gave it. torchrun puts "
        "the local rank into the environment and adds no argument.",
        'Read int(os.environ["LOCAL_RANK"]) and take the argument out of the parser.',
        "lesson 4, section 1",
        r"^\S+: error: .*--local[-_]rank",
    ),
    (
        "wrong_arguments",
        "The script's own argument parser refused its command line.",
        "Compare the arguments after the script's name with the parser's usage line in the log.",
        "lesson 4, section 2",
        r"^\S+: error: (the following arguments are required|unrecognized arguments|argument .*(invalid|expected))",
    ),
    (
        "module_hidden",
        "A file of yours, {module}.py, lies where Python looks first. `import {module}` finds it, and not the package "
        "of that name.",
        "Rename the file.",
        "lesson 4, section 1",
        r"^ModuleNotFoundError: No module named '(?P<module>\w+)\.[^']+'; '(?P=module)' is not a package",
    ),
    (
        "module_not_found",
        "The Python that runs the ranks, which is the notebook's own, has no module {module}: it is not installed, is "
        "installed for another Python, or the name is misspelt.",
        "Install it with %pip install in a notebook cell, which uses this same Python, or run the notebook with the "
        "Python that has it.",
        "lesson 4, section 1",
        r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'",
    ),
    # Finding each other
    (
        "initialised_twice",
        "init_process_group() was already called in this process; there can be one default process group.",
        "Call it once, at the top of the program; make further groups with torch.distributed.new_group().",
        "lesson 2, section 1",
        r"trying to initialize the default process group twice",
    ),
    (
        "not_started_by_torchrun",
        "init_process_group() reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which torchrun sets for each rank. "
        "This process has no {variable}: it is a notebook's own process, a plain `python script.py`, or took it away.",
        "Start the code with %%torchrun or torchrun. The notebook's own process is no rank.",
        "lesson 4, section 1",
        r"environment variable (?P<variable>\w+) expected, but not set",
    ),
    (
        "port_in_use",
        "Another program, often a run that is still alive, listens on the port that this one wants.",
        "End the other run, or take another --master-port; torchrun --standalone picks a free one.",
        "lesson 4, section 1",
        r"EADDRINUSE|[Aa]ddress already in use",
    ),
    (
        "rendezvous_node_missing",
        "The rendezvous waited for all members and {joined} had come when its time was up: a node or rank was not "
        "started, died before, or looked for another endpoint.",
        "Start every node with the same --nnodes, --rdzv-id and --rdzv-endpoint, and see in its own log what the "
        "missing one did.",
        "lesson 4, section 3",
        r"waiting for clients\. (?P<joined>\d+/\d+) clients joined",
    ),
    (
        "rendezvous_unreachable",
        "Nothing answers at the address where the ranks should meet: the endpoint or port is wrong, the first node is "
        "not up, or a firewall is between.",
        "Give every node the same --rdzv-endpoint (or --master-addr and --master-port), with a name that resolves and "
        "a port that is open, and start the node that hosts it.",
        "lesson 4, section 3",
        r"client socket has (timed out after .* connect|failed to connect)|connection to the C10d store has failed"
        r"|network addresses of .* cannot be retrieved|RendezvousConnectionError",
    ),
    (
        "rendezvous_node_missing",
        "The rendezvous closed or timed out before enough nodes had come.",
        "Start every node with the same --nnodes, --rdzv-id and --rdzv-endpoint.",
        "lesson 4, section 3",
        r"RendezvousTimeoutError|RendezvousClosedError",
    ),
    (
        "wrong_interface",
        "The ranks were told to talk over a network interface that this machine does not have{interface}.",
        "List the interfaces with `ip addr` and set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME to one that is there, "
        "or leave it unset.",
        "lesson 4, section 7",
        r"Unable to find address for(?P<interface>: \S+)|no socket interface found"
        r"|Unable to find interface for|GLOO_SOCKET_IFNAME",
    ),
    # Devices and backends
    (
        "gpu_shared_by_ranks",
        "Two ranks use the same GPU, which NCCL refuses: more ranks than GPUs, or no rank chose its own.",
        'Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before init_process_group(), and start at most one '
        "rank per GPU.",
        "lesson 4, section 2",
        r"Duplicate GPU detected",
    ),
    (
        "no_such_gpu",
        "The rank asked for a GPU number that this machine does not have: there are more ranks than GPUs, or the rank "
        "over all nodes was taken where the local rank belongs.",
        "Start at most one rank per GPU (--nproc-per-node=gpu) and choose the GPU by LOCAL_RANK.",
        "lesson 4, section 2",
        r"invalid device ordinal",
    ),
    (
        "no_gpu",
        "The script wants a GPU, and this rank sees none (or its PyTorch is built without CUDA).",
        'Choose the device by what is there: "cuda" if torch.cuda.is_available() else "cpu".',
        "lesson 1, section 2",
        r"Torch not compiled with CUDA enabled|No CUDA GPUs are available|Found no NVIDIA driver"
        r"|no CUDA-capable device",
    ),
    (
        "nccl_unavailable",
        "NCCL talks between GPUs only: this PyTorch has no NCCL, or the rank sees no GPU.",
        'Leave the backend out of init_process_group(), or say "gloo" where there is no GPU.',
        "lesson 1, section 2",
        r"have NCCL built in|ProcessGroupNCCL is only supported with GPUs",
    ),
    (
        "tensor_on_wrong_device",
        "The process group has no backend for tensors on {device}: NCCL takes tensors on GPUs only.",
        "Move the tensor to the rank's GPU first, or make the group with both: "
        'init_process_group("cpu:gloo,cuda:nccl").',
        "lesson 1, section 3",
        r"No backend type associated with device type (?P<device>\w+)|Tensors must be CUDA and dense",
    ),
    # Memory and files
    (
        "shared_memory_full",
        "The space for shared memory (/dev/shm) is full. Containers often get 64 MiB, too little for DataLoader "
        "workers and for NCCL.",
        "Start the container with --shm-size=8g or --ipc=host, or use fewer DataLoader workers.",
        "lesson 4, section 7",
        r"shared memory\(shm\)|out of shared memory|creating shared memory segment|Bus error",
    ),
    (
        "gpu_out_of_memory",
        "This rank's GPU has no room for what it asked for.",
        "Take a smaller batch per rank, activation checkpointing, bf16, or shard the state (lesson 3).",
        "lesson 1, section 1",
        r"^(torch\.)?OutOfMemoryError|CUDA out of memory",
    ),
    (
        "out_of_memory",
        "The system refused this rank the memory it asked for. Every rank keeps its own copy: N ranks need N times as "
        "much.",
        "Take fewer ranks, a smaller model or batch, or shard the state (lesson 3).",
        "lesson 1, section 1",
        r"^MemoryError|can't allocate memory|Cannot allocate memory|std::bad_alloc",
    ),
    (
        "disk_full",
        "The disk, or this user's share of it, is full.",
        "Free some space (old checkpoints, .ddp_course/runs) and run again.",
        "lesson 3, section 7",
        r"No space left on device|Disk quota exceeded",
    ),
)
