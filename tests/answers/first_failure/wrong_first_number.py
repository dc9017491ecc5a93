# feedback: was ended by the agent (SIGTERM) because another rank had failed.
def first_failure(ranks):
    return 0
