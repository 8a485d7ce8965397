"""A read-only open that fails leaves no index open."""

from __future__ import annotations

import pytest

from siltstone.core.errors import ChunkUnavailableError
from siltstone.metadata.index import Index
from tests.unit.container.container_world import World, world


def test_a_reader_that_fails_at_its_last_step_closes_its_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[Index] = []
    close = Index.close

    async def fails(*arguments: object) -> object:
        raise ChunkUnavailableError("injected", chunk="journal", operation="list")

    def noted(index: Index) -> None:
        closed.append(index)
        close(index)

    async def story(made: World) -> None:
        owner = await made.open()
        await owner.container.close()
        monkeypatch.setattr("siltstone.container.view.compared", fails)
        monkeypatch.setattr(Index, "close", noted)
        with pytest.raises(ChunkUnavailableError):
            await made.open_reader()
        assert len(closed) == 1

    with world() as made:
        made.run(story(made))
