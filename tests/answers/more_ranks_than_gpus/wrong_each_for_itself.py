# feedback: Ranks on different backends never meet
import os


def place(gpus):
    local_rank = int(os.environ["LOCAL_RANK"])
    return (f"cuda:{local_rank}", "nccl") if local_rank < gpus else ("cpu", "gloo")
