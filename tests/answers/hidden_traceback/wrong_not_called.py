# feedback: what train returns
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    return record(train)
