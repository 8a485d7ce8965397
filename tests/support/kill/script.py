"""A short life of a container, the same every time, for faults that are put at each of its steps.

It does everything once: appends of all kinds, commits, flushes, checkpoints, truncations,
deletions, joins, collections, and a second owner. Whatever is acknowledged goes to the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, Put
from tests.support.kill.child import ONCE_WRITER, PAIR_WRITER
from tests.support.kill.ledger import COUNT_KEY, PAIR, TABLE, Ledger
from tests.support.kill.payload import record

WRITER = 100


class Script:
    """One run over several owners, with what was acknowledged."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._sequence = 0
        self._pair = 0
        self._life = 1_000
        self._offsets: list[int] = []

    async def first(self, container: Container) -> None:
        """What the first owner does."""
        for name in ("plain", "once", "burst", PAIR, "joined"):
            await container.create(name)
        await container.create_table(TABLE)
        await self.plain(container, (700, 10, 1_500, 3_000))
        await self.once(container, 2)
        await self.commits(container, 2)
        await container.flush()
        await self.plain(container, (900, 2_500))
        await self.burst(container)
        await self.join(container, flushed=False)
        await container.flush("plain")
        await container.checkpoint()
        await self.truncate(container, 2)
        await self.commits(container, 1)
        await self.join(container, flushed=True)
        await self.delete(container)
        await container.flush()
        await container.checkpoint()
        await container.collect()
        await self.plain(container, (300, 300))
        await self.once(container, 1)
        await container.checkpoint()

    async def second(self, container: Container) -> None:
        """What the second owner does."""
        await self.plain(container, (500, 4_000))
        await self.once(container, 1)
        await self.truncate(container, 5)
        await container.flush()
        await self.commits(container, 1)
        await container.collect()
        await container.checkpoint()

    async def afterwards(self, container: Container) -> None:
        """What an owner does after a fault, whatever is there."""
        for name in ("plain", "once", "burst", PAIR, "joined"):
            await container.create(name, exist_ok=True)
        await container.create_table(TABLE, exist_ok=True)
        found = await container.table_get(TABLE, COUNT_KEY)
        self._pair = 0 if found is None else int(found.value) + 1
        self._sequence += 1_000
        await self.once(container, 1)
        await self.commits(container, 1)
        await container.flush()
        await container.checkpoint()
        await container.collect()

    async def plain(self, container: Container, lengths: Sequence[int]) -> None:
        for length in lengths:
            number, self._sequence = self._sequence, self._sequence + 1
            offset = await container.append("plain", record(WRITER, number, length))
            self.ledger.take([["a", "plain", offset, WRITER, number, length]])
            self._offsets.append(offset)

    async def once(self, container: Container, count: int) -> None:
        writer = await container.register_writer("once", "w")
        assert self.ledger.once <= writer.sequence <= self.ledger.once + 1
        for sequence in range(self.ledger.once + 1, self.ledger.once + 1 + count):
            data = record(ONCE_WRITER, sequence, 200)
            offset = await container.append_as("once", writer.number, sequence, data)
            again = await container.append_as("once", writer.number, sequence, data)
            assert again == offset
            self.ledger.take([["a", "once", offset, ONCE_WRITER, sequence, 200]])

    async def commits(self, container: Container, count: int) -> None:
        for _ in range(count):
            number = self._pair
            result = await container.commit(
                [
                    Append(PAIR, record(PAIR_WRITER, number, 400)),
                    Put(TABLE, COUNT_KEY, b"%d" % number),
                ]
            )
            self._pair += 1
            self.ledger.take([["a", PAIR, result.offsets[0], PAIR_WRITER, number, 400]])

    async def burst(self, container: Container) -> None:
        parts = [record(WRITER, number, 100) for number in range(5)]
        offset = await container.append_many("burst", parts)
        for number, part in enumerate(parts):
            self.ledger.take([["a", "burst", offset, WRITER, number, 100]])
            offset += len(part)

    async def join(self, container: Container, *, flushed: bool) -> None:
        name, writer = await self._live(container, flushed=flushed)
        await container.seal(name)
        self.ledger.take([["d?", name]])
        begin = await container.concat("joined", name)
        self.ledger.take([["a", "joined", begin, writer, 0, 800], ["d", name]])

    async def delete(self, container: Container) -> None:
        name, _ = await self._live(container, flushed=True)
        self.ledger.take([["d?", name]])
        await container.delete(name)
        self.ledger.take([["d", name]])

    async def truncate(self, container: Container, index: int) -> None:
        offset = self._offsets[index]
        self.ledger.take([["t?", "plain", offset]])
        await container.truncate("plain", offset)
        self.ledger.take([["t", "plain", offset]])

    async def _live(self, container: Container, *, flushed: bool) -> tuple[str, int]:
        writer, self._life = self._life, self._life + 1
        name = f"life/{writer}"
        await container.create(name)
        offset = await container.append(name, record(writer, 0, 800))
        self.ledger.take([["a", name, offset, writer, 0, 800]])
        if flushed:
            await container.flush(name)
        return name, writer
