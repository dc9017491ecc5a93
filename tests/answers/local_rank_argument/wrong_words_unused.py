# feedback: parse_args() reads sys.argv, unless it is given the words.
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ["LOCAL_RANK"]))
    return parser.parse_args()
