# feedback: That is the rank over all nodes.
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local-rank", "--local_rank", type=int)
    options = parser.parse_args(words)
    options.local_rank = int(os.environ["RANK"])
    return options
