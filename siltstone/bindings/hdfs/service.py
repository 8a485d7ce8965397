"""One folder of HDFS, as all parts of the binding share it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hdfs_native._internal import RawClient

from siltstone.bindings.hdfs.calls import Calls, CallStoppedError, Turn
from siltstone.bindings.hdfs.clients import Clients
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.drafts import is_reserved
from siltstone.core.errors import (
    ChunkError,
    ChunkNameError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.core.remote.remote_client import RemoteClient

if TYPE_CHECKING:
    from hdfs_native import FileStatus

T = TypeVar("T")
PART_BYTES_MAX: Final = 255
"""Of a path, as the NameNode has it unless it was told otherwise."""
RESERVED: Final = ".snapshot"
ATTEMPTS: Final = 8
"""To find the active one of several NameNodes."""

_user: list[int] = []
"""The process that first used the SDK. Its threads are not there in one that was forked."""
_clients: dict[tuple[object, ...], Clients] = {}
_lock = threading.Lock()


class Service(RemoteClient):
    """Clients of the SDK, and the calls of one storage.

    Attributes:
        settings: as they were given.
        clients: those of the process.
        unclosed: paths of chunks that may still be open by a call of this object that failed.
    """

    def __init__(self, settings: HdfsSettings) -> None:
        super().__init__("hdfs", folder=settings.folder, deadline_s=settings.deadline_s, threads=1)
        _claim_process()
        self.settings = settings
        self.unclosed: set[str] = set()
        self.clients = _clients_of(settings)
        self._calls = Calls()

    @property
    def folder(self) -> str:
        """What every path begins with; it ends in a slash."""
        return self._folder

    @property
    def client(self) -> RawClient:
        """A client for calls that open no file for writing. They may never return."""
        return self.clients.reader()

    def key(self, name: str, operation: str) -> str:
        """The path of a chunk. See ``RemoteClient.key``; HDFS takes fewer names."""
        path = super().key(name, operation)
        if is_reserved(name):
            raise ChunkNameError("name is reserved for drafts", chunk=name, operation=operation)
        for part in name.split("/"):
            if ":" in part or part == RESERVED or len(part.encode()) > PART_BYTES_MAX:
                raise ChunkNameError(
                    "HDFS cannot hold a part of this name",
                    chunk=ascii(name[:80]),
                    operation=operation,
                )
        return path

    def run(
        self,
        work: Callable[[Turn], T],
        deadline: Deadline,
        chunk: str,
        operation: str,
        *,
        changes: bool = False,
    ) -> T:
        """Run a call of the SDK, or several, until the deadline.

        Raises:
            ChunkUnavailableError: it did not end in time.
        """
        self.check_open()
        try:
            return self._calls.call(work, deadline)
        except DeadlineError as error:
            raise self.late(chunk, operation, changes=changes) from error
        except CallStoppedError as error:
            raise ClosedError("the chunk storage was closed") from error

    def late(self, chunk: str, operation: str, *, changes: bool) -> ChunkError:
        """The error of a call that did not end in time."""
        return ChunkUnavailableError(
            "no answer before the deadline",
            chunk=chunk,
            operation=operation,
            outcome=Outcome.UNKNOWN if changes else Outcome.NOT_APPLIED,
        )

    def info(self, path: str) -> FileStatus:
        """What the NameNode knows of a file; of an open one, the length of the last sync.

        Raises:
            FileNotFoundError: there is no such file; a folder is none.
        """
        status = self.client.get_file_info(path)
        if status.isdir:
            raise FileNotFoundError(path)
        return status

    def _close_sockets(self) -> None:
        """Let calls end. The clients stay, for the next storage that opens the same service."""
        self._calls.close()


def _clients_of(settings: HdfsSettings) -> Clients:
    """The clients of this process for a service."""
    told = (
        settings.namenode,
        settings.config_dir,
        settings.kerberos_principal,
        settings.kerberos_keytab,
        settings.kerberos_cache,
        settings.deadline_s,
    )
    with _lock:
        if told not in _clients:
            _clients[told] = Clients(partial(_make_client, settings))
        return _clients[told]


def _make_client(settings: HdfsSettings) -> RawClient:
    options = {
        # Nothing is sent twice to one NameNode; of several, the active one has to be found.
        "dfs.client.failover.max.attempts": str(1 if settings.is_one_namenode else ATTEMPTS),
        "dfs.client.failover.sleep.base.millis": "50",
        "dfs.client.failover.sleep.max.millis": "500",
        "dfs.client.socket-timeout": str(max(1, int(settings.deadline_s * 1000))),
    }
    keytab, folder = settings.kerberos_keytab, settings.config_dir
    return RawClient(
        settings.namenode,
        options,
        None if folder is None else str(folder),
        settings.kerberos_principal,
        None if keytab is None else str(keytab),
        settings.kerberos_cache,
    )


def _claim_process() -> None:
    """Refuse to use the SDK where it would wait for threads that are not there."""
    with _lock:
        if not _user:
            _user.append(os.getpid())
        if _user[0] != os.getpid():
            raise ClosedError(
                "the client of HDFS was used before this process was forked: spawn it instead",
                used_by=_user[0],
            )
