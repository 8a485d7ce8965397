"""Hypothesis strategies of metadata rows, and their codecs in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from siltstone.core.records import (
    adoption_row,
    attributes,
    block_sums,
    chunk,
    epoch_row,
    extent,
    import_batch_row,
    import_row,
    layout,
    legacy_row,
    number,
    retention_row,
    segment_state,
    task,
    time_row,
    tombstone,
    writer_row,
)
from siltstone.core.records.keys import RowKind

U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)

STATES = st.builds(
    segment_state.SegmentState,
    segment_id=U64,
    name=NAMES,
    start_offset=U64,
    sealed_length=st.none() | U64,
    deleted=st.booleans(),
    created_ms=U64,
)
LAYOUTS = st.builds(
    layout.Layout, segment_id=U64, storage_start=U64, storage_length=U64, last_chunk_id=U64
)
EXTENTS = st.builds(
    extent.Extent,
    segment_id=U64,
    start=U64,
    chunk_id=U64,
    chunk_offset=U64,
    length=st.integers(1, 2**64 - 1),
)
CHUNKS = st.builds(
    chunk.Chunk,
    chunk_id=U64,
    name=NAMES,
    epoch=U64,
    length=U64,
    closed=st.booleans(),
    adopted=st.booleans(),
    references=U64,
    session_id=st.just(0) | U64,
)
SUMS = st.lists(st.integers(0, 2**32 - 1), max_size=256).map(tuple)
WRITERS = st.builds(
    writer_row.WriterRow,
    segment_id=U64,
    number=U64,
    name=NAMES,
    sequence=st.integers(-1, 2**64 - 1),
    offset=U64,
    length=U64,
    used_ms=U64,
)
TASKS = st.builds(
    task.Task,
    due_ms=U64,
    kind=st.sampled_from(task.TaskKind),
    subject=U64,
    name=NAMES | st.just(""),
    stage=st.sampled_from(task.TaskStage),
    attempts=U64,
    dropped_version=U64,
    reason=st.text(max_size=40),
)
TIMES = st.one_of(
    st.builds(time_row.TimeRow, segment_id=U64, offset=U64, time_ms=U64),
    st.builds(
        time_row.TimeRow,
        segment_id=U64,
        offset=st.just(2**64 - 1),
        time_ms=U64,
        fall=st.integers(1, 2**64 - 2),
        falls=st.integers(1, 2**64 - 1),
    ),
)
RETENTIONS = st.builds(
    retention_row.RetentionRow,
    scope=st.sampled_from(retention_row.RetentionScope),
    name=NAMES | st.just(""),
    bytes_max=st.none() | U64,
    age_max_ms=st.none() | U64,
)
EPOCHS = st.builds(
    epoch_row.EpochRow,
    epoch=U64,
    closed_ms=U64,
    listed_ms=U64,
    clean=U64,
    found=st.booleans(),
    swept=st.booleans(),
)
IMPORTS = st.builds(
    import_row.ImportRow,
    name=NAMES,
    session_id=U64,
    state=st.sampled_from(import_row.ImportState),
    made_ms=U64,
    expires_ms=U64,
    closed_ms=U64,
    parts=st.lists(
        st.builds(import_row.ImportedPart, name=NAMES, segment_id=U64, offset=U64, length=U64),
        max_size=4,
    ).map(tuple),
    adoption=st.just("") | NAMES,
)
ADOPTIONS = st.builds(
    adoption_row.AdoptionRow, session_id=U64, adoption=NAMES, finalised=st.booleans()
)
AHEAD = st.tuples(U64, U64).filter(lambda ahead: ahead[0] < ahead[1]) | st.just((0, 0))
LEGACY_ROWS = st.builds(
    lambda ahead, **fields: legacy_row.LegacyRow(
        ahead_start=ahead[0], ahead_end=ahead[1], **fields
    ),
    ahead=AHEAD,
    segment_id=U64,
    session_id=U64,
    rolling_bytes=st.integers(1, 2**64 - 1),
    prefix=st.just("") | NAMES,
    source=st.just("") | NAMES,
    suffix=st.just("") | NAMES,
    header_length=U64,
    header_crc=st.integers(0, 2**32 - 1),
    listed=st.just("") | NAMES,
    bare=st.booleans(),
    sealed=st.booleans(),
)
IMPORT_BATCHES = st.builds(
    import_batch_row.ImportBatchRow,
    query=NAMES,
    batch=U64,
    session_id=U64,
    committed_ms=U64,
    target=st.just("") | NAMES,
)
TOMBSTONES = st.builds(
    tombstone.Tombstone,
    name=NAMES,
    source_id=U64,
    target_id=U64,
    offset=U64,
    length=U64,
    made_ms=U64,
)
ATTRIBUTES = st.dictionaries(NAMES, NAMES | st.just(""), max_size=5)

Codec = tuple[st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[Any, bytes], Any]]

CODECS: dict[str, Codec] = {
    "segment state": (
        STATES,
        segment_state.encode_segment_state,
        lambda row, value: segment_state.decode_segment_state(row.segment_id, value),
    ),
    "layout": (
        LAYOUTS,
        layout.encode_layout,
        lambda row, value: layout.decode_layout(row.segment_id, value),
    ),
    "extent": (
        EXTENTS,
        extent.encode_extent,
        lambda row, value: extent.decode_extent(row.segment_id, row.start, value),
    ),
    "chunk": (
        CHUNKS,
        chunk.encode_chunk,
        lambda row, value: chunk.decode_chunk(row.chunk_id, value),
    ),
    "block sums": (
        SUMS,
        block_sums.encode_block_sums,
        lambda _, value: block_sums.decode_block_sums(1, 0, value),
    ),
    "writer": (
        WRITERS,
        writer_row.encode_writer_row,
        lambda row, value: writer_row.decode_writer_row(row.segment_id, row.number, value),
    ),
    "task": (
        TASKS,
        task.encode_task,
        lambda row, value: task.decode_task(row.due_ms, row.kind, row.subject, value),
    ),
    "time": (
        TIMES,
        time_row.encode_time_row,
        lambda row, value: time_row.decode_time_row(row.segment_id, row.offset, value),
    ),
    "retention": (
        RETENTIONS,
        retention_row.encode_retention_row,
        lambda row, value: retention_row.decode_retention_row(row.scope, row.name, value),
    ),
    "epoch": (
        EPOCHS,
        epoch_row.encode_epoch_row,
        lambda row, value: epoch_row.decode_epoch_row(row.epoch, value),
    ),
    "import": (
        IMPORTS,
        import_row.encode_import_row,
        lambda row, value: import_row.decode_import_row(row.name, value),
    ),
    "import batch": (
        IMPORT_BATCHES,
        import_batch_row.encode_import_batch_row,
        lambda row, value: import_batch_row.decode_import_batch_row(row.query, value),
    ),
    "adoption": (
        ADOPTIONS,
        adoption_row.encode_adoption_row,
        lambda row, value: adoption_row.decode_adoption_row(row.session_id, value),
    ),
    "legacy": (
        LEGACY_ROWS,
        legacy_row.encode_legacy_row,
        lambda row, value: legacy_row.decode_legacy_row(row.segment_id, value),
    ),
    "tombstone": (
        TOMBSTONES,
        tombstone.encode_tombstone,
        lambda row, value: tombstone.decode_tombstone(row.name, value),
    ),
    "attributes": (
        ATTRIBUTES,
        attributes.encode_attributes,
        lambda _, value: attributes.decode_attributes(1, value),
    ),
    "number": (
        U64,
        lambda row: number.encode_number(RowKind.NAME, row),
        lambda _, value: number.decode_number(RowKind.NAME, value),
    ),
}
"""Kind of row: strategy, encode, decode (with the row that tells what its key holds)."""
