# feedback: The network has finished, but the backward pass has not.
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + free


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
