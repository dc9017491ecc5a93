# feedback: it says "nothing in torchrun's form".
import os
import traceback


def run(train):
    try:
        return train()
    except Exception:
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            file.write(traceback.format_exc())
        raise
