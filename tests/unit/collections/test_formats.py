"""A collection whose format was raised is refused by releases that do not know it."""

from __future__ import annotations

import pytest

from siltstone.collections import async_collection
from siltstone.collections.state import lives
from siltstone.core.errors import FormatError
from siltstone.core.records import collection_state
from tests.support.collections.collections_world import CollectionsWorld, rows, shown

pytestmark = pytest.mark.virtual_time


async def test_an_upgrade_is_one_entry_and_older_releases_refuse_it_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with CollectionsWorld() as world:
        gusts = await (await world.create()).collection()
        older = await world.open().collection()
        await gusts.append(rows(("a", 1)))
        before = (await gusts.info()).seqno
        assert await gusts.upgrade() == 1
        assert (await gusts.info()).seqno == before, "it has the newest format"
        with monkeypatch.context() as newer_release:
            for module in (async_collection, lives, collection_state):
                newer_release.setattr(module, "FORMAT", 2)
            assert await gusts.upgrade() == 2
            info = await gusts.info()
            assert (info.format, info.seqno) == (2, before + 1)
            assert await shown(gusts) == [("a", 1)]
        for handle in (older.info, lambda: older.append(rows(("b", 2)))):
            with pytest.raises(FormatError, match=f"found=2 known=1 where=.*{gusts.id.hex()}"):
                await handle()
        with pytest.raises(FormatError, match="found=2 known=1"):
            await world.open().collection()
