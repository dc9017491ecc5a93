# right: two equations from the ends
def ring_time(size, ranks, alpha, beta):
    return sum(alpha + size * beta / ranks for _ in range(2 * (ranks - 1)))


def fit(sizes, seconds, ranks):
    steps = 2 * (ranks - 1)
    slope = (seconds[-1] - seconds[0]) / (sizes[-1] - sizes[0])
    beta = slope * ranks / steps
    return seconds[0] / steps - sizes[0] / ranks * beta, beta


def bus_bandwidth(size, ranks, seconds):
    return size / seconds * (2 - 2 / ranks)
