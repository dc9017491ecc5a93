"""Starting torchrun inside a process that has imported torch already: its own parser, its own agents.

For the side of a check that runs in a rank. Several agents at once are several threads.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Sequence
from typing import Any

_QUICK = ["--monitor-interval=0.02", "--local-addr=127.0.0.1"]


def parse(words: Sequence[str]) -> Any:
    """torchrun's options out of the words after `torchrun`. Raises ValueError with what its parser says."""
    from torch.distributed import run

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return run.parse_args([*_QUICK, *words])
    except SystemExit:
        raise ValueError(said.getvalue().strip().splitlines()[-1].partition("error: ")[2]) from None


def start(lines: Sequence[Sequence[str]]) -> list[BaseException]:
    """Start an agent for each line, the words after `torchrun`, and wait for all. Returns what they raised."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.subprocess_handler import get_subprocess_handler

    # This rank was forked by the course's own agent, which starts ranks in its own way.
    api.get_subprocess_handler = get_subprocess_handler
    raised: list[BaseException] = []

    def agent(parsed: Any) -> None:
        try:
            run.run(parsed)
        except BaseException as error:
            raised.append(error)

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else each agent warns that it sets it
    agents = [threading.Thread(target=agent, args=(parse(line),), daemon=True) for line in lines]
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    return raised
