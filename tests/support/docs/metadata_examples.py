"""The worked examples of the rows of metadata."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from siltstone.core.records import keys
from siltstone.core.records.adoption_row import (
    AdoptionRow,
    decode_adoption_row,
    encode_adoption_row,
)
from siltstone.core.records.attributes import decode_attributes, encode_attributes
from siltstone.core.records.block_sums import decode_block_sums, encode_block_sums
from siltstone.core.records.chunk import Chunk, decode_chunk, encode_chunk
from siltstone.core.records.epoch_row import EpochRow, decode_epoch_row, encode_epoch_row
from siltstone.core.records.extent import Extent, decode_extent, encode_extent
from siltstone.core.records.import_batch_row import (
    ImportBatchRow,
    decode_import_batch_row,
    encode_import_batch_row,
)
from siltstone.core.records.import_row import (
    ImportedPart,
    ImportRow,
    ImportState,
    decode_import_row,
    encode_import_row,
)
from siltstone.core.records.keys import CounterKind, RowKind
from siltstone.core.records.layout import Layout, decode_layout, encode_layout
from siltstone.core.records.legacy_row import LegacyRow, decode_legacy_row, encode_legacy_row
from siltstone.core.records.number import decode_number, encode_number
from siltstone.core.records.retention_row import (
    RetentionRow,
    RetentionScope,
    decode_retention_row,
    encode_retention_row,
)
from siltstone.core.records.segment_state import (
    SegmentState,
    decode_segment_state,
    encode_segment_state,
)
from siltstone.core.records.task import Task, TaskKind, TaskStage, decode_task, encode_task
from siltstone.core.records.time_row import TimeRow, decode_time_row, encode_time_row
from siltstone.core.records.tombstone import Tombstone, decode_tombstone, encode_tombstone
from siltstone.core.records.writer_row import WriterRow, decode_writer_row, encode_writer_row
from siltstone.metadata.position import Position, decode_position, encode_position

FORMATS = Path(__file__).resolve().parents[3] / "docs" / "formats"


_EXAMPLE = re.compile(r"^```hex (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


STATE = SegmentState(
    segment_id=300,
    name="flights/2013",
    start_offset=4096,
    sealed_length=10_000,
    created_ms=1_700_000_000_000,
)


LAYOUT = Layout(segment_id=300, storage_start=4096, storage_length=9000, last_chunk_id=42)


EXTENT = Extent(segment_id=300, start=4096, chunk_id=42, chunk_offset=0, length=4904)


CHUNK = Chunk(chunk_id=42, name="import/7/0-0-ab", epoch=0, length=4904, closed=True, adopted=True)


IN_PLACE = replace(CHUNK, chunk_id=43, name="old/a", session_id=7)


SUMS = (0xE3069283, 0x01020304)


WRITER = WriterRow(
    segment_id=300,
    number=5,
    name="loader-7",
    sequence=9,
    offset=8000,
    length=1000,
    used_ms=1_700_000_000_000,
    sum=0x01020304,
)


TASK = Task(
    due_ms=1_700_000_900_000,
    kind=TaskKind.DELETE_CHUNK,
    subject=42,
    name="import/7/0-0-ab",
    stage=TaskStage.STATED,
    attempts=2,
    dropped_version=5000,
)


FAILED_TASK = replace(TASK, due_ms=2**62, stage=TaskStage.FAILED, attempts=10, reason="denied")


KEPT_TASK = replace(
    TASK, due_ms=2**62 + 1, subject=43, name="old/a", stage=TaskStage.KEPT, attempts=0
)


TIME = TimeRow(segment_id=300, offset=8000, time_ms=1_700_000_000_000)


FALLEN_TIME = TimeRow(segment_id=300, offset=9000, time_ms=1_699_999_000_000, fall=8000, falls=1)


RETENTION = RetentionRow(
    scope=RetentionScope.PREFIX, name="flights/", bytes_max=1 << 20, age_max_ms=60_000
)


EPOCH = EpochRow(
    epoch=3, closed_ms=1_700_000_000_000, listed_ms=1_700_000_300_000, clean=2, swept=True
)


IMPORT = ImportRow(
    name="job-1",
    session_id=7,
    state=ImportState.COMMITTED,
    made_ms=1_700_000_000_000,
    expires_ms=1_700_086_400_000,
    closed_ms=1_700_000_300_000,
    parts=(ImportedPart(name="flights/2013", segment_id=300, offset=4096, length=4904),),
)


ADOPTING = replace(
    IMPORT,
    name="job-2",
    session_id=8,
    state=ImportState.OPEN,
    closed_ms=0,
    parts=(),
    adoption="old",
)


ADOPTION = AdoptionRow(session_id=7, adoption="old")


LEGACY = LegacyRow(
    segment_id=300,
    session_id=7,
    rolling_bytes=1 << 20,
    prefix="old/",
    source="a",
    header_length=27,
    header_crc=0xAABBCCDD,
)


LEGACY_AHEAD = replace(LEGACY, ahead_start=1 << 20, ahead_end=(1 << 21) + 5)


IMPORTED_CHUNK = "import/c0/0000000000000007/00000-0-00000000000000ab"


IMPORT_BATCH = ImportBatchRow(query="q-1", batch=41, session_id=7, committed_ms=1_700_000_300_000)


TARGETED_BATCH = replace(IMPORT_BATCH, query="q-2", target="s")


TOMBSTONE = Tombstone(
    name="part-1",
    source_id=299,
    target_id=300,
    offset=4096,
    length=500,
    made_ms=1_700_000_000_000,
)


RENAMED = Tombstone(
    name="draft", source_id=300, target_id=300, offset=0, length=0, made_ms=TOMBSTONE.made_ms
)


ATTRIBUTES = {"unit": "", "source": "JFK"}


POSITION = Position(bytes(range(16)), 5000, 0xAABBCCDD, 77)


def examples(page: str) -> dict[str, str]:
    return dict(_EXAMPLE.findall((FORMATS / page).read_text(encoding="utf-8")))


def row(text: str) -> tuple[bytes, bytes]:
    key, _, value = text.partition(":")
    return bytes.fromhex(key), bytes.fromhex(value)


ROWS = {name: row(text) for name, text in examples("rows.md").items()}


WRITTEN: dict[str, tuple[bytes, bytes]] = {
    "segment-state": (keys.state_key(300), encode_segment_state(STATE)),
    "layout": (keys.layout_key(300), encode_layout(LAYOUT)),
    "extent": (keys.extent_key(300, 4096), encode_extent(EXTENT)),
    "chunk": (keys.chunk_key(42), encode_chunk(CHUNK)),
    "chunk-in-place": (keys.chunk_key(43), encode_chunk(IN_PLACE)),
    "block-sums": (keys.block_sums_key(42, 0), encode_block_sums(SUMS)),
    "writer": (keys.writer_key(300, 5), encode_writer_row(WRITER)),
    "task": (keys.task_key(1_700_000_900_000, 1, 42), encode_task(TASK)),
    "failed-task": (keys.task_key(2**62, 1, 42), encode_task(FAILED_TASK)),
    "kept-task": (keys.task_key(2**62 + 1, 1, 43), encode_task(KEPT_TASK)),
    "time": (keys.time_key(300, 8000), encode_time_row(TIME)),
    "fallen-time": (keys.time_key(300, 9000), encode_time_row(FALLEN_TIME)),
    "retention": (keys.retention_key(1, "flights/"), encode_retention_row(RETENTION)),
    "epoch": (keys.epoch_key(3), encode_epoch_row(EPOCH)),
    "import": (keys.import_key("job-1"), encode_import_row(IMPORT)),
    "adopting-import": (keys.import_key("job-2"), encode_import_row(ADOPTING)),
    "adoption": (keys.adoption_key(7), encode_adoption_row(ADOPTION)),
    "legacy": (keys.legacy_key(300), encode_legacy_row(LEGACY)),
    "legacy-ahead": (keys.legacy_key(300), encode_legacy_row(LEGACY_AHEAD)),
    "imported-chunk": (keys.import_chunk_key(IMPORTED_CHUNK), encode_number(RowKind.IMPORT, 42)),
    "import-batch": (keys.import_batch_key("q-1"), encode_import_batch_row(IMPORT_BATCH)),
    "targeted-import-batch": (
        keys.import_batch_key("q-2"),
        encode_import_batch_row(TARGETED_BATCH),
    ),
    "tombstone": (keys.tombstone_key("part-1"), encode_tombstone(TOMBSTONE)),
    "renamed": (keys.tombstone_key("draft"), encode_tombstone(RENAMED)),
    "attributes": (keys.attributes_key(300), encode_attributes(ATTRIBUTES)),
    "name": (keys.name_key("flights/2013"), encode_number(RowKind.NAME, 300)),
    "writer-name": (
        keys.writer_name_key(300, "loader-7"),
        encode_number(RowKind.WRITER_NAME, 5),
    ),
    "table": (keys.table_name_key("prices"), encode_number(RowKind.TABLE, 3)),
    "counter": (keys.counter_key(CounterKind.CHUNK_ID), encode_number(RowKind.COUNTER, 1025)),
    "position": (b"\0", encode_position(POSITION)),
}


READ: dict[str, tuple[object, Callable[[bytes, bytes], object]]] = {
    "segment-state": (STATE, lambda _, value: decode_segment_state(300, value)),
    "layout": (LAYOUT, lambda _, value: decode_layout(300, value)),
    "extent": (EXTENT, lambda key, value: decode_extent(*keys.extent_of(key), value)),
    "chunk": (CHUNK, lambda _, value: decode_chunk(42, value)),
    "chunk-in-place": (IN_PLACE, lambda _, value: decode_chunk(43, value)),
    "block-sums": (SUMS, lambda _, value: decode_block_sums(42, 0, value)),
    "writer": (WRITER, lambda key, value: decode_writer_row(*keys.writer_of(key), value)),
    "task": (TASK, lambda key, value: decode_task(*keys.task_of(key), value)),
    "failed-task": (FAILED_TASK, lambda key, value: decode_task(*keys.task_of(key), value)),
    "kept-task": (KEPT_TASK, lambda key, value: decode_task(*keys.task_of(key), value)),
    "time": (TIME, lambda _, value: decode_time_row(300, 8000, value)),
    "fallen-time": (FALLEN_TIME, lambda _, value: decode_time_row(300, 9000, value)),
    "retention": (RETENTION, lambda _, value: decode_retention_row(1, "flights/", value)),
    "epoch": (EPOCH, lambda _, value: decode_epoch_row(3, value)),
    "import": (IMPORT, lambda key, value: decode_import_row(keys.import_of(key)[1], value)),
    "adopting-import": (
        ADOPTING,
        lambda key, value: decode_import_row(keys.import_of(key)[1], value),
    ),
    "adoption": (
        ADOPTION,
        lambda key, value: decode_adoption_row(keys.adoption_of(key), value),
    ),
    "legacy": (LEGACY, lambda key, value: decode_legacy_row(keys.legacy_of(key), value)),
    "legacy-ahead": (
        LEGACY_AHEAD,
        lambda key, value: decode_legacy_row(keys.legacy_of(key), value),
    ),
    "imported-chunk": (42, lambda _, value: decode_number(RowKind.IMPORT, value)),
    "import-batch": (
        IMPORT_BATCH,
        lambda key, value: decode_import_batch_row(keys.name_of(key), value),
    ),
    "targeted-import-batch": (
        TARGETED_BATCH,
        lambda key, value: decode_import_batch_row(keys.name_of(key), value),
    ),
    "tombstone": (TOMBSTONE, lambda key, value: decode_tombstone(keys.name_of(key), value)),
    "renamed": (RENAMED, lambda key, value: decode_tombstone(keys.name_of(key), value)),
    "attributes": (ATTRIBUTES, lambda _, value: decode_attributes(300, value)),
    "name": (300, lambda _, value: decode_number(RowKind.NAME, value)),
    "writer-name": (5, lambda _, value: decode_number(RowKind.WRITER_NAME, value)),
    "table": (3, lambda _, value: decode_number(RowKind.TABLE, value)),
    "counter": (1025, lambda _, value: decode_number(RowKind.COUNTER, value)),
    "position": (POSITION, lambda _, value: decode_position(value)),
}
