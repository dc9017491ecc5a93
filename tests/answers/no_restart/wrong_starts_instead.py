# feedback: it survives 1 failure, and one more too.
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}", f"--max-restarts={failures + 1}"]
