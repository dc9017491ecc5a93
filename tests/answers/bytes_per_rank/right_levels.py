# right: each kind of bytes, whole or shared
import math


def bytes_per_rank(shapes, stage, ranks, mixed):
    def numbers(shared):
        if not shared:
            return sum(math.prod(shape) for shape in shapes)
        if stage < 3:
            return sum(math.prod(shape) for shape in shapes) // ranks
        return sum(math.ceil(shape[0] / ranks) * math.prod(shape[1:]) for shape in shapes)

    parameter, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    return parameter * numbers(stage >= 3), gradient * numbers(stage >= 2), optimizer * numbers(stage >= 1)
