import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", type=int, required=True)
args = parser.parse_args()
