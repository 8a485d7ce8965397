"""The SDK's clients of this process: never ended, and another one where a call was left alone.

The NameNode knows the holder of a lease by the name of a client, and an append does not change the
generation of a block. So when a call that no caller waits for any more comes to close its file, and
the same client has that file open for the next append, the file is closed under the appender: its
last block counts as whole while the DataNodes hold it as unfinished, and refuse it later. A name
that was left alone at a file is therefore not used for that file again.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.core.errors import ChunkUnavailableError

if TYPE_CHECKING:
    from hdfs_native._internal import RawClient

CLIENTS_MAX: Final = 16
"""Names that one file may use up; then it is left to other processes."""
PATHS_MAX: Final = 10_000
"""This many files are remembered, the last ones."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """A client for changes of one file.

    Attributes:
        number: which one of the process it is.
        client: of the SDK.
    """

    number: int
    client: RawClient


class Clients:
    """All clients of this process for one service. Thread-safe.

    A client ends its threads when it is dropped, and waits for them while it holds the lock of the
    interpreter, which they may be waiting for: the process would hang. So none is ever dropped.

    Args:
        make: returns a new one, which nothing was sent to yet.
    """

    def __init__(self, make: Callable[[], RawClient]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[RawClient] = []
        self._next: OrderedDict[str, int] = OrderedDict()

    def reader(self) -> RawClient:
        """A client for calls that open no file for writing."""
        return self._at(0)

    def writer(self, path: str) -> FileWriter:
        """A client whose name was not left alone at a file.

        Raises:
            ChunkUnavailableError: too many were; nothing was sent.
        """
        with self._lock:
            number = self._next.get(path, 0)
        if number >= CLIENTS_MAX:
            raise ChunkUnavailableError(
                "too many calls for this chunk were left alone",
                chunk=path.rpartition("/")[2],
                operation="write",
            )
        return FileWriter(number, self._at(number))

    def closer(self, path: str) -> RawClient:
        """A client to end the lease of a file with, which any can; best one of a new connection."""
        with self._lock:
            number = self._next.get(path, 0)
        return self._at(min(number, CLIENTS_MAX - 1))

    def leave(self, path: str, number: int | None = None) -> None:
        """Never again open a file for writing by a client, nor by those before it.

        Args:
            path: of the file.
            number: which client; that of the next writer unless it is told.
        """
        with self._lock:
            last = self._next.get(path, 0)
            wanted = last if number is None else number
            self._next[path] = min(max(wanted + 1, last), CLIENTS_MAX)
            self._next.move_to_end(path)
            while len(self._next) > PATHS_MAX:
                self._next.popitem(last=False)

    def _at(self, number: int) -> RawClient:
        if number < len(self._made):
            return self._made[number]
        with self._lock:
            while len(self._made) <= number:
                client = self._make()
                # Nor is it dropped when the process ends.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
                self._made.append(client)
            return self._made[number]
