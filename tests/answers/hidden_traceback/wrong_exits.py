# feedback: the process fails with SystemExit, but there is no error file
import sys
import traceback


def run(train):
    try:
        return train()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
