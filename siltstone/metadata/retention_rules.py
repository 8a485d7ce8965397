"""The rules of retention of a container, in memory: they are few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from siltstone.core.constants import keyspace_of
from siltstone.core.records.keys import METADATA_TABLE, RowKind, retention_of
from siltstone.core.records.retention_row import (
    RetentionRow,
    RetentionScope,
    decode_retention_row,
)
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

RULES_MAX = 1_000
"""With this many rules a container takes no new one: all of them are in memory."""
PAGE = 1_000

_FIRST, _END = bytes((RowKind.RETENTION,)), bytes((RowKind.RETENTION + 1,))


class RetentionRules:
    """All rules of one moment. The segment's own comes first, then the longest prefix."""

    def __init__(self, rows: Iterable[RetentionRow]) -> None:
        self.rows = tuple(rows)
        self._own = {row.name: row for row in self.rows if row.scope is RetentionScope.SEGMENT}
        self._prefixes = {row.name: row for row in self.rows if row.scope is RetentionScope.PREFIX}
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def rule_of(self, name: str) -> RetentionRow | None:
        """The rule that is in force for the segment of this name.

        None is for those of keyspaces: their oldest bytes are values like all others.
        """
        if keyspace_of(name) is not None:
            return None
        own = self._own.get(name)
        if own is not None:
            return own
        for length in self._lengths:
            found = self._prefixes.get(name[:length])
            if found is not None:
                return found
        return None

    def segments(self, rows: Rows, start_after: str, limit: int) -> Iterator[tuple[str, int]]:
        """The next segments above ``start_after`` that a rule is about, in order, with ids."""
        roots: list[tuple[str, bool]] = []
        for name in sorted({*self._own, *self._prefixes}):
            if not (roots and roots[-1][1] and name.startswith(roots[-1][0])):
                roots.append((name, name in self._prefixes))
        for name, is_prefix in roots:
            if not is_prefix:
                segment_id = rows.find(name) if name.encode() > start_after.encode() else None
                found = [] if segment_id is None else [(name, segment_id)]
            elif start_after.encode() < name.encode() or start_after.startswith(name):
                found = rows.segments(name, start_after, limit)
            else:
                continue
            yield from found
            limit -= len(found)
            if limit <= 0:
                return


def load_rules(tables: Tables) -> RetentionRules:
    """All acknowledged rules, however many: without one of them too much might be cut."""
    rows: list[RetentionRow] = []
    low = _FIRST
    while page := tables.scan(METADATA_TABLE, low, _END, limit=PAGE):
        rows += [decode_retention_row(*retention_of(key), entry.value) for key, entry in page]
        low = page[-1][0] + b"\0"
    return RetentionRules(rows)
