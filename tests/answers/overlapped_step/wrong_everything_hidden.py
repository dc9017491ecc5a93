# feedback: That hides everything, the last bucket too
def step_seconds(forward, backward, buckets):
    return forward + backward


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
