"""What an application does with a store, and what it tells the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from siltstone.container.views import Append, LengthIs, Operation, Put, VersionIs
from siltstone.core.errors import (
    CorruptDataError,
    OffsetError,
    Outcome,
    SegmentNotFoundError,
    SegmentSealedError,
    SiltstoneError,
)
from siltstone.store.async_segment import AsyncSegment
from siltstone.store.async_store import AsyncStore
from siltstone.testing.processes import Process
from tests.simulation.ledger import Attempt, Bytes, Ledger, Segment, State, ViolationError
from tests.simulation.looking import KEY, Look, look

T = TypeVar("T")

TABLE = "rows"
SEGMENTS_MAX = 7
SIZES = (8, 9, 40, 300, 300, 1_000, 1_000, 3_000, 9_000)
REFUSALS_MAX = 12
"""A client whose store refuses so often in a row goes home."""


@dataclass(eq=False)
class Writer:
    """An exactly-once writer, which may be carried on by a client of another process.

    Attributes:
        segment: what it appends to.
        name: its name there.
        sequence: of its newest append.
        append: the newest one.
        busy: whether a client has it.
    """

    segment: Segment
    name: str
    sequence: int = 0
    append: Bytes | None = None
    busy: bool = False


@dataclass(eq=False)
class Joining:
    """A concat whose outcome nobody knows yet.

    Attributes:
        target: the segment that gets the bytes.
        source: the one that they come from.
        bytes: the attempt.
        busy: whether a client has it.
    """

    target: Segment
    source: Segment
    bytes: Bytes
    busy: bool = False


@dataclass
class Plans:
    """What the clients of all processes hand over to one another."""

    names: int = 0
    writers: list[Writer] = field(default_factory=list)
    joinings: list[Joining] = field(default_factory=list)


class Application:
    """The clients of one open store."""

    def __init__(
        self, store: AsyncStore, process: Process, ledger: Ledger, plans: Plans, chance: Random
    ) -> None:
        self._store = store
        self._process = process
        self._ledger = ledger
        self._plans = plans
        self._chance = chance
        self._refusals = 0
        self.leaving = False

    @property
    def epoch(self) -> int:
        """Of the owner that would be asked now."""
        return self._store._slots[0].epoch

    async def run(self, clients: int) -> None:
        """Be busy until told to leave, or until the store is of no use."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        await self._ask(lambda: self._store.create_table(TABLE, exist_ok=True))
        verbs = [*VERBS]
        weights = [weight for _, weight in verbs]
        while not self.leaving and self._refusals < REFUSALS_MAX:
            await self._process.sleep(0.6 * self._chance.random())
            verb, _ = self._chance.choices(verbs, weights)[0]
            await verb(self)

    # --- asking -----------------------------------------------------------------------------------

    async def _ask(
        self,
        call: Callable[[], Awaitable[T]],
        *attempts: Attempt,
        again: bool = False,
        segment: Segment | None = None,
        others: Iterable[Segment] = (),
    ) -> T | None:
        """Make a call and tell the ledger what its error means; ``None`` if there was one."""
        epoch = self.epoch
        current = epoch == self._ledger.epoch
        sure = segment is not None and segment.create.state is State.HAPPENED
        named = [*others, *([] if segment is None else [segment])]
        for each in named:
            each.calls += 1
        try:
            result = await call()
        except SiltstoneError as error:
            if self._process.dead:
                raise asyncio.CancelledError from error
            self._refusals += 1
            if isinstance(error, CorruptDataError):
                raise ViolationError(f"{self._process.name} of epoch {epoch}: {error!r}") from error
            if error.outcome is Outcome.NOT_APPLIED and not again:
                for attempt in attempts:
                    attempt.failed(f"its error says so: {error!r}")
            if current and epoch == self._ledger.epoch and segment is not None:
                self._judge(error, segment, epoch, sure=sure)
            return None
        finally:
            for each in named:
                each.calls -= 1
        if self._process.dead:
            raise asyncio.CancelledError
        self._refusals = 0
        return result

    def _judge(self, error: SiltstoneError, segment: Segment, epoch: int, *, sure: bool) -> None:
        """Whether a current owner may say that of a segment."""
        if isinstance(error, SegmentNotFoundError):
            if error.segment == segment.name and segment.rename is None:
                self._ledger.missing(segment, epoch, was_there=sure)
        elif isinstance(error, SegmentSealedError):
            if segment.seal is None:
                raise ViolationError(f"{segment.name} is sealed, and nobody asked for it")
        elif isinstance(error, OffsetError) and error.expected < segment.start:
            raise ViolationError(f"{segment.name} became shorter: {error!r}")

    def _handle(self, segment: Segment) -> AsyncSegment:
        return self._store.segment(segment.name)

    def _some(self) -> Segment | None:
        """A segment that may be there and that clients share."""
        found = [
            segment
            for segment in self._ledger.segments.values()
            if not segment.private
            and segment.create.state is not State.FAILED
            and segment.rename is None
        ]
        return self._chance.choice(found) if found else None

    def _data(self) -> bytes:
        return self._chance.randbytes(self._chance.choice(SIZES))

    # --- appending --------------------------------------------------------------------------------

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
        operations: list[Operation] = [Put(TABLE, key, row.data)]
        conditions: list[LengthIs | VersionIs] = [VersionIs(TABLE, key, None)]
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
            row.happened()
            for (segment, append), offset in zip(appends, result.offsets, strict=True):
                segment.acknowledged(append, offset)

    # --- lives of segments ------------------------------------------------------------------------

    async def create(self, *, private: bool = False) -> Segment | None:
        shared = [s for s in self._ledger.segments.values() if not s.private]
        if len(shared) >= SEGMENTS_MAX and not private:
            return None
        self._plans.names += 1
        return await self._create(f"{'p' if private else 's'}/{self._plans.names}", private=private)

    async def _create(self, name: str, *, private: bool) -> Segment | None:
        create = Attempt(what=f"create {name}", epoch=self.epoch)
        segment = Segment(name=name, create=create, private=private)
        self._ledger.segments[name] = segment
        made = await self._ask(lambda: self._store.create(name), create)
        if made is not None:
            create.happened()
            return segment
        if create.state is State.FAILED:
            self._ledger.gone(segment)
        return None

    async def truncate(self) -> None:
        segment = self._some()
        if segment is None or not segment.length:
            return
        offset = self._chance.randint(segment.start, segment.length)
        segment.start_tried = max(segment.start_tried, offset)
        handle = self._handle(segment)

        async def call() -> bool:
            await handle.truncate(offset)
            return True

        epoch = self.epoch
        # An owner that was overtaken may say that there is nothing to do, of a segment that was.
        if await self._ask(call, segment=segment) and epoch == self._ledger.epoch:
            segment.start = max(segment.start, offset)

    async def seal(self) -> None:
        segment = self._some()
        if segment is not None and self._chance.random() < 0.3:
            await self._seal(segment)

    async def _seal(self, segment: Segment) -> bool:
        seal, handle, again, epoch = segment.seal, self._handle(segment), True, self.epoch
        if seal is None:
            seal = segment.seal = Attempt(what=f"seal {segment.name}", epoch=self.epoch)
            again = False
        elif seal.state is State.OPEN and seal.epoch == self.epoch:
            return False
        else:
            seal.again(self.epoch)
        info = await self._ask(handle.seal, seal, again=again, segment=segment)
        if info is None:
            if seal.state is State.FAILED:
                segment.seal = None
            return False
        if epoch != self._ledger.epoch:
            return False
        seal.happened()
        if segment.sealed_length not in (None, info.length):
            raise ViolationError(f"{segment.name} was sealed at two lengths")
        segment.sealed_length = info.length
        return True

    async def rename(self) -> None:
        segment = self._some()
        if segment is None or segment.calls or segment.end is not None:
            return
        self._plans.names += 1
        segment.new_name = f"r/{self._plans.names}"
        segment.rename = rename = Attempt(what=f"rename {segment.name}", epoch=self.epoch)
        handle = self._handle(segment)
        if await self._ask(lambda: handle.rename(segment.new_name), rename) is not None:
            self._ledger.renamed(segment)
        elif rename.state is State.FAILED:
            segment.rename = None

    async def delete(self) -> None:
        segment = self._some()
        if segment is None or (segment.end and segment.end.state is not State.FAILED):
            return
        segment.end = Attempt(what=f"delete {segment.name}", epoch=self.epoch)
        end, handle = segment.end, self._handle(segment)

        async def call() -> bool:
            await handle.delete()
            return True

        if await self._ask(call, end, segment=segment):
            end.happened()
            self._ledger.gone(segment)
            # A call that names it could find the new one.
            free = not segment.calls and segment.name not in self._ledger.segments
            if free and self._chance.random() < 0.5:
                await self._create(segment.name, private=False)

    async def join(self) -> None:
        """Fill a segment of one's own, and put it behind another one."""
        target = self._some()
        source = await self.create(private=True)
        if source is None or target is None:
            return
        handle = self._handle(source)
        for _ in range(self._chance.randint(0, 4)):
            append = source.append(self._data(), self.epoch, "own append")
            offset = await self._ask(lambda: handle.append(append.data), append, segment=source)  # noqa: B023
            if offset is None:
                return
            source.acknowledged(append, offset)
        if self._chance.random() < 0.3:
            cut = self._chance.randint(0, source.length)
            source.start_tried = cut
            if await self._ask(lambda: _true(handle.truncate(cut)), segment=source) is None:
                return
            source.start = cut
        if not await self._seal(source) or self._ledger.segments.get(target.name) is not target:
            return
        data = bytes(source.known[source.start :])
        added = target.append(data, self.epoch, f"join of {source.name}")
        source.end = added
        joining = Joining(target, source, added)
        await self._join(joining, again=False)
        if added.state is State.OPEN:
            self._plans.joinings.append(joining)

    async def _join(self, joining: Joining, *, again: bool) -> None:
        target, source = joining.target, joining.source
        handle = self._handle(target)
        offset = await self._ask(
            lambda: handle.concat(source.name), joining.bytes, again=again, others=(target, source)
        )
        if offset is not None:
            if joining.bytes.data:
                target.acknowledged(joining.bytes, offset)
            else:
                joining.bytes.happened()
            self._ledger.gone(source)

    async def join_again(self) -> None:
        """Repeat a concat of which nobody knows what became of it."""
        plans = self._plans
        plans.joinings = [j for j in plans.joinings if j.busy or not j.target.ended]
        waiting = [joining for joining in plans.joinings if not joining.busy]
        if not waiting:
            return
        joining = self._chance.choice(waiting)
        joining.busy = True
        try:
            if joining.bytes.offset is None:
                joining.bytes.again(self.epoch)
                joining.target.asked(joining.bytes)
            await self._join(joining, again=True)
            if joining.bytes.state is State.HAPPENED:
                plans.joinings.remove(joining)
        finally:
            joining.busy = False

    async def set_attribute(self) -> None:
        segment = self._some()
        if segment is None or segment.is_set:
            return
        self._plans.names += 1
        text = f"value {self._plans.names}"
        value = Bytes(what=f"{text} of {segment.name}", epoch=self.epoch, data=text.encode())
        segment.values.append(value)
        segment.is_set = True
        handle = self._handle(segment)
        try:
            if await self._ask(lambda: handle.set_attributes({KEY: text}), value, segment=segment):
                segment.set_to(value)
        finally:
            segment.is_set = False

    async def remove_row(self) -> None:
        """Remove a row by its key, or as a range."""
        free = [key for key, row in self._ledger.rows.items() if row.stays]
        if not free:
            return
        key = self._chance.choice(free)
        end = Attempt(what=f"removal of {key!r}", epoch=self.epoch)
        self._ledger.rows[key].end = end
        table = self._store.table(TABLE)
        if self._chance.random() < 0.5:
            removed = await self._ask(lambda: table.remove(key), end)
        else:
            removed = await self._ask(lambda: table.remove_range(key, key + b"\0"), end)
        if removed is not None:
            end.happened()

    # --- looking and care -------------------------------------------------------------------------

    async def look(self) -> None:
        segments = list(self._ledger.segments.values())
        if segments:
            await self._look(self._chance.choice(segments))

    async def look_at_all(self) -> None:
        """Look at everything, and at the rows."""
        for segment in list(self._ledger.segments.values()):
            await self._look(segment)
        await self.look_at_rows()

    async def _look(self, segment: Segment) -> None:
        who = Look(
            name=self._process.name, ledger=self._ledger, epoch=self.epoch, process=self._process
        )
        if segment.rename is not None:
            await self._find_out(segment)
        if segment.rename is None:
            await self._ask(lambda: look(who, self._handle(segment), segment), others=(segment,))

    async def _find_out(self, segment: Segment) -> None:
        """Which of its two names a segment has."""
        epoch, rename, name = self.epoch, segment.rename, segment.name
        if rename is None or rename.epoch >= epoch or epoch != self._ledger.epoch:
            return

        async def there(name: str) -> bool:
            try:
                await self._store.segment(name).info()
            except SegmentNotFoundError:
                return False
            return True

        old = await self._ask(lambda: there(name))
        new = await self._ask(lambda: there(segment.new_name))
        if None in (old, new) or epoch != self._ledger.epoch or segment.rename is not rename:
            return
        if old == new and segment.create.state is State.HAPPENED and segment.end is None:
            raise ViolationError(f"{name} has two names, or none: {old} {new}")
        if new:
            self._ledger.renamed(segment)
        else:
            rename.failed(f"epoch {epoch} does not have it")
            segment.rename = None

    async def look_at_rows(self) -> None:
        epoch, ledger = self.epoch, self._ledger
        current = epoch == ledger.epoch
        rows = ledger.rows
        sure = [key for key, row in rows.items() if row.stays]
        gone = [key for key, row in rows.items() if row.end and row.end.state is State.HAPPENED]

        async def call() -> dict[bytes, bytes]:
            return {key: v.value async for key, v in self._store.table(TABLE).scan()}

        found = await self._ask(call)
        if found is None:
            return
        for key, value in found.items():
            ledger.row_seen(key, value)
        if not current or epoch != ledger.epoch:
            return
        for key in sure:
            if key not in found and rows[key].stays:
                raise ViolationError(f"row {key!r} is gone from epoch {epoch}")
        if back := [key for key in gone if key in found]:
            raise ViolationError(f"removed rows are back in epoch {epoch}: {back}")
        for key, row in rows.items():
            end = row.end
            if end is not None and end.state is State.OPEN and end.epoch < epoch:
                if key in found:
                    end.failed(f"epoch {epoch} has it still")
                else:
                    end.happened()
            if key not in found and row.state is State.OPEN and row.epoch < epoch:
                row.failed(f"epoch {epoch} does not have it")
            row.check_group()

    async def care(self) -> None:
        """What is otherwise done by itself, now."""
        store = self._store
        choice = self._chance.randrange(5)
        if choice == 0:
            await self._ask(store.flush)
        elif choice == 1:
            await self._ask(lambda: store._slots[0].container.checkpoint())
        elif choice == 2:
            await self._ask(store.collect)
        elif choice == 3:
            await self._ask(self._optimise)
        else:

            async def sweep() -> int:
                return len([finding async for finding in store.sweep(delete=True)])

            await self._ask(sweep)

    async def _optimise(self) -> None:
        parts = self._store._slots[0].container._parts
        try:
            await parts.optimiser.round()
        except CorruptDataError:
            # Only the verbs tell whether a newer owner took the chunk away.
            if self.epoch == self._ledger.epoch:
                raise


async def _true(work: Awaitable[None]) -> bool:
    await work
    return True


VERBS: tuple[tuple[Callable[[Application], Awaitable[object]], int], ...] = (
    (Application.append, 30),
    (Application.burst, 8),
    (Application.append_once, 12),
    (Application.commit, 8),
    (Application.create, 4),
    (Application.truncate, 6),
    (Application.seal, 2),
    (Application.delete, 2),
    (Application.rename, 2),
    (Application.set_attribute, 3),
    (Application.remove_row, 3),
    (Application.join, 6),
    (Application.join_again, 4),
    (Application.look, 14),
    (Application.look_at_rows, 3),
    (Application.care, 5),
)
