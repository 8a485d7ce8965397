"""An update of tables that has its place in the table log, and what it does to the index."""

from __future__ import annotations

from collections.abc import Iterator

from siltstone.metadata.index_rows import Change, RangeEnd


class IndexChanges:
    """What updates do to the index, in columns: none is an object that Python looks at for garbage.

    Attributes:
        keys: of the index, in order.
        values: of each what it has then; ``None`` when it is removed.
        ranged: whether one of them is a ``RangeEnd``.
    """

    __slots__ = ("keys", "ranged", "values")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[bytes | RangeEnd | None] = []
        self.ranged = False

    def add(self, key: bytes, value: bytes | RangeEnd | None) -> None:
        """Put a change after the others."""
        self.keys.append(key)
        self.values.append(value)

    def extend(self, other: IndexChanges) -> None:
        """Put changes after the others."""
        self.keys += other.keys
        self.values += other.values
        self.ranged = self.ranged or other.ranged

    def pairs(self) -> Iterator[Change]:
        """Each key with its value, in order."""
        return zip(self.keys, self.values, strict=True)


class AssignedUpdate:
    """One atomic update that has its place in the table log; never changed.

    Attributes:
        record: its bytes in the frame and in the table log.
        table_version: the version after it, also that of every entry that it wrote.
        crc_after: CRC32C of the table log up to and with it.
        changes: what it does to the index, splices resolved.
    """

    __slots__ = ("changes", "crc_after", "record", "table_version")

    def __init__(
        self,
        record: bytes,
        table_version: int,
        crc_after: int,
        changes: IndexChanges,
    ) -> None:
        self.record = record
        self.table_version = table_version
        self.crc_after = crc_after
        self.changes = changes
