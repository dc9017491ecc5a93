# right: hands the GPUs out over all local ranks, and looks whether they were enough
import os


def place(gpus):
    local_rank, local_world = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    places = [(f"cuda:{number}", "nccl") for number in range(gpus)]
    if len(places) < local_world:
        places = [("cpu", "gloo")] * local_world
    return places[local_rank]
