# feedback: In the forward pass the GPU computes too.
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + max(backward, free)


def efficiency(forward, backward, buckets):
    return backward / step_seconds(forward, backward, buckets)
