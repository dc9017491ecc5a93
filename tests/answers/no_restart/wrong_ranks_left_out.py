# feedback: expected 2 ranks your options start 1
def options(ranks, failures):
    return [f"--max-restarts={failures}"]
