"""What the owners of a segment acknowledged, and whether it is there."""

from __future__ import annotations

from siltstone.container.container import Container
from tests.support.container.container_world import Owner, pattern
from tests.support.faults.zombie import content


class Acknowledged:
    """The segment ``a``, which is never truncated: each piece that its owners acknowledged."""

    def __init__(self) -> None:
        self._asked = 0
        self._pieces: list[tuple[int, bytes]] = []

    async def append(self, container: Container, length: int) -> None:
        """Append, and note the offset when it is told."""
        self._asked += 1
        data = pattern(self._asked, length)
        self._pieces.append((await container.append("a", data), data))

    async def check(self, owner: Owner) -> bytes:
        """Return what the owner has, in which every piece is at its place."""
        start, data = await content(owner, "a")
        assert start == 0
        for offset, piece in self._pieces:
            assert data[offset : offset + len(piece)] == piece, f"acknowledged at {offset}"
        return data
