# right: the old argument is taken out before parsing
import argparse
import os


def read_options(words):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--epochs", type=int, default=1)
    rest = [word for word in words if not word.startswith(("--local-rank=", "--local_rank="))]
    options = parser.parse_args(rest)
    options.local_rank = int(os.environ["LOCAL_RANK"])
    return options
