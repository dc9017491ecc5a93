# feedback: Each bucket travels alone here.
def step_seconds(forward, backward, buckets):
    return forward + max([backward] + [full + seconds for full, seconds in buckets])


def efficiency(forward, backward, buckets):
    return (forward + backward) / step_seconds(forward, backward, buckets)
