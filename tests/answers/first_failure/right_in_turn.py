# right: own failures, then early leavers, then those that never came; the earliest of them
VICTIM = ("by peer", "Timed out waiting")


def first_failure(ranks):
    def waited(rank):
        return any(sign in (rank["error"] or "") for sign in VICTIM)

    numbered = list(enumerate(ranks))
    own = [n for n, rank in numbered if rank["exit_code"] not in (0, -15) and not waited(rank)]
    left = [n for n, rank in numbered if rank["exit_code"] == 0]
    missing = [n for n, rank in numbered if not waited(rank)]
    return min(own or left or missing, key=lambda n: ranks[n]["second"])
