# feedback: waited, and its time was up. For whom did it wait?
def first_failure(ranks):
    def lost(rank):
        return "by peer" in (rank["error"] or "")

    own = [r for r, rank in enumerate(ranks) if rank["exit_code"] not in (0, -15) and not lost(rank)]
    left = [r for r, rank in enumerate(ranks) if rank["exit_code"] == 0]
    return min(own or left, key=lambda r: ranks[r]["second"])
