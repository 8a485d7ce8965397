"""Planning a read of a keyspace: its rows at one moment, and where the values of objects lie.

The rows travel with the tasks, which open no container. The chunks with values are pinned after
the rows were read and before the places are mapped, so a value compaction takes none of them away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow

from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.constants import GIB, MIB
from siltstone.core.errors import (
    CapabilityError,
    OffsetError,
    SegmentNotFoundError,
    SnapshotExpiredError,
)
from siltstone.objects.changes import name_bytes, name_text
from siltstone.objects.folds import HeadRange, entries, head_range, head_rows, term_range
from siltstone.objects.moment import Moment, moment_of
from siltstone.objects.object_views import READS_MAX
from siltstone.objects.records.head import HeadFields, decode_head
from siltstone.objects.records.keys import decode_head_key
from siltstone.objects.records.large_place import LARGE
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_names import space_names
from siltstone.objects.space_parts import SpaceParts
from siltstone.pipelines.window import Window, cut_window
from siltstone.spark.keyspace_options import Fold, KeyspaceReadOptions
from siltstone.spark.opened_keyspace import opened_keyspace
from siltstone.spark.ranges import TAIL_BYTES_MAX
from siltstone.spark.value_packs import PACK_ROWS, ValuePlace, pack_places
from siltstone.store.handles.pinned_segments import pinned_segments

ROWS_BYTES_MAX: Final = GIB // 2
"""Rows of the ledger that one read takes: they pass through the driver's memory several times."""

SPLIT_BYTES: Final = 16 * MIB
"""Rows of one task that reads nothing else."""

VALUE_BYTES_MAX: Final = 256 * MIB
"""A row of Spark is copied a few times on its way."""

