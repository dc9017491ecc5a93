# feedback: but there is no error file: the summary would say <N/A>.
def run(train):
    return train()
