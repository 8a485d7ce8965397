"""The command in a process that kills itself before one of the changes that it makes to names."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from itertools import count
from multiprocessing.process import BaseProcess
from typing import Any

from siltstone.cli.main import run

_IMPORTED = (
    "__main__",
    "siltstone.bindings.nfs.chunk_storage",
    "siltstone.bindings.nfs.plugin",
    "siltstone.bindings.nfs.settings",
    "siltstone.cli.backup_commands",
    "siltstone.cli.collection_import_command",
    "siltstone.cli.file_commands",
    "siltstone.cli.storage_commands",
    "siltstone.cli.write_commands",
    "siltstone.collections.blocking",
    "siltstone.collections.consensus.arrival",
    "siltstone.collections.held_collections",
    "siltstone.collections.moves",
    "siltstone.collections.sources.any_source",
    "siltstone.container.check.checker",
    "siltstone.container.container",
    "siltstone.container.owner_parts",
    "siltstone.migration.backup.restore",
    "siltstone.migration.relocate.switch",
    "siltstone.store.admin.init",
    "siltstone.store.opening",
    "siltstone.tier1.file.fenced_log",
    "siltstone.tier1.file.plugin",
    "uvloop",
)
"""Before processes are forked. Else each does so, and takes some three times as long."""

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


def started(arguments: Sequence[str], last: int = -1) -> BaseProcess:
    """Run the command in a process that dies so, or with -1 only if the caller kills it."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__, *_IMPORTED])
    process = processes.Process(target=run_and_die, args=(arguments, last))
    process.start()
    return process


def ended(arguments: Sequence[str], last: int) -> int:
    """Run the command in a process that dies so; return how it ended: -9 if it died."""
    process = started(arguments, last)
    process.join()
    assert process.exitcode is not None
    return process.exitcode
