"""What every rank of a check runs: `driver.py EXERCISE ANSWER_FILE JOB`.

It works out the right results first, then reads the learner's file, then tries the cases. What it sends
home carries the word of this run, `nonce`, so that nothing the learner's code prints or reports passes for it.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import types
from typing import Any

PATIENCE = 2.0  # seconds a rank that has finished a case waits for the others
_START = 30.0  # seconds it waits for the others before the first case


def main() -> None:
    """Try every case of the job on this rank."""
    name, file, job = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    sys.path[0] = os.getcwd()  # what the learner's file may import lies there, not here
    sys.argv[:] = [file]

    import torch
    import torch.distributed as dist

    from ddp_course.exercises import of_lesson
    from ddp_course.exercises.ranks import collectives, mark
    from ddp_course.launcher.reporting import report

    def send(**values: Any) -> None:
        report(**{job["nonce"]: values})

    exercise = next(one for one in of_lesson(job["lesson"]) if one.name == name)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for case in job["cases"] if rank == 0 or exercise.oracle_needs_all_ranks else ():
        torch.manual_seed(case["seed"])
        send(case=case["index"], expected=exercise.expected(case, rank))
    try:
        answer = load(name, file)
        _meet(f"{job['nonce']} start", _START)  # rank 0 comes later: it worked out what is right
        for case in job["cases"]:
            torch.manual_seed(case["seed"] + rank)
            since = mark()
            seen = exercise.run(answer, case, rank)
            send(case=case["index"], seen=seen, collectives=collectives(since))
            if not _meet(f"{job['nonce']} {case['index']}", PATIENCE):
                send(case=case["index"], left=True)
                return
        send(done=True)
    except SystemExit as error:
        send(exited=True)
        raise SystemExit(0) from error
    except NotImplementedError as error:
        if not (line := _raised_at(error, file)):
            raise
        send(unwritten=line)


def load(name: str, file: str) -> Any:
    """The learner's file as a module, run once."""
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    with open(file, encoding="utf-8") as source:
        exec(compile(source.read(), file, "exec", dont_inherit=True), vars(module))
    return module


def _meet(point: str, seconds: float) -> bool:
    """Wait until every rank is here, through the store: a collective would pair with the learner's own.

    False where some rank does not come: it waits for a collective that this rank never called.
    """
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    store.set(f"{point} {dist.get_rank()}", "here")
    try:
        keys = [f"{point} {rank}" for rank in range(dist.get_world_size())]
        store.wait(keys, datetime.timedelta(seconds=seconds))
    except dist.DistStoreError:
        return False
    return True


def _raised_at(error: BaseException, file: str) -> int:
    """The line of the learner's file that raised `error` itself; 0 where another file did."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace.tb_lineno if trace and trace.tb_frame.f_code.co_filename == file else 0


if __name__ == "__main__":
    main()
