# right: a straight line through all sizes
import numpy as np


def ring_time(size, ranks, alpha, beta):
    return 2 * (ranks - 1) * (alpha + size / ranks * beta)


def fit(sizes, seconds, ranks):
    slope, intercept = np.polyfit(sizes, seconds, 1)
    return intercept / (2 * (ranks - 1)), slope * ranks / (2 * (ranks - 1))


def bus_bandwidth(size, ranks, seconds):
    return size / seconds * 2 * (ranks - 1) / ranks
