"""What clients add to a store: segments, appends of every kind, and rows."""

from __future__ import annotations

import asyncio

from siltstone.container.models.segments import Append, LengthIs, Operation, Put, VersionIs
from tests.simulation.asking import SEGMENTS_MAX, Asking, Writer
from tests.simulation.facts import Attempt, Bytes, Segment, State, ViolationError
from tests.simulation.whole_commits import Commit


class Appending(Asking):
    """Verbs that add."""

    async def append(self) -> None:
        segment = self._some()
        if segment is None or segment.seal is not None:
            await self.create()
            return
        append = segment.append(self._data(), self.epoch)
        expected = segment.length if self._chance.random() < 0.2 else None
        handle = self._handle(segment)
        offset = await self._ask(
            lambda: handle.append(append.data, expected_offset=expected), append, segment=segment
        )
        if offset is not None:
            if expected not in (None, offset):
                raise ViolationError(f"an append expecting {expected} is at {offset}")
            segment.acknowledged(append, offset)
            self._ledger.acknowledged += 1

    async def burst(self) -> None:
        """Many at a time, so that frames hold more than one."""
        await asyncio.gather(*(self.append() for _ in range(self._chance.randint(2, 12))))

    async def append_once(self) -> None:
        """As an exactly-once writer: first again what may have happened, then something new."""
        writer = self._writer()
        if writer is None:
            return
        writer.busy = True
        try:
            handle, segment = self._handle(writer.segment), writer.segment
            registered = await self._ask(lambda: handle.writer(writer.name), segment=segment)
            if registered is None:
                return
            if writer.append is None or writer.append.offset is not None:
                writer.sequence += self._chance.randint(1, 3)
                writer.append = segment.append(self._data(), self.epoch, f"once {writer.sequence}")
                again = False
            else:
                writer.append.again(self.epoch)
                segment.asked(writer.append)
                again = True
            append = writer.append
            for _ in range(self._chance.randint(1, 2)):
                offset = await self._ask(
                    lambda: registered.append(append.data, sequence=writer.sequence),
                    append,
                    again=again,
                    segment=segment,
                )
                if offset is None:
                    return
                segment.acknowledged(append, offset)
                again = True
        finally:
            writer.busy = False

    def _writer(self) -> Writer | None:
        free = [w for w in self._plans.writers if not w.busy and not w.segment.ended]
        if free and self._chance.random() < 0.8:
            return self._chance.choice(free)
        segment = self._some()
        if segment is None or len(free) > 5:
            return None
        writer = Writer(segment, f"writer-{len(self._plans.writers)}")
        self._plans.writers.append(writer)
        return writer

    async def commit(self) -> None:
        """Appends to several segments and a row, all or none."""
        epoch = self.epoch
        self._plans.names += 1
        key = f"row-{self._plans.names}".encode()
        row = Bytes(what=f"row {key!r}", epoch=epoch, data=self._data()[:20])
        self._ledger.rows[key] = row
        members = [row]
        operations: list[Operation] = [Put(self._rows.name, key, row.data)]
        conditions: list[LengthIs | VersionIs] = [VersionIs(self._rows.name, key, None)]
        targets = {id(segment): segment for segment in (self._some(), self._some()) if segment}
        appends = []
        for segment in targets.values():
            append = segment.append(self._data(), epoch, "commit")
            appends.append((segment, append))
            members.append(append)
            operations.append(Append(segment.name, append.data))
            if self._chance.random() < 0.2:
                conditions.append(LengthIs(segment.name, segment.length))
        for member in members:
            member.group = members
        result = await self._ask(
            lambda: self._store.commit(operations, conditions), *members, others=targets.values()
        )
        if result is not None:
            row.done(result.version)
            self._ledger.heard_of(result.version)
            for (segment, append), offset in zip(appends, result.offsets, strict=True):
                segment.acknowledged(append, offset)
            ends = [
                (segment.segment_id, offset + len(append.data))
                for (segment, append), offset in zip(appends, result.offsets, strict=True)
                if segment.segment_id is not None and append.data
            ]
            self._ledger.commits.append(Commit(self._rows.name, key, tuple(ends)))

    async def create(self, *, private: bool = False) -> Segment | None:
        shared = [s for s in self._ledger.segments.values() if not s.private]
        if len(shared) >= SEGMENTS_MAX and not private:
            return None
        self._plans.names += 1
        kind = "p" if private else "s"
        return await self._create(f"{self._tag}{kind}/{self._plans.names}", private=private)

    async def _create(self, name: str, *, private: bool) -> Segment | None:
        create = Attempt(what=f"create {name}", epoch=self.epoch)
        segment = Segment(name=name, create=create, private=private, now_ms=self._ledger.now_ms)
        self._ledger.segments[name] = segment
        made = await self._ask(lambda: self._store.create(name), create)
        if made is not None:
            create.happened()
            return segment
        if create.state is State.FAILED:
            self._ledger.gone(segment)
        return None
