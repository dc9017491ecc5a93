# feedback: failed too, but later.
def first_failure(ranks):
    def victim(rank):
        return any(sign in (rank["error"] or "") for sign in ("by peer", "Timed out"))

    own = [r for r, rank in enumerate(ranks) if rank["exit_code"] not in (0, -15) and not victim(rank)]
    left = [r for r, rank in enumerate(ranks) if rank["exit_code"] == 0]
    missing = [r for r, rank in enumerate(ranks) if not victim(rank)]
    return max(own or left or missing, key=lambda r: ranks[r]["second"])
