# feedback: it started 1 rank, and not 2 on this one machine.
def command(script):
    return ["torchrun", "--standalone", script]
