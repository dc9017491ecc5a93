# feedback: an argument that nobody knows was accepted
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    options, _ = parser.parse_known_args(words)
    options.local_rank = int(os.environ["LOCAL_RANK"])
    return options
