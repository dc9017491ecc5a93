# feedback: lost its connection: the other end of it was gone before.
def first_failure(ranks):
    failed = [r for r, rank in enumerate(ranks) if rank["exit_code"] not in (0, -15)]
    return min(failed, key=lambda r: ranks[r]["second"], default=0)
