# feedback: That hides nothing: every all-reduce comes after the backward pass.
def step_seconds(forward, backward, buckets):
    return forward + backward + sum(seconds for _, seconds in buckets)


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
