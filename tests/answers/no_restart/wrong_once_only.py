# feedback: after failure 2 of
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}", "--max-restarts=1"]
