"""The command in a process that kills itself at one of its changes to files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from siltstone.cli.main import run
from siltstone.core.chunk_storage import Buffer
from siltstone.core.posix import SystemFileCalls
from siltstone.store.store import Store

CHANGES = (
    "fchmod",
    "fdatasync",
    "fsync",
    "ftruncate",
    "link",
    "mkdir",
    "posix_fallocate",
    "pwritev",
    "rename",
    "unlink",
)


class Mortal:
    """Kills this process at a change, or after the opening of a session if that comes first.

    Args:
        last: how many changes are made before the one that it dies at.
        after: whether that one is made too.
        deaths: the file that gets how many were made before.
    """

    def __init__(self, last: int, deaths: Path, *, after: bool) -> None:
        self._last = last
        self._after = after
        self._deaths = deaths
        self._made = 0
        self._guard = Lock()

    def changing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function of ``SystemFileCalls`` that is counted."""

        @wraps(call)
        def made(calls: SystemFileCalls, *given: Any, **named: Any) -> Any:
            with self._guard:  # A thread that comes after the last change dies waiting.
                if self._made == self._last:
                    if self._after:
                        call(calls, *given, **named)
                    elif call.__name__ == "pwritev":
                        _write_half(*given)
                    self._die()
                self._made += 1
            return call(calls, *given, **named)

        return made

    def opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function that opens a session."""

        def made(*given: Any, **named: Any) -> None:
            call(*given, **named)
            with self._guard:
                self._die()

        return made

    def _die(self) -> None:
        self._deaths.write_text(str(self._made), encoding="ascii")
        os.kill(os.getpid(), signal.SIGKILL)


def _write_half(fd: int, buffers: Sequence[Buffer], offset: int) -> None:
    data = b"".join(buffers)
    os.pwrite(fd, data[: len(data) // 2], offset)


def begin_and_die(arguments: Sequence[str], last: int, deaths: Path, after: bool) -> None:
    """Run the command, and die."""
    mortal = Mortal(last, deaths, after=after)
    for name in CHANGES:
        setattr(SystemFileCalls, name, mortal.changing(getattr(SystemFileCalls, name)))
    Store.open_import = mortal.opening(Store.open_import)  # type: ignore[method-assign]
    run(arguments)


def killed(arguments: Sequence[str], last: int, *, after: bool) -> int:
    """Run the command in a process that dies; return how many changes it made before the last."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    with TemporaryDirectory() as folder:
        deaths = Path(folder) / "deaths"
        process = processes.Process(target=begin_and_die, args=(arguments, last, deaths, after))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        return int(deaths.read_text("ascii"))
