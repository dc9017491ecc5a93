# feedback: That is the share in which the GPU waits.
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + max(backward, free)


def efficiency(forward, backward, buckets):
    return 1 - (forward + backward) / step_seconds(forward, backward, buckets)
