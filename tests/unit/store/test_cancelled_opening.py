"""An opening that is given up holds nothing: the next one finds the store free, at once."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.metadata.index import Index

HELD_S = 0.3


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Openings of an index take a moment, of which this tells the first one's beginning."""
    begun, open_index = threading.Event(), Index.open
    held = threading.Event()
    opened = []  # so that none is closed only because nobody knows it any more

    def slowly(*args: Any, **kwargs: Any) -> Index:
        is_first = not begun.is_set()
        begun.set()
        if is_first:
            held.wait(HELD_S)
        index = open_index(*args, **kwargs)
        opened.append(index)
        if is_first:
            held.wait(HELD_S)
        return index

    monkeypatch.setattr(Index, "open", slowly)
    return begun


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_store_is_free_after_an_opening_that_was_cancelled(
    tmp_path: Path, begun: threading.Event, *, is_restored: bool
) -> None:
    file = siltstone.init(tmp_path / "store")
    with siltstone.open(file) as store:
        store.create("a").append(b"kept")
        store.flush()
    if is_restored:
        shutil.rmtree(tmp_path / "store" / "index")
    begun.clear()

    async def play() -> None:
        opening = asyncio.create_task(siltstone.open_async(file))
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with await siltstone.open_async(file) as store:
            assert await store.segment("a").read(0, 10) == b"kept"

    asyncio.run(play())
