# feedback: That leaves the last bucket only.
def step_seconds(forward, backward, buckets):
    return forward + backward + (buckets[-1][1] if buckets else 0)


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
