"""The command in a process that kills itself before one of the changes that it makes to names."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from itertools import count
from typing import Any

from siltstone.cli.main import run

_NAMED = frozenset({"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir"})


def run_and_die(arguments: Sequence[str], last: int) -> None:
    """Run the command, and die before the change that follows ``last`` others."""
    made = count()

    def changing(event: str, given: tuple[Any, ...]) -> None:
        creates = event == "open" and isinstance(given[2], int) and given[2] & os.O_CREAT
        if (creates or event in _NAMED) and next(made) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(changing)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(run(arguments))


def ended(arguments: Sequence[str], last: int) -> int:
    """Run the command in a process that dies so; return how it ended: -9 if it died."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    process = processes.Process(target=run_and_die, args=(arguments, last))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode
