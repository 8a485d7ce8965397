"""Connections of SQLite to databases in volumes."""

from __future__ import annotations

import threading
from itertools import count
from typing import Final, cast
from weakref import WeakKeyDictionary

import apsw

from siltstone.volumes.sqlite.database_file import DatabaseFile
from siltstone.volumes.sqlite.pragmas import answer
from siltstone.volumes.volume import Volume

_NAME: Final = "siltstone-volumes"
_READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


class _Volumes(apsw.VFS):
    """Gives SQLite the files of volumes, by names that are used once."""

    def __init__(self) -> None:
        super().__init__(name=_NAME, base="")
        self._lock = threading.Lock()
        self._numbers = count()
        self._named: dict[str, Volume] = {}
        self._writes: WeakKeyDictionary[Volume, threading.Lock] = WeakKeyDictionary()

    def add(self, volume: Volume) -> str:
        """Return the name by which the next open finds a volume."""
        with self._lock:
            name = f"volume-{next(self._numbers)}"
            self._named[name] = volume
            self._writes.setdefault(volume, threading.Lock())
            return name

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """Open the database of a volume."""
        if name is None or not flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            raise apsw.CantOpenError("a volume has no journals and no temporary files")
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        with self._lock:
            volume = self._named.pop(text, None)
            if volume is None:
                raise apsw.CantOpenError(
                    "databases in volumes are opened by siltstone.volumes.sqlite: connect, attach"
                )
            writes = self._writes[volume]
        flags[1] = flags[0]
        read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)
        file = DatabaseFile(volume, writes, answer, read_only=read_only)
        return cast(apsw.VFSFile, file)  # whose methods it has; it needs none of those of the base

    def xFullPathname(self, name: str) -> str:  # noqa: N802 - SQLite's name
        """A volume has no path."""
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802 - SQLite's name
        """There are no journals."""
        return False

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        """Nothing: there are no journals."""


_volumes = _Volumes()


def connect(volume: Volume, *, read_only: bool = False) -> apsw.Connection:
    """Open the database in a volume; an empty volume is an empty database.

    A connection is for one thread at a time, and several may be open on one volume. A transaction
    is one commit of the volume, and its snapshot is that of the volume. A second writer of this
    process gets ``apsw.BusyError``, as one does whose transaction began to read before the newest
    commit, pull or reset. Pages that are only in the place are fetched when SQLite reads them.

    Args:
        volume: of pages that SQLite wrote, or none.
        read_only: refuse changes.

    Raises:
        apsw.NotADBError: the volume has pages that are no database, when it is first read.
        SiltstoneError: a page could not be fetched, from any statement.
    """
    flags = apsw.SQLITE_OPEN_READONLY if read_only else _READ_WRITE
    connection = apsw.Connection(_volumes.add(volume), flags=flags, vfs=_NAME)
    connection.pragma("journal_mode", "memory")
    connection.pragma("temp_store", "memory")
    return connection


def attach(connection: apsw.Connection, volume: Volume, name: str) -> None:
    """Attach the database of another volume to a connection that ``connect`` made.

    A transaction over both is atomic for each, as with SQLite in WAL mode.

    Args:
        connection: to a database in a volume.
        volume: of the other database.
        name: by which statements name it.
    """
    connection.execute("attach ? as ?", (_volumes.add(volume), name))
    connection.pragma("journal_mode", "memory", schema=name)
