# feedback: expected ('cuda:0', 'nccl') you returned ('cpu', 'gloo') on rank 0 As many GPUs as ranks are enough.
import os


def place(gpus):
    if gpus > int(os.environ["LOCAL_WORLD_SIZE"]):
        return f"cuda:{os.environ['LOCAL_RANK']}", "nccl"
    return "cpu", "gloo"
