"""The examples on the pages of the journal's formats decode to what the pages say."""

from __future__ import annotations

from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.checkpoint import (
    Checkpoint,
    IndexFile,
    SystemLayout,
    decode_checkpoint,
    encode_checkpoint,
)
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.journal_batch import (
    JournalBatch,
    decode_journal_batch,
    encode_journal_batch,
)
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange
from tests.support.docs.format_page import example

LINEAGE = bytes(range(16))
CHUNK_ID = 2 << 32 | 1
FOLDER = "system/c0/e00000000000000000002/"
BEFORE = Layout(segment_id=0, storage_start=1_000, storage_length=1_000)
AFTER = Layout(segment_id=0, storage_start=1_000, storage_length=1_300, last_chunk_id=CHUNK_ID)
EXTENT = Extent(segment_id=0, start=1_000, chunk_id=CHUNK_ID, chunk_offset=0, length=300)
CHUNK = Chunk(
    chunk_id=CHUNK_ID,
    name=f"{FOLDER}tables-00000000000000001000-0000000200000001",
    epoch=2,
    length=300,
)
SUMS = BlockSumsPatch(chunk_id=CHUNK_ID, group=0, first_block=0, sums=(0x1234ABCD,))


def test_journal_batch() -> None:
    data = example("journal-batch.md")
    batch, end = decode_journal_batch(data, where="page")
    assert end == len(data)
    assert batch == JournalBatch(
        lineage=LINEAGE,
        epoch=2,
        sequence=5,
        safe_index=90,
        newest_index=97,
        change=LayoutChange(
            segment_id=0,
            before=BEFORE,
            after=AFTER,
            extents_put=(EXTENT,),
            chunks_put=(CHUNK,),
            sums=(SUMS,),
        ),
    )
    assert encode_journal_batch(batch) == data


def test_checkpoint() -> None:
    data = example("checkpoint.md")
    checkpoint = decode_checkpoint(data, where="page")
    assert checkpoint == Checkpoint(
        lineage=LINEAGE,
        epoch=2,
        sequence=6,
        system=(SystemLayout(layout=AFTER, extents=(EXTENT,), chunks=(CHUNK,), sums=(SUMS,)),),
        index_files=(
            IndexFile(
                file_name="000012.sst",
                chunk_name=f"{FOLDER}index-89abcdef-4096-1f",
                length=4_096,
                crc=0x89ABCDEF,
            ),
        ),
        index_version=1_300,
        index_crc=0x55AA1122,
        replay_index=91,
        safe_index=90,
        newest_index=-1,
    )
    assert encode_checkpoint(checkpoint) == data
