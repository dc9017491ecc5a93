# feedback: the error file has no ValueError with its message
from torch.distributed.elastic.multiprocessing.errors import record


def run(train):
    @record
    def main():
        try:
            return train()
        except Exception:
            raise RuntimeError("training failed") from None

    return main()
