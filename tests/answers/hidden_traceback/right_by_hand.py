# right: the error file written by hand, in torchrun's form
import json
import os
import time
import traceback


def run(train):
    try:
        return train()
    except Exception as error:
        extra = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        message = {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": message}, file)
        raise
