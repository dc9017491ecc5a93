# feedback: That is one bucket's time for each of them.
def step_seconds(forward, backward, buckets):
    sent = len(buckets) * buckets[0][1] if buckets else 0
    return forward + max(backward, sent)


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
