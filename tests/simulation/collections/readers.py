"""Who reads: at one time with and without a lease, by shares, and as a stream."""

from __future__ import annotations

import pickle
from contextlib import suppress
from functools import partial

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_snapshot import AsyncCollectionSnapshot
from siltstone.collections.async_subscription import AsyncSubscription
from siltstone.collections.place import CollectionPlace
from siltstone.collections.splits import rows_of_split
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    LeaseExpiredError,
    SiltstoneError,
    SinceError,
)
from tests.simulation.collections.actor import UNANSWERED, Actor
from tests.simulation.facts import ViolationError

STEPS_MAX = 40
"""Of a subscription that ends; more means that it makes no progress."""


class SnapshotReader(Actor):
    """Reads all rows at a time, perhaps long after it planned that."""

    async def once(self, gusts: AsyncCollection) -> None:
        known = self.ledger.known()
        as_of = self._some_time()
        lease = self.chance.random() < 0.5
        diffs = self.chance.random() < 0.5
        try:
            snapshot = await gusts.snapshot(as_of, lease=lease, diffs=diffs, timeout_s=60.0)
        except SinceError as error:
            self.ledger.refused_time(error.as_of, error.since)
            return
        except LeaseExpiredError as error:
            self.need_trouble(error)
            return
        except UNANSWERED as error:
            self.excuse(error)
            return
        try:
            if as_of is None:
                self.ledger.read_newest(snapshot.as_of, known)
            if self.chance.random() < 0.4:
                await self.host.process.sleep(2.5 * self.host.world.lease_s * self.chance.random())
            table = await self._read(snapshot, lease=lease)
            if table is not None and snapshot.as_of is not None:
                self.ledger.read_rows(table, snapshot.as_of, known)
                self.note(f"read {len(table)} rows at {snapshot.as_of}, lease: {lease}")
        finally:
            await snapshot.close()

    def _some_time(self) -> int | None:
        """The newest time, one that can be read, or one that may be gone."""
        ledger = self.ledger
        if self.chance.random() < 0.4 or ledger.since >= ledger.upper:
            return None
        if ledger.since and self.chance.random() < 0.1:
            return ledger.since - 1
        if self.chance.random() < 0.3:
            return max(ledger.since, ledger.upper - self.chance.choice((1, 2, 5)))
        return self.chance.randint(ledger.since, ledger.upper - 1)

    async def _read(
        self, snapshot: AsyncCollectionSnapshot, *, lease: bool
    ) -> pyarrow.Table | None:
        way = self.chance.choice(("table", "batches", "splits"))
        try:
            if way == "splits":
                with suppress(ChunkNotFoundError):  # By the snapshot, it is told what that means.
                    return await self._read_splits(snapshot)
            if way == "batches":
                batches = [batch async for batch in snapshot.batches()]
                return pyarrow.Table.from_batches(batches, schema=snapshot.schema)
            return await snapshot.to_arrow()
        except SinceError as error:
            if lease:
                raise ViolationError(f"a lease did not keep its time: {error}") from error
            self.ledger.refused_time(error.as_of, error.since)
        except LeaseExpiredError as error:
            if lease:
                self.need_trouble(error)
        except UNANSWERED as error:
            self.excuse(error)
        return None

    async def _read_splits(self, snapshot: AsyncCollectionSnapshot) -> pyarrow.Table:
        """Read each share as a worker does that has nothing but long-term storage."""
        found = []
        for split in snapshot.splits():
            worker = partial(_read_split, pickle.dumps(split), self.host.place)
            found += await self.host.place.work(worker)
        return pyarrow.Table.from_batches(found, schema=snapshot.schema)


def _read_split(pickled: bytes, place: CollectionPlace) -> list[pyarrow.RecordBatch]:
    return list(rows_of_split(place.storage, pickle.loads(pickled)))