_FLAGS: Final = 2
"""The byte of a row that has the flags of its head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceSplit:
    """What one task reads. It holds neither handles nor secrets.

    Attributes:
        store: absolute path of the settings file, or of the folder that holds it.
        uuid: of the store: on the task's machine the path may lead to another one.
        keyspace: its name.
        tag: of the objects.
        rows: pairs of bytes, packed: keys and values of rows of heads, or terms and keys.
        windows: by segment where its bytes lie; none if no value is read.
        reads_values: whether values are read.
    """

    store: str
    uuid: str
    keyspace: str
    tag: str
    rows: bytes
    windows: Mapping[str, Window] = field(default_factory=dict)
    reads_values: bool = False


def plan_keyspace(options: KeyspaceReadOptions, *, values: bool) -> list[KeyspaceSplit]:
    """Plan a read of a keyspace as it is now.

    Args:
        options: what is read.
        values: whether the values of objects are.

    Raises:
        KeyspaceNotFoundError: there is no such keyspace.
        UnsupportedError: it has no such tag, or no values and no index.
        RebuildingError: its ledger is being rebuilt.
        CapabilityError: its rows, a value, or what is not flushed is too large for one read.
        SnapshotExpiredError: values were deleted while the read was planned, again and again.
        SiltstoneError: whatever opening a store read-only raises.
    """
    with opened_keyspace(options.store, space_names(options.keyspace)) as (loop, parts):
        return loop.run(_planned(parts, options, values=values))


async def _planned(
    parts: SpaceParts, options: KeyspaceReadOptions, *, values: bool
) -> list[KeyspaceSplit]:
    if options.fold is not Fold.HEADS:
        parts.check_values(f"fold {str(options.fold)!r}")
    plan = _Plan(parts, options, parts.check_tag(options.tag))
    for attempt in range(1, READS_MAX + 1):
        moment = await moment_of(parts, FOLD_TTL_S)
        try:
            if values:
                return [split async for split in plan.packs(moment)]
            return [split async for split in plan.splits(moment)]
        except SegmentNotFoundError as error:  # compacted after the moment, and before the pin
            if attempt == READS_MAX:
                raise SnapshotExpiredError(
                    "values were deleted while the read was planned; run it again",
                    table=parts.names.ledger,
                    version=moment.version,
                ) from error
        finally:
            moment.release()
    raise AssertionError("the last attempt returns or raises")


class _Plan:
    """Makes splits of one read.

    Args:
        parts: of the keyspace.
        options: what is read.
        tag: of the objects.
    """

    def __init__(self, parts: SpaceParts, options: KeyspaceReadOptions, tag: str) -> None:
        self._parts = parts
        self._options = options
        self._tag = tag

    async def splits(self, moment: Moment) -> AsyncIterator[KeyspaceSplit]:
        """Yield splits of heads, or of the index."""
        is_index = self._options.fold is Fold.INDEX
        pages = self._terms(moment) if is_index else self._heads(moment)
        rows: list[tuple[bytes, bytes]] = []
        length = total = 0
        async for page in pages:
            more = sum(len(first) + len(second) for first, second in page)
            total += more
            self._check_rows(total)
            rows += page
            length += more
            if length >= SPLIT_BYTES or len(rows) >= PACK_ROWS:
                yield self._split(rows)
                rows, length = [], 0
        if rows:
            yield self._split(rows)

    async def packs(self, moment: Moment) -> AsyncIterator[KeyspaceSplit]:
        """Yield splits of objects, in the order in which their values lie."""
        places: list[ValuePlace] = []
        total = 0
        async for page in head_rows(moment.ledger, self._range(), moment.now_s):
            for row_key, row, fields in page:
                total += len(row_key) + len(row)
                places.append(self._place(row_key, row, fields))
            self._check_rows(total)
        places.sort()
        ends: dict[str, int] = {}
        for place in places:
            ends[place.segment] = place.end
        maps = await self._mapped(ends)
        flushed = {name: found.tail_offset for name, found in maps.items()}
        for pack in pack_places(places, flushed.__getitem__, self._options.range_bytes):
            rows = [(place.row_key, place.row) for place in pack.places]
            windows = {name: cut_window(maps[name], *span) for name, span in pack.spans.items()}
            yield self._split(rows, windows, reads_values=True)

    async def _mapped(self, ends: Mapping[str, int]) -> dict[str, SegmentMap]:
        one = self._parts.store.segment(self._parts.names.value_segment(1))  # all are in one place
        try:
            maps = await pinned_segments(one, ends, self._options.ttl_s)
        except OffsetError as error:
            raise SegmentNotFoundError(
                "a value segment is another one by now", segment=self._parts.names.values
            ) from error
        unflushed = sum(len(found.tail) for found in maps.values())
        if unflushed > TAIL_BYTES_MAX:
            raise CapabilityError(
                "too many unflushed bytes for one read; flush the store first",
                keyspace=self._options.keyspace,
                unflushed_bytes=unflushed,
                limit=TAIL_BYTES_MAX,
            )
        return maps

    async def _heads(self, moment: Moment) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        async for page in head_rows(moment.ledger, self._range(), moment.now_s):
            yield [(row_key, row) for row_key, row, _ in page]

    async def _terms(self, moment: Moment) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        options = self._options
        assert options.bucket is not None, "an index has a bucket"
        assert options.field is not None, "and a field"
        which = term_range(
            self._tag, options.bucket, options.field, options.start, options.end, options.pattern
        )
        async for page in entries(moment.ledger, which, moment.now_s):
            yield [(name_bytes(term, what="term", least=0), key.key) for term, key in page]

    def _range(self) -> HeadRange:
        it = self._options
        return head_range(self._tag, it.bucket, it.start, it.end, it.since, it.until)

    def _place(self, row_key: bytes, row: bytes, fields: HeadFields) -> ValuePlace:
        size = fields[5]
        if size > VALUE_BYTES_MAX:
            key = decode_head_key(row_key)
            raise CapabilityError(
                "a value is too large for a row of Spark: read the heads, by fold 'heads' or "
                "without the column 'value', and the value by parts, by open_value()",
                bucket=name_text(key.bucket),
                key=name_text(key.key),
                size=size,
                limit=VALUE_BYTES_MAX,
            )
        names = self._parts.names
        if not row[_FLAGS] & LARGE:
            return ValuePlace(names.value_segment(fields[2]), fields[3], fields[4], row_key, row)
        large = decode_head(row, where=row_key.hex()).large
        assert large is not None, "its flag is set"
        length = size + large.sums_bytes(size)
        return ValuePlace(names.large_segment(large.number), 0, length, row_key, row)

    def _check_rows(self, total: int) -> None:
        if total > ROWS_BYTES_MAX:
            raise CapabilityError(
                "too many rows for one read; read by buckets or by ranges of keys, with the "
                "options 'bucket', 'start' and 'end'",
                keyspace=self._options.keyspace,
                limit=ROWS_BYTES_MAX,
            )

    def _split(
        self,
        rows: list[tuple[bytes, bytes]],
        windows: Mapping[str, Window] | None = None,
        *,
        reads_values: bool = False,
    ) -> KeyspaceSplit:
        return KeyspaceSplit(
            store=self._options.store,
            uuid=self._parts.store.uuid,
            keyspace=self._options.keyspace,
            tag=self._tag,
            rows=pack_rows(rows, _NAMES[self._options.fold]),
            windows=windows or {},
            reads_values=reads_values,
        )


_OF_HEADS: Final = ("row_key", "row")
_NAMES: Final[Mapping[Fold, tuple[str, str]]] = {
    Fold.HEADS: _OF_HEADS,
    Fold.OBJECTS: _OF_HEADS,
    Fold.INDEX: ("term", "key"),
}
"""By fold what the columns of packed rows are called."""


def pack_rows(rows: list[tuple[bytes, bytes]], names: tuple[str, str]) -> bytes:
    """Pack pairs of bytes, so that they travel as few ones: a stream of Arrow, by Zstandard."""
    first, second = zip(*rows, strict=True)
    kinds = [pyarrow.array(each, pyarrow.binary()) for each in (first, second)]
    batch = pyarrow.RecordBatch.from_arrays(kinds, list(names))
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack_rows(packed: bytes) -> pyarrow.RecordBatch:
    """What ``pack_rows`` packed."""
    with pyarrow.ipc.open_stream(packed) as reader:
        return reader.read_next_batch()
