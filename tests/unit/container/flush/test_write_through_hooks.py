"""An owner asks for a layout of another program only while its rows name one."""

from __future__ import annotations

import pytest

from siltstone.container.flush.write_through_hooks import (
    NO_WRITE_THROUGH,
    NoWriteThroughHooks,
    WriteThrough,
    WriteThroughHooks,
    WriteThroughOwner,
)
from siltstone.core.errors import CapabilityError
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.legacy_row import NEW_SEGMENTS, LegacyRow
from siltstone.metadata.adoption_rows import put_adoption
from siltstone.metadata.legacy_rows import put_legacy
from tests.support.container.container_world import world


class Hooks(NoWriteThroughHooks):
    """Hooks of a layout that takes no segment."""

    adoption = "old"


async def begin(owner: WriteThroughOwner, hooks: WriteThroughHooks) -> WriteThroughHooks:
    """Record in the rows that a layout is written."""
    assert hooks is NO_WRITE_THROUGH
    row = LegacyRow(
        segment_id=NEW_SEGMENTS, session_id=7, rolling_bytes=1, prefix="old/", source="old/"
    )
    adoption = AdoptionRow(session_id=7, adoption="old")
    await owner.context.pipeline.update([put_adoption(adoption), put_legacy(row)])
    return Hooks()


@pytest.mark.virtual_time
async def test_hooks_are_in_force_from_the_beginning_of_a_layout_to_its_end() -> None:
    async with world() as made:
        container = (await made.open()).container
        assert await container.written_adoption() is None
        await container.begin_write_through(begin)
        assert await container.written_adoption() == "old"
        reader = await made.open_reader()
        assert await reader.written_adoption() == "old"
        with pytest.raises(CapabilityError, match="takes no imports"):
            await container.imports.open("session", lifetime_s=60)
        await container.end_write_through()
        assert await container.written_adoption() is None
        assert await reader.written_adoption() is None
        await container.imports.open("session", lifetime_s=60)
        await reader.close()
        await container.close()
        # Its rows are gone, so the next owner needs no hooks.
        await (await made.open()).container.close()


@pytest.mark.virtual_time
async def test_an_owner_that_was_given_no_hooks_refuses_the_rows_of_a_layout() -> None:
    async with world() as made:
        container = (await made.open()).container
        await container.begin_write_through(begin)
        await container.close()
        with pytest.raises(CapabilityError, match="nothing here can do that"):
            await made.open()


def test_files_go_when_their_adoption_is_finalised_or_written() -> None:
    row = AdoptionRow(session_id=7, adoption="old")
    done = AdoptionRow(session_id=7, adoption="old", finalised=True)
    none, written = WriteThrough(), WriteThrough(Hooks())
    assert [none.lets_go(None), none.lets_go(row), none.lets_go(done)] == [False, False, True]
    other = AdoptionRow(session_id=8, adoption="another")
    assert [written.lets_go(None), written.lets_go(row), written.lets_go(other)] == [
        False,
        True,
        False,
    ]
