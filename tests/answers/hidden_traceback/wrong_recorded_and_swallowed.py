# feedback: torchrun would take this rank for one that ended well.
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    try:
        return record(train)()
    except Exception:
        return None
