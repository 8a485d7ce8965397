"""The rows of a keyspace as a state of its container has them, decoded one by one and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.objects.records import keys
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import LargeStatus, ObjectKey
from siltstone.objects.records.rebuild_rows import is_rebuild
from siltstone.objects.records.space_rows import (
    ManifestRow,
    SpaceState,
    ValueStatus,
    decode_manifest_row,
    decode_state,
)
from siltstone.objects.space_names import SpaceNames
from tests.simulation.keyspaces.facts import Key, SeenHead, seen_row
from tests.support.objects.large_check import large_rows
from tests.support.objects.space_check import check_rows

if TYPE_CHECKING:
    from siltstone.container.state.replica import Replica

ROWS_MAX = 1_000_000
LAST = b"\xff"


@dataclass(frozen=True, slots=True)
class SpaceRows:
    """All rows of a keyspace.

    Attributes:
        state: what the next batch begins with.
        manifest: the value segments, in order.
        heads: all heads, expired ones too.
        rows: all of them.
    """

    state: SpaceState
    manifest: list[ManifestRow]
    heads: dict[ObjectKey, Head]
    rows: Mapping[bytes, bytes]

    @property
    def seen(self) -> dict[Key, SeenHead]:
        """The heads, as the ledger of a run takes them."""
        found = (seen_row(key, head) for key, head in self.heads.items())
        return {head.key: head for head in found}

    def large(self, status: LargeStatus) -> set[int]:
        """Numbers of the large values that are so far."""
        return {number for number, (found, _) in large_rows(self.rows).items() if found is status}

    @property
    def tasks(self) -> set[int]:
        """Numbers of the value segments that are to be deleted."""
        return {keys.number_of_task(key) for key in self.rows if key.startswith(keys.TASK)}

    def check(self) -> None:
        """Compare the rows with one another. Raises ``AssertionError``."""
        others = {key: row for key, row in self.rows.items() if not key.startswith(keys.TASK)}
        check_rows(others, self.heads)
        self._check_manifest()
        by_number = large_rows(self.rows)
        mine = {head.large.number: head for head in self.heads.values() if head.large is not None}
        assert self.large(LargeStatus.LIVE) == set(mine), "live values are those of heads"
        for number, head in mine.items():
            assert (by_number[number][1].sqn, by_number[number][1].size) == (head.sqn, head.size)

    def _check_manifest(self) -> None:
        state, after = self.state, 0
        actives = [row for row in self.manifest if row.status is ValueStatus.ACTIVE]
        assert actives == self.manifest[-1:], "the last one takes records"
        assert (actives[0].number, actives[0].first_sqn) == (state.number, state.first_sqn)
        assert state.records == state.next_sqn - state.first_sqn
        numbers = [row.number for row in self.manifest]
        assert len(set(numbers)) == len(numbers)
        assert not self.tasks.intersection(numbers), "a task names what the manifest names"
        assert max([*numbers, *self.tasks, *large_rows(self.rows)]) < state.next_number
        for row in self.manifest:
            assert row.first_sqn > after, "two segments have the same SQNs"
            after = state.next_sqn - 1 if row.status is ValueStatus.ACTIVE else row.last_sqn
        for key, head in self.heads.items():
            rows = [row for row in self.manifest if row.first_sqn <= head.sqn]
            assert rows, f"{key} has a change of no segment"
            last = state.next_sqn - 1 if rows[-1] is actives[0] else rows[-1].last_sqn
            assert head.sqn <= last, f"{key} has a change of no segment"


def rows_in(replica: Replica, names: SpaceNames) -> SpaceRows | None:
    """The rows in a state of the container; ``None`` where there is no keyspace."""
    table_id = replica.rows.table_id(names.ledger)
    if table_id is None:
        return None
    found = replica.tables.scan(table_id, b"", LAST, limit=ROWS_MAX)
    return rows_of({key: entry.value for key, entry in found})


def rows_of(rows: dict[bytes, bytes]) -> SpaceRows | None:
    """The same, of all rows of a ledger."""
    if keys.STATE not in rows:
        return None
    assert not is_rebuild(rows[keys.STATE]), "nothing rebuilds it"
    return SpaceRows(
        decode_state(rows[keys.STATE], where="state"),
        [
            decode_manifest_row(keys.first_sqn_of(key), value, where="manifest")
            for key, value in rows.items()
            if key.startswith(keys.MANIFEST)
        ],
        {
            keys.decode_head_key(key): decode_head(value, where="head")
            for key, value in rows.items()
            if key.startswith(keys.HEAD)
        },
        rows,
    )


def check_lengths(replica: Replica, names: SpaceNames, found: SpaceRows) -> None:
    """Long-term storage alone has all bytes that the rows on it speak of.

    Raises:
        AssertionError: some are missing.
    """
    lengths = {names.value_segment(row.number): row.length for row in found.manifest[:-1]}
    for row in found.manifest:
        if row.status is ValueStatus.SEALED:
            lengths[names.value_segment(row.number)] = row.footer_end
    lengths[names.value_segment(found.state.number)] = found.state.length
    for head in found.heads.values():
        if head.large is not None:
            size = head.size + head.large.sums_bytes(head.size)
            lengths[names.large_segment(head.large.number)] = size
    for name, length in lengths.items():
        segment_id = replica.rows.find(name)
        assert segment_id is not None, f"{name} is gone"
        there = replica.rows.layout(segment_id).storage_length
        assert there >= length, f"{name} has {there} of {length} bytes"
