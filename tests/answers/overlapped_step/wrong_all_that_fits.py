# feedback: But no bucket travels before it is full
def step_seconds(forward, backward, buckets):
    return forward + max(backward, sum(seconds for _, seconds in buckets))


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
