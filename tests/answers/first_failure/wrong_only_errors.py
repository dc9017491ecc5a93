# feedback: a rank that left with exit code 0
def first_failure(ranks):
    own = [
        r
        for r, rank in enumerate(ranks)
        if rank["exit_code"] not in (0, -15) and "by peer" not in (rank["error"] or "")
    ]
    return min(own, key=lambda r: ranks[r]["second"], default=-1)
