# feedback: There are not so many GPUs.
import os


def place(gpus):
    return (f"cuda:{os.environ['LOCAL_RANK']}", "nccl") if gpus else ("cpu", "gloo")
