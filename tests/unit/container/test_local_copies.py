"""A reader beside owners: which of their local copies it links, and when it downloads instead.

What may be found beside the store: copies of the newest checkpoint, of an older one, of another
container's history whose files have the same names and lengths, damaged ones, or none; in any
folder that an owner may have used. What must hold: the reader shows what is there, and downloads
index files only when no folder has the checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.metadata.checkpoint import link_index
from siltstone.testing.faulty_chunk_storage import FaultyChunkStorage
from tests.unit.container.container_world import Owner, World, world

NAMES = [f"segment-{number}" for number in range(20)]


async def owned(made: World, index: str = "index", *, takeover: bool = False) -> Owner:
    owner = await made.open(index=index, takeover=takeover)
    for name in NAMES:
        await owner.container.create(name, exist_ok=True)
    await owner.container.checkpoint()
    return owner


async def downloads(made: World, *beside: str) -> int:
    """Open a reader beside these index folders; return how many index files it downloaded."""
    made_before = made.new_storage
    opened: list[FaultyChunkStorage] = []

    def recorded() -> ChunkStorage:
        opened.append(FaultyChunkStorage(made_before()))
        return opened[-1]

    made.new_storage = recorded
    reader = await made.open_reader(beside=beside)
    made.new_storage = made_before
    assert [info.name for info in await reader.list_segments()] == sorted(NAMES)
    await reader.close()
    return sum("/index-" in c.name and c.operation == "read_into" for c in opened[0].calls)


def copies(made: World, index: str) -> Path:
    return made.folder / f"{index}-checkpoint"


def play(story: Callable[[World], Awaitable[None]]) -> None:
    with world() as made:
        made.run(story(made))


def test_the_copies_of_the_newest_checkpoint_are_linked() -> None:
    async def story(made: World) -> None:
        owner = await owned(made)
        assert await downloads(made, "index") == 0
        shutil.rmtree(copies(made, "index"))
        assert await downloads(made, "index") > 0
        await owner.container.close()

    play(story)


def test_every_folder_that_an_owner_may_use_is_looked_at() -> None:
    async def story(made: World) -> None:
        older = await owned(made)
        newer = await owned(made, "index-1", takeover=True)
        await newer.container.create_table("t")
        await newer.container.checkpoint()
        assert await downloads(made, "index", "index-1", "index-2") == 0
        assert await downloads(made, "index") > 0
        await newer.container.close()
        await older.container.close()

    play(story)


def test_copies_of_another_history_are_passed_over() -> None:
    async def foreign(made: World, to: Path) -> None:
        owner = await owned(made)
        shutil.copytree(copies(made, "index"), to)
        await owner.container.close()

    async def story(made: World) -> None:
        owner = await owned(made)
        mine = made.folder / "mine"
        copies(made, "index").rename(mine)
        (made.folder / "foreign").rename(copies(made, "index"))
        checkpoint = owner.container._parts.journal.checkpoints[-1].checkpoint
        # So alike that only the position tells them apart.
        assert link_index(checkpoint.index_files, copies(made, "index"), made.folder / "linked")
        assert await downloads(made, "index") > 0
        mine.rename(copies(made, "index-1"))
        assert await downloads(made, "index", "index-1") == 0
        await owner.container.close()

    with world(1) as other, world(2) as made:
        other.run(foreign(other, made.folder / "foreign"))
        made.run(story(made))


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST"])
def test_damaged_copies_are_passed_over(name: str) -> None:
    async def story(made: World) -> None:
        owner = await owned(made)
        for path in copies(made, "index").glob(f"{name}*"):
            path.write_bytes(bytes(path.stat().st_size))
        assert await downloads(made, "index") > 0
        await owner.container.close()

    play(story)
