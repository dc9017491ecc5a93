# feedback: the second run of your line fails: port 29507 is in use, by the first.
def command(script):
    return ["torchrun", "--nproc-per-node=2", "--master-port=29507", script]
