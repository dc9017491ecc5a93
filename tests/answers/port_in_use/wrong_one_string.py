# feedback: and not a list of words.
def command(script):
    return f"torchrun --standalone --nproc-per-node=2 {script}"
