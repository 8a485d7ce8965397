"""Planning a read while an owner works: no range is planned for the wrong segment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import events
from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.errors import SegmentNotFoundError
from siltstone.spark.options import Mode, ReadOptions
from siltstone.spark.resolve import resolve_tasks
from siltstone.store.store import Store


def make_again(store: Store, size: int) -> None:
    """Make the segment of events, or its successor of the same name."""
    if any(store.list("a")):
        store.segment("a").delete()
    segment = store.create("a")
    for number in range(10):
        segment.append(events.encode_many([b"%d" % number * size] * 100))
    store.flush()


@pytest.mark.slow
@pytest.mark.parametrize("call", ["map", "append_borders"])
def test_a_segment_that_is_made_again_while_it_is_planned_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    siltstone.init(tmp_path / "store", containers=1)
    options = ReadOptions(
        store=str(tmp_path / "store"), segments=("a",), mode=Mode.EVENTS, range_bytes=1_000
    )
    with siltstone.open(tmp_path / "store") as store:
        make_again(store, 1)
        plain = getattr(ReadContainer, call)
        calls: list[str] = []

        async def made_again_first(self: ReadContainer, *arguments: Any) -> Any:
            calls.append(call)
            if len(calls) == 1:
                make_again(store, 3)
                await self.refresh()
            return await plain(self, *arguments)

        monkeypatch.setattr(ReadContainer, call, made_again_first)
        with pytest.raises(SegmentNotFoundError, match="made again while it was read"):
            resolve_tasks(options, 1)
    assert calls
