# feedback: is one word. Option and value are two words of the list
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}", f"--max-restarts {failures}"]
