# feedback: the parser refused the arguments --local-rank=0 --epochs
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args(words)
    options.local_rank = int(os.environ["LOCAL_RANK"])
    return options
