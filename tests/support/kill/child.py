"""What a child process does: it opens the container and works until it is killed or fenced.

Every acknowledgement is reported before the next call: a line of JSON on a pipe, by one ``write``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, LengthIs, Put, SegmentInfo
from siltstone.container.models.settings import CloseFlush
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SiltstoneError
from tests.support.faults.place import Place
from tests.support.kill.ledger import COUNT_KEY, PAIR, TABLE
from tests.support.kill.payload import record

ONCE_WRITER = 1
PAIR_WRITER = 2
ROUND_WRITERS = 10_000
"""Numbers of writers of one child; those of the first one begin here."""

SEGMENTS = ("plain", "once", "burst", PAIR, "joined")
MANY = tuple(f"small/{number}" for number in range(20))
"""This many small segments share chunks."""

KEPT_BYTES = 60_000
"""A longer segment is truncated."""


@dataclass(frozen=True)
class Work:
    """What a child is told.

    Attributes:
        folder: of the container.
        seed: of its choices.
        number: of the child: no two children of a test have the same.
        once: the newest sequence of the exactly-once writer that the parent heard of.
        takeover: claim although a live owner exists.
        index: name of the index folder; a stopped owner keeps its own locked.
        seconds: it closes the container after this time.
    """

    folder: str
    seed: int
    number: int
    once: int = -1
    takeover: bool = False
    index: str = "index"
    seconds: float = 30.0

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


CHOICES: tuple[CloseFlush, ...] = ("auto", "always", "never")


class Child:
    """The work of one child."""

    def __init__(self, work: Work, pipe: int) -> None:
        self._work = work
        self._pipe = pipe
        self._random = random.Random(work.seed)
        self._borders: dict[str, list[int]] = {name: [] for name in (*SEGMENTS, *MANY)}

    def report(self, *facts: Any) -> None:
        os.write(self._pipe, json.dumps(facts).encode() + b"\n")

    async def run(self) -> None:
        work = self._work
        environment = SystemEnvironment()
        try:
            container = await Place(Path(work.folder)).own(
                environment,
                takeover=work.takeover,
                owner=f"child {work.number}",
                index=work.index,
            )
        except SiltstoneError as error:
            self.report("e", type(error).__name__, str(error))
            environment.close()
            return
        self.report("o", container.stats().epoch)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(work.seconds):
                await self._until_fenced(self._work_on(container))
        if container.failure is not None:
            self.report("e", type(container.failure).__name__, str(container.failure))
        await container.close(self._random.choice(CHOICES))
        environment.close()
        self.report("end")

    async def _work_on(self, container: Container) -> None:
        for name in SEGMENTS:
            await container.create(name, exist_ok=True)
        await container.create_table(TABLE, exist_ok=True)
        first = self._work.number * ROUND_WRITERS
        jobs = [self._plain(container, first + index) for index in range(3)]
        jobs += [
            self._burst(container, first + 3),
            self._once(container),
            self._commits(container),
            self._truncations(container),
            self._lives(container, first + 4),
            self._many(container, first + ROUND_WRITERS - 1),
            self._care(container),
        ]
        await asyncio.gather(*(self._until_fenced(job) for job in jobs))

    async def _until_fenced(self, job: Any) -> None:
        try:
            await job
        except SiltstoneError as error:
            self.report("e", type(error).__name__, str(error))

    def _acknowledged(
        self, segment: str, offset: int, writer: int, sequence: int, length: int
    ) -> None:
        self.report("a", segment, offset, writer, sequence, length)
        if segment in self._borders:
            self._borders[segment].append(offset)

    def _length(self) -> int:
        return int(self._random.choice((10, 200, 600, 600, 2_000, 9_000)) * self._random.random())

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.choice((0, 0, 0, 0.001, 0.004)))

    # --- appends ---

    async def _plain(self, container: Container, writer: int) -> None:
        sequence = 0
        while True:
            length = self._length()
            offset = await container.append("plain", record(writer, sequence, length))
            self._acknowledged("plain", offset, writer, sequence, length)
            sequence += 1
            await self._pause()

    async def _burst(self, container: Container, writer: int) -> None:
        """Several records in one append, and several appends in flight."""
        sequence = 0
        while True:
            calls = []
            for _ in range(4):
                count = self._random.randint(1, 5)
                numbers = range(sequence, sequence + count)
                sequence += count
                lengths = [self._length() // 4 for _ in numbers]
                parts = [record(writer, *pair) for pair in zip(numbers, lengths, strict=True)]
                call = container.append_many("burst", parts)
                calls.append((call, numbers, lengths, parts))
            for call, numbers, lengths, parts in calls:
                offset = await call
                for number, length, part in zip(numbers, lengths, parts, strict=True):
                    self._acknowledged("burst", offset, writer, number, length)
                    offset += len(part)
            await self._pause()

    async def _many(self, container: Container, writer: int) -> None:
        """A few bytes for each of many segments, a flush of all, the end of some bytes of one."""
        for name in MANY:
            await container.create(name, exist_ok=True)

        async def one(name: str, sequence: int) -> None:
            length = self._length() // 8
            offset = await container.append(name, record(writer, sequence, length))
            self._acknowledged(name, offset, writer, sequence, length)

        for sequence in count():
            await asyncio.gather(*(one(name, sequence) for name in MANY))
            await container.flush()
            await self._truncate(container, self._random.choice(MANY))
            await self._pause()

    async def _once(self, container: Container) -> None:
        """Continue after what the parent heard of: the next append may be there already."""
        writer = await container.register_writer("once", "w")
        known = self._work.once
        if not known <= writer.sequence <= known + 1:
            self.report("e", "Forgotten", f"sequence {writer.sequence}, acknowledged {known}")
        sequence = known + 1
        while True:
            length = 50 + sequence % 700
            data = record(ONCE_WRITER, sequence, length)
            offset = await container.append_as("once", writer.number, sequence, data)
            self._acknowledged("once", offset, ONCE_WRITER, sequence, length)
            sequence += 1
            await self._pause()

    async def _commits(self, container: Container) -> None:
        found = await container.table_get(TABLE, COUNT_KEY)
        sequence = 0 if found is None else int(found.value) + 1
        length = (await container.info(PAIR)).length
        while True:
            size = self._length() // 4
            data = record(PAIR_WRITER, sequence, size)
            value = b"%d" % sequence
            result = await container.commit(
                [
                    Append(PAIR, data),
                    Put(TABLE, COUNT_KEY, value),
                    Put(TABLE, b"key %d" % (sequence % 40), value * 20),
                ],
                [LengthIs(PAIR, length)],
            )
            self._acknowledged(PAIR, result.offsets[0], PAIR_WRITER, sequence, size)
            length += len(data)
            sequence += 1
            await self._pause()

    # --- what takes bytes away ---

    async def _truncations(self, container: Container) -> None:
        while True:
            await asyncio.sleep(0.02 * self._random.random())
            name = self._random.choice(SEGMENTS)
            info = await container.info(name)
            if info.length - info.start_offset >= KEPT_BYTES:
                await self._truncate(container, name)

    async def _truncate(self, container: Container, name: str) -> None:
        start = (await container.info(name)).start_offset
        borders = [border for border in self._borders[name] if border > start]
        if borders:
            offset = self._random.choice(borders)
            self.report("t?", name, offset)
            await container.truncate(name, offset)
            self.report("t", name, offset)

    async def _lives(self, container: Container, writer: int) -> None:
        """Segments that live for a moment and then are deleted, or joined to another."""
        while True:
            name = f"life/{writer}"
            await container.create(name)
            records = []
            for sequence in range(self._random.randint(1, 4)):
                length = self._length()
                offset = await container.append(name, record(writer, sequence, length))
                self._acknowledged(name, offset, writer, sequence, length)
                records.append((offset, sequence, length))
            if self._random.random() < 0.5:
                await container.flush(name)
            joined = self._random.random() < 0.5
            if joined:
                await container.seal(name)
            self.report("d?", name)
            if joined:
                begin = await container.concat("joined", name)
                for offset, sequence, length in records:
                    self._acknowledged("joined", begin + offset, writer, sequence, length)
            else:
                await container.delete(name)
            self.report("d", name)
            writer += 1
            await self._pause()

    async def _care(self, container: Container) -> None:
        """What an application may ask for at any time; and it clears up after older children."""
        for info in await container.list_segments("life/"):
            await self._clear_up(container, info)
        while True:
            await asyncio.sleep(0.1 * self._random.random())
            choice = self._random.random()
            if choice < 0.4:
                await container.flush()
            elif choice < 0.7:
                await container.checkpoint()
            else:
                await container.collect()

    async def _clear_up(self, container: Container, info: SegmentInfo) -> None:
        if int(info.name.removeprefix("life/")) >= self._work.number * ROUND_WRITERS:
            return
        self.report("d?", info.name)
        await container.delete(info.name)
        self.report("d", info.name)


def main(request: bytes, pipe: int) -> None:
    """Do what ``request`` says."""
    asyncio.run(Child(Work(**json.loads(request)), pipe).run())
