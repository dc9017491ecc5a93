# feedback: after failure 1 of 1 there was no new start: the run has failed.
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}"]
