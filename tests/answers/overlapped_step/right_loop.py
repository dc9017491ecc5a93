# right: when the network is free again
def step_seconds(forward, backward, buckets):
    free = 0
    for full, seconds in buckets:
        free = max(free, full) + seconds
    return forward + max(backward, free)


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
