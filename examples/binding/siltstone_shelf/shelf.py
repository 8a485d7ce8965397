"""Chunks in one file of SQLite: what a service must be able to do, and little more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_name,
    check_listing,
    check_offset,
    check_target,
    check_whole,
    require,
)
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ClosedError,
    Outcome,
)
from siltstone_shelf.errors import translated

SCHEMA = """
CREATE TABLE IF NOT EXISTS chunks (
    name BLOB PRIMARY KEY,
    content BLOB NOT NULL,
    version TEXT NOT NULL DEFAULT (hex(randomblob(8))),
    modified_s REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400)
) WITHOUT ROWID
"""
PAGE = 500

CAPABILITIES = Capabilities(append=False, used_space=True, whole=True)
"""No appends, so every flush makes a chunk; a call of a missing verb is a ``CapabilityError``."""


class Shelf:
    """A ``ChunkStorage`` in a file. Each call has a connection of its own.

    So threads share nothing, a copy in another process works, and nothing is left open.

    Args:
        path: the file; made if it is missing.
        deadline_s: how long a call waits for other users of the file.
    """

    def __init__(self, path: str, deadline_s: float) -> None:
        self._path = path
        self._deadline_s = deadline_s
        self._is_closed = False
        with translated("", "open"), self._connection() as connection:
            connection.execute(SCHEMA)

    @property
    def capabilities(self) -> Capabilities:
        """Used space and whole creates, and nothing else that is optional."""
        return CAPABILITIES

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Insert a row: the primary key lets one caller win, and COMMIT makes it durable."""
        key = self._key(name, "create")
        check_buffers(buffers)
        content = b"".join(buffers)
        with translated(name, "create", Outcome.UNKNOWN), self._connection() as connection:
            try:
                connection.execute(
                    "INSERT INTO chunks (name, content) VALUES (?, ?)", (key, content)
                )
            except sqlite3.IntegrityError as error:
                raise ChunkExistsError("chunk exists", chunk=name, operation="create") from error

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """The same, for a row is there with all of its bytes or not at all."""
        check_whole(buffers, CAPABILITIES)
        self.create(name, buffers)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Not supported."""
        self._key(name, "write")
        require("append", able=False)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """Read exactly the range."""
        key = self._key(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        query = "SELECT length(content), substr(content, ? + 1, ?) FROM chunks WHERE name = ?"
        row = self._row(name, "read_into", query, (offset, len(buffer), key))
        length, part = row
        if offset > length:
            raise ChunkOffsetError(
                chunk=name, operation="read_into", expected=length, actual=offset
            )
        buffer[: len(part)] = part
        return len(part)

    def stat(self, name: str) -> ChunkStat:
        """Look the row up."""
        key = self._key(name, "stat")
        query = "SELECT name, length(content), version, modified_s FROM chunks WHERE name = ?"
        return _chunk_stat(self._row(name, "stat", query, (key,)))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """Page by page: SQLite compares blobs as bytes, which is the order of the contract."""
        self._check_open()
        return self._listed(*check_listing(prefix, start_after))

    def delete(self, name: str) -> None:
        """Delete the row; the count says whether there was one."""
        key = self._key(name, "delete")
        with translated(name, "delete", Outcome.UNKNOWN), self._connection() as connection:
            count = connection.execute("DELETE FROM chunks WHERE name = ?", (key,)).rowcount
        if not count:
            raise ChunkNotFoundError("no such chunk", chunk=name, operation="delete")

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """Not supported."""
        self._check_open()
        require("concat", able=False)

    def seal(self, name: str) -> None:
        """Not supported, and not needed, because nothing can be appended."""
        self._check_open()
        require("seal", able=False)

    def used_space(self) -> int:
        """The sum of the lengths of all chunks."""
        self._check_open()
        row = self._row("", "used_space", "SELECT total(length(content)) FROM chunks", ())
        return int(row[0])

    def free_space(self) -> int:
        """Not known."""
        self._check_open()
        require("free_space", able=False)
        return 0

    def close(self) -> None:
        """Refuse further calls; calls in progress end by themselves."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the shelf was closed")

    def _key(self, name: str, operation: str) -> bytes:
        self._check_open()
        return check_chunk_name(name, operation)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """One transaction, committed if the block ends without an error."""
        with closing(sqlite3.connect(self._path, timeout=self._deadline_s)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                yield connection

    def _row(
        self, name: str, operation: str, query: str, values: tuple[object, ...]
    ) -> tuple[int, bytes]:
        with translated(name, operation), self._connection() as connection:
            row = connection.execute(query, values).fetchone()
        if row is None:
            raise ChunkNotFoundError("no such chunk", chunk=name, operation=operation)
        found: tuple[int, bytes] = row
        return found

    def _listed(self, prefix: bytes, start_after: bytes) -> Iterator[ChunkStat]:
        query = (
            "SELECT name, length(content), version, modified_s FROM chunks "
            "WHERE name >= ? AND name > ? ORDER BY name LIMIT ?"
        )
        while True:
            with translated(prefix.decode(), "list"), self._connection() as connection:
                rows = connection.execute(query, (prefix, start_after, PAGE)).fetchall()
            for row in rows:
                if not row[0].startswith(prefix):
                    return
                yield _chunk_stat(row)
                self._check_open()
            if len(rows) < PAGE:
                return
            start_after = rows[-1][0]


def _chunk_stat(row: tuple[object, ...]) -> ChunkStat:
    name, length, version, modified_s = row
    assert isinstance(name, bytes)
    assert isinstance(length, int)
    assert isinstance(modified_s, float)
    return ChunkStat(name=name.decode(), length=length, version=str(version), modified_s=modified_s)
