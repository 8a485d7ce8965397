"""The local index as it was at one table version."""

from __future__ import annotations

from pathlib import Path

import rocksdict

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import ClosedError
from siltstone.metadata.index_errors import translated
from siltstone.metadata.index_rows import (
    NO_LIMIT,
    Entry,
    scan_bounds,
    walk_backward,
    walk_forward,
    walk_values,
)


class IndexSnapshot:
    """The entries of all tables at one version, made by ``Index.snapshot``.

    An iterator that is never renewed: it shows what there was when it was made. (Iterators of the
    library's own snapshots show the newest values.) It keeps the files and the memory of that
    moment. Not thread-safe.
    """

    def __init__(self, rows: rocksdict.RdictIter, folder: Path) -> None:
        self._rows: rocksdict.RdictIter | None = rows
        self._folder = folder

    def get(self, table_id: int, key: bytes) -> Entry | None:
        """Return the entry of a key, or ``None``."""
        found = self.scan(table_id, key, key + b"\0", limit=1)
        return found[0][1] if found else None

    def scan(
        self,
        table_id: int,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = ROWS_PER_SLICE,
        bytes_max: int = NO_LIMIT,
    ) -> list[tuple[bytes, Entry]]:
        """See ``Index.scan``."""
        rows = self._open_rows()
        walk = walk_backward if reverse else walk_forward
        low, high = scan_bounds(table_id, start, end)
        return translated(self._folder, lambda: walk(rows, low, high, limit, bytes_max))

    def scan_values(
        self, table_id: int, start: bytes, end: bytes | None, *, limit: int, bytes_max: int
    ) -> list[tuple[bytes, bytes]]:
        """``scan`` in order, for who needs no versions."""
        rows = self._open_rows()
        low, high = scan_bounds(table_id, start, end)
        return translated(self._folder, lambda: walk_values(rows, low, high, limit, bytes_max))

    def _open_rows(self) -> rocksdict.RdictIter:
        if self._rows is None:
            raise ClosedError("snapshot is closed", folder=self._folder)
        return self._rows

    @property
    def closed(self) -> bool:
        """Whether it was let go."""
        return self._rows is None

    def close(self) -> None:
        """Let go. Idempotent. The index cannot be closed before: the library counts references."""
        self._rows = None