class Divider(Actor):
    """Reads a history in two: all rows at a time, and what changed after it."""

    async def once(self, gusts: AsyncCollection) -> None:
        ledger = self.ledger
        known = ledger.known()
        if known.upper <= known.since:
            return
        middle = self.chance.randint(known.since, known.upper - 1)
        try:
            if self.chance.random() < 0.5:
                stream = await gusts.subscribe(middle, until=known.upper)
                is_first = True
            else:
                snapshot = await gusts.snapshot(middle)
                ledger.read_rows(await snapshot.to_arrow(), middle, known)
                lease = self.chance.random() < 0.5
                stream = await gusts.listen(middle + 1, until=known.upper, lease=lease)
                is_first = False
            await self._read(stream, middle, known.upper, is_first=is_first)
        except SinceError as error:
            ledger.refused_time(error.as_of, error.since)
        except LeaseExpiredError as error:
            self.need_trouble(error)
        except UNANSWERED as error:
            self.excuse(error)

    async def _read(
        self, stream: AsyncSubscription, middle: int, until: int, *, is_first: bool
    ) -> None:
        frontier = middle if is_first else middle + 1
        try:
            for _ in range(STEPS_MAX * max(1, len(self.ledger.attempts))):
                try:
                    changes = await anext(stream)
                except StopAsyncIteration:
                    break
                if is_first:
                    self.ledger.first_rows(changes.to_arrow(), middle)
                    is_first = False
                elif changes.lower != frontier:
                    raise ViolationError(f"changes from {changes.lower} after {frontier}")
                else:
                    self.ledger.read_changes(changes.to_arrow(), changes.lower, changes.upper)
                frontier = changes.upper
            if frontier != until:
                raise ViolationError(f"changes end at {frontier}, and not at {until}")
            self.note(f"read from {middle} to {until}")
        finally:
            await stream.close()


class Follower(Actor):
    """Follows a collection, and goes on where it was after each end of a lease."""

    async def run(self) -> None:
        frontier: int | None = None
        while not self.host.is_leaving:
            gusts = await self.collection()
            stream = None if gusts is None else await self._begun(gusts, frontier)
            if stream is None:
                frontier = None
                await self.host.process.sleep(self.chance.random())
                continue
            try:
                await self._follow(stream)
            finally:
                frontier = None if stream._from_rows else stream.frontier
                await stream.close()

    async def _begun(
        self, gusts: AsyncCollection, frontier: int | None
    ) -> AsyncSubscription | None:
        try:
            if frontier is None and self.chance.random() < 0.5:
                return await gusts.subscribe()
            return await gusts.listen(frontier, lease=self.chance.random() < 0.5)
        except SinceError as error:
            self.ledger.refused_time(error.as_of, error.since)
        except UNANSWERED as error:
            self.excuse(error)
        return None

    async def _follow(self, stream: AsyncSubscription) -> None:
        """Judge each step until the stream ends."""
        has_lease = stream._lease is not None
        while True:
            frontier, is_first = stream.frontier, stream._from_rows
            try:
                changes = await anext(stream)
            except (SinceError, LeaseExpiredError) as error:
                self._ended(error, has_lease=has_lease)
                return
            except ChunkError as error:
                self.excuse(error)
                await self.host.process.sleep(self.chance.random())
                continue
            table = changes.to_arrow()
            if is_first:
                self.ledger.first_rows(table, frontier)
            elif changes.lower != frontier:
                raise ViolationError(f"changes from {changes.lower} after {frontier}")
            else:
                self.ledger.read_changes(table, changes.lower, changes.upper)
            self.note(f"followed to {changes.upper}, lease: {has_lease}")
            if self.chance.random() < 0.2:
                await self.host.process.sleep(3 * self.host.world.lease_s * self.chance.random())

    def _ended(self, error: SiltstoneError, *, has_lease: bool) -> None:
        if isinstance(error, SinceError):
            if has_lease:
                raise ViolationError(f"a lease did not keep its time: {error}") from error
            self.ledger.refused_time(error.as_of, error.since)
        elif has_lease:
            self.need_trouble(error)
