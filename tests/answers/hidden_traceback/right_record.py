# right: record, called with train
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    return record(train)()
