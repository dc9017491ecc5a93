# right: some bucket is waited for, and from it on the network never rests
def step_seconds(forward, backward, buckets):
    chains = [full + sum(s for _, s in buckets[i:]) for i, (full, _) in enumerate(buckets)]
    return forward + max([backward, *chains])


def efficiency(forward, backward, buckets):
    waits = step_seconds(forward, backward, buckets) - forward - backward
    return 1 - waits / (forward + backward + waits)
