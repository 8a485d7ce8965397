"""A reader next to owners: whose local index it links, and when it downloads one instead.

What may be found next to the store: the index of the newest owner, of an older one, of another
container's history, of the same lineage with another history, a damaged one, or none; in any
folder that an owner may have used. What must hold: the reader shows what is there, and downloads
index files only when no folder has an index as new as the checkpoint.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.metadata.index import Index, checkpoint_position
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.container.container_world import Owner, World, world

pytestmark = pytest.mark.virtual_time

NAMES = [f"segment-{number}" for number in range(20)]


async def owned(made: World, index: str = "index", *, takeover: bool = False) -> Owner:
    owner = await made.open(index=index, takeover=takeover)
    for name in NAMES:
        await owner.container.create(name, exist_ok=True)
    await owner.container.checkpoint()
    return owner


async def downloads(made: World, *beside: str) -> int:
    """Open a reader next to these index folders; return how many index files it downloaded."""
    made_before = made.new_storage
    opened: list[FaultyChunkStorage] = []

    def recorded() -> ChunkStorage:
        opened.append(FaultyChunkStorage(made_before()))
        return opened[-1]

    made.new_storage = recorded
    reader = await made.open_reader(next_to=beside)
    made.new_storage = made_before
    assert [info.name for info in await reader.list_segments()] == sorted(NAMES)
    await reader.close()
    return sum("/index-" in c.name and c.operation == "read_into" for c in opened[0].calls)


async def test_the_index_of_the_owner_is_linked() -> None:
    async with world() as made:
        owner = await owned(made)
        assert await downloads(made, "index") == 0
        (made.folder / "index").rename(made.folder / "elsewhere")
        assert await downloads(made, "index") > 0
        (made.folder / "elsewhere").rename(made.folder / "index")
        await owner.container.close()


async def test_a_linked_index_spares_the_replay_too() -> None:
    async with world() as made:
        owner = await owned(made)
        await owner.container.create_table("t")
        await owner.container.flush()
        await owner.container.close(flush="never")
        reader = await made.open_reader(next_to=("index",))
        stats = reader.stats()
        assert stats.checkpoint_version < stats.table_version
        assert reader._current().index.file_bytes() > 0
        begun = checkpoint_position(made.folder / "index")
        assert begun is not None
        assert begun.version > stats.checkpoint_version
        assert [info.name for info in await reader.list_segments()] == sorted(NAMES)
        assert await reader.list_tables() == ["t"]
        await reader.close()


async def test_every_folder_that_an_owner_may_use_is_looked_at() -> None:
    async with world() as made:
        older = await owned(made)
        newer = await owned(made, "index-1", takeover=True)
        await newer.container.create_table("t")
        await newer.container.checkpoint()
        assert await downloads(made, "index", "index-1", "index-2") == 0
        assert await downloads(made, "index") > 0
        await newer.container.close()
        await older.container.close()


async def test_an_index_of_another_history_is_passed_over() -> None:
    async with world(1) as other, world(2) as made:
        owner = await owned(other)
        await owner.container.close()
        shutil.copytree(other.folder / "index", made.folder / "foreign")
        owner = await owned(made)
        await owner.container.close()
        mine = made.folder / "mine"
        (made.folder / "index").rename(mine)
        (made.folder / "foreign").rename(made.folder / "index")
        assert await downloads(made, "index") > 0
        mine.rename(made.folder / "index-1")
        assert await downloads(made, "index", "index-1") == 0


async def test_an_index_of_the_same_lineage_that_took_another_way_is_passed_over() -> None:
    async with world() as made:
        owner = await owned(made)
        await owner.container.create_table("t")
        await owner.container.close()
        folder = made.folder / "index"
        index = Index.open(folder)
        position = index.position
        assert position is not None
        index.apply([], replace(position, running_crc=position.running_crc ^ 1))
        index.close()
        assert await downloads(made, "index") > 0


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST"])
async def test_a_damaged_index_is_passed_over(name: str) -> None:
    async with world() as made:
        owner = await owned(made)
        await owner.container.close()
        for path in (made.folder / "index").glob(f"{name}*"):
            path.write_bytes(bytes(path.stat().st_size))
        assert await downloads(made, "index") > 0
