# feedback: That is a default, the same on every rank.
import argparse


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local-rank", "--local_rank", type=int, default=0)
    return parser.parse_args(words)
