# feedback: Those are percent.
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + max(backward, free)


def efficiency(forward, backward, buckets):
    return 100 * (forward + backward) / step_seconds(forward, backward, buckets)
