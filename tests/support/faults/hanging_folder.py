"""A folder of long-term storage that does not answer, as a hard mount does without its server."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import siltstone
from siltstone.core.posix import SystemFileCalls

LONG_S = 600.0
"""Longer than any test takes."""


def made_store(folder: Path, *, deadline: str = "2s") -> Path:
    """A store with one flushed segment ``a`` that holds ``one``."""
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        store.create("a").append(b"one")
        store.flush()
    with (folder / "siltstone.yaml").open("a") as file:
        file.write(f"\ndeadlines:\n  storage: {deadline}\n")
    return folder


class HangingFolder:
    """File calls below ``chunks`` that hang while ``hangs`` is set, and end when it is not.

    Attributes:
        hangs: whether those that begin now hang.
        count: how many hung so far.
        on_hang: called with each.
    """

    def __init__(self) -> None:
        self.hangs = threading.Event()
        self.count = 0
        self.on_hang: Callable[[], None] = lambda: None
        self._answers = threading.Event()

    def hold(self, path: str) -> None:
        """Hang, if the path is one of a chunk."""
        if self.hangs.is_set() and "/chunks" in path:
            self.count += 1
            self.on_hang()
            assert self._answers.wait(LONG_S)

    def answer(self) -> None:
        """Let all calls continue, those that hang too."""
        self.hangs.clear()
        self._answers.set()

    @contextmanager
    def only_writes(self) -> Iterator[HangingFolder]:
        """Until the end of the block, writes hang."""
        write = SystemFileCalls.pwritev

        def pwritev(calls: SystemFileCalls, fd: int, buffers: Any, offset: int) -> int:
            self.hold(os.readlink(f"/proc/self/fd/{fd}"))
            return write(calls, fd, buffers, offset)

        with patch.object(SystemFileCalls, "pwritev", pwritev):
            try:
                yield self
            finally:
                self.answer()

    @contextmanager
    def everything(self) -> Iterator[HangingFolder]:
        """Until the end of the block, whatever opens a chunk or a folder of chunks hangs."""
        opened, below = SystemFileCalls.open, SystemFileCalls.open_below

        def open_(
            calls: SystemFileCalls,
            path: Any,
            flags: int,
            mode: int = 0o666,
            *,
            dir_fd: int | None = None,
        ) -> int:
            self.hold(
                os.fsdecode(path) if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
            )
            return opened(calls, path, flags, mode, dir_fd=dir_fd)

        def open_below(calls: SystemFileCalls, path: Any, flags: int, *, dir_fd: int) -> int:
            self.hold(os.readlink(f"/proc/self/fd/{dir_fd}"))
            return below(calls, path, flags, dir_fd=dir_fd)

        with (
            patch.object(SystemFileCalls, "open", open_),
            patch.object(SystemFileCalls, "open_below", open_below),
        ):
            try:
                yield self
            finally:
                self.answer()
