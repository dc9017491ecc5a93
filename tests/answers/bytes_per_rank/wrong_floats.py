# feedback: is right, but not an integer
import math


def bytes_per_rank(shapes, stage, ranks, mixed):
    total = [0, 0, 0]
    for rows, *rest in shapes:
        row = math.prod(rest)
        whole, share = rows * row, (-(-rows // ranks) * row if stage == 3 else rows * row / ranks)
        for kind, each in enumerate([2, 2, 12] if mixed else [4, 4, 8]):
            total[kind] += each * (share if stage >= 3 - kind else whole)
    return [float(size) for size in total]
