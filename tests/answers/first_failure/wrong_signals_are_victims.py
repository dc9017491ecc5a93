# feedback: SIGKILL, seen after its victims
def first_failure(ranks):
    own = [r for r, rank in enumerate(ranks) if rank["exit_code"] > 0 and "by peer" not in (rank["error"] or "")]
    left = [r for r, rank in enumerate(ranks) if rank["exit_code"] == 0]
    return min(own or left, key=lambda r: ranks[r]["second"], default=0)
