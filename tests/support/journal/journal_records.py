"""Strategies for the records of the journal: any values that their fields can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.checkpoint import Checkpoint, IndexFile, SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.journal_batch import JournalBatch
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange

U16 = st.integers(0, 2**16 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NEWEST = st.integers(-1, 2**63 - 1)
TEXT = st.text(max_size=40)
LINEAGES = st.binary(min_size=16, max_size=16)

layouts = st.builds(
    Layout, segment_id=U64, storage_start=U64, storage_length=U64, last_chunk_id=U64
)
extents = st.builds(Extent, segment_id=U64, start=U64, chunk_id=U64, chunk_offset=U64, length=U64)
chunks = st.builds(
    Chunk,
    chunk_id=U64,
    name=TEXT,
    epoch=U64,
    length=U64,
    closed=st.booleans(),
    adopted=st.booleans(),
    references=U32,
)
sums = st.builds(
    BlockSumsPatch,
    chunk_id=U64,
    group=U32,
    first_block=U16,
    sums=st.lists(U32, max_size=5).map(tuple),
)
changes = st.builds(
    LayoutChange,
    segment_id=U64,
    before=layouts,
    after=layouts,
    extents_removed=st.lists(extents, max_size=3).map(tuple),
    extents_put=st.lists(extents, max_size=3).map(tuple),
    chunks_put=st.lists(chunks, max_size=3).map(tuple),
    chunks_dropped=st.lists(chunks, max_size=3).map(tuple),
    sums=st.lists(sums, max_size=3).map(tuple),
)
batches = st.builds(
    JournalBatch,
    lineage=LINEAGES,
    epoch=U64,
    sequence=U64,
    safe_index=U64,
    newest_index=NEWEST,
    change=changes,
)
systems = st.builds(
    SystemLayout,
    layout=layouts,
    extents=st.lists(extents, max_size=3).map(tuple),
    chunks=st.lists(chunks, max_size=3).map(tuple),
    sums=st.lists(sums, max_size=3).map(tuple),
)
index_files = st.builds(IndexFile, file_name=TEXT, chunk_name=TEXT, length=U64, crc=U32)
checkpoints = st.builds(
    Checkpoint,
    lineage=LINEAGES,
    epoch=U64,
    sequence=U64,
    system=st.lists(systems, max_size=2).map(tuple),
    index_files=st.lists(index_files, max_size=3).map(tuple),
    index_version=U64,
    index_crc=U32,
    replay_index=U64,
    safe_index=U64,
    newest_index=NEWEST,
)
