# feedback: torchrun would take this rank for one that ended well.
def run(train):
    try:
        return train()
    except Exception as error:
        print("failed:", error)
