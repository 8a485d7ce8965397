"""Objects used in a ``with`` block are closed with it, also when the block fails."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.closed_on_exit import AsyncClosing, Closing
from siltstone.core.errors import SiltstoneError


class Door(Closing):
    closed = 0

    def close(self) -> None:
        self.closed += 1


class AsyncDoor(AsyncClosing):
    closed = 0

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


def test_the_end_of_a_block_closes() -> None:
    door = Door()
    with door as inside:
        assert inside is door
        assert door.closed == 0
    assert door.closed == 1
    with pytest.raises(KeyError), door:
        raise KeyError("of the block")
    assert door.closed == 2


class StuckDoor(Closing):
    def close(self) -> None:
        raise SiltstoneError("the door is stuck")


class AsyncStuckDoor(AsyncClosing):
    async def close(self) -> None:
        raise SiltstoneError("the door is stuck")


def test_what_the_block_raised_is_not_hidden_by_its_end() -> None:
    with pytest.raises(SiltstoneError, match="stuck"), StuckDoor():
        pass
    with pytest.raises(KeyError) as caught, StuckDoor():
        raise KeyError("of the block")
    assert caught.value.__notes__ == ["the door is stuck"]

    async def whole() -> None:
        with pytest.raises(SiltstoneError, match="stuck"):
            async with AsyncStuckDoor():
                pass
        with pytest.raises(KeyError) as caught:
            async with AsyncStuckDoor():
                raise KeyError("of the block")
        assert caught.value.__notes__ == ["the door is stuck"]

    asyncio.run(whole())


async def test_the_end_of_an_async_block_closes() -> None:
    door = AsyncDoor()
    async with door as inside:
        assert inside is door
        assert door.closed == 0
    assert door.closed == 1
    with pytest.raises(KeyError):
        async with door:
            raise KeyError("of the block")
    assert door.closed == 2
