# feedback: the parser refused the arguments --epochs
import argparse


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local-rank", "--local_rank", type=int, required=True)
    return parser.parse_args(words)
