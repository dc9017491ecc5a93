# right: an inner function, decorated
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    @record
    def main():
        return train()

    return main()
