# feedback: torchrun does not take these options: argument --max-restarts/--max_restarts: invalid int value: 'always'
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}", "--max-restarts=always"]
