# right: compares the node's ranks with its GPUs
import os


def place(gpus):
    if gpus >= int(os.environ["LOCAL_WORLD_SIZE"]):
        return f"cuda:{os.environ['LOCAL_RANK']}", "nccl"
    return "cpu", "gloo"
