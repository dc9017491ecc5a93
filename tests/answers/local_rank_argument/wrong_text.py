# feedback: A number, not its text
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--local-rank", "--local_rank")
    options = parser.parse_args(words)
    options.local_rank = os.environ["LOCAL_RANK"]
    return options
