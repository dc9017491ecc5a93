# feedback: Each rank has its own gradient: nothing was exchanged.
def mean_gradient(gradient, parameter):
    return gradient
