# feedback: That is above 1: turn the quotient around.
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + max(backward, free)


def efficiency(forward, backward, buckets):
    return step_seconds(forward, backward, buckets) / (forward + backward)
