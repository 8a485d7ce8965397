"""A keyspace at one moment, as folds read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from siltstone.core.errors import (
    CorruptDataError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SnapshotExpiredError,
)
from siltstone.objects.errors import LostObjectError
from siltstone.objects.folds import Found, HeadRange, head_views, heads
from siltstone.objects.ledger import check_built, manifest_of
from siltstone.objects.manifest import Manifest
from siltstone.objects.object_views import ObjectHead, StoredObject, lost
from siltstone.objects.records.head import Head, decode_head
from siltstone.objects.records.keys import STATE, head_key
from siltstone.objects.records.space_rows import ManifestRow, ValueStatus, decode_state

if TYPE_CHECKING:
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.snapshots import HeldLedger
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.objects.value_log import FoundHeader
    from siltstone.store.handles.async_table import AsyncTableSnapshot


class Moment:
    """What folds read, until it is released or its time is over: then ``SnapshotExpiredError``.

    Args:
        parts: of the keyspace.
        held: the ledger at that moment.

    Attributes:
        parts: of the keyspace.
    """

    def __init__(self, parts: SpaceParts, held: HeldLedger) -> None:
        self.parts = parts
        self._held = held
        self._rows: Manifest | None = None

    @property
    def version(self) -> int:
        """The table version of the ledger."""
        return self._held.version

    @property
    def ledger(self) -> AsyncTableSnapshot:
        """The ledger. Raises ``SnapshotExpiredError``."""
        return self._held.taken

    @property
    def now_s(self) -> float:
        """The present time, by which objects expire, seconds since 1970."""
        return self.parts.store.environment.time()

    def check(self) -> None:
        """Raise ``SnapshotExpiredError`` once its time is over."""
        assert self._held.taken is not None, "it raises"

    def release(self) -> None:
        """End it. Idempotent."""
        self._held.release()

    async def check_built(self) -> None:
        """Refuse a ledger that was being rebuilt. Raises ``RebuildingError``."""
        state = await self.ledger.get(STATE)
        if state is not None:
            check_built(state.value, keyspace=self.parts.names.name)

    def by_key(self, which: HeadRange) -> AsyncIterator[list[Found]]:
        """The heads of a range, in the order of buckets and keys."""
        return heads(self.ledger, which, self.now_s)

    def views(self, which: HeadRange) -> AsyncIterator[list[ObjectHead]]:
        """What ``by_key`` gives, as callers see it."""
        return head_views(self.ledger, which, self.now_s)

    async def by_sqn(self, which: HeadRange) -> AsyncIterator[list[Found]]:
        """The heads of a range, in the order of their SQNs."""
        ledger, now_s = self.ledger, self.now_s
        names = self.parts.names
        state = await ledger.get(STATE)
        if state is None:
            raise CorruptDataError("keyspace has no state", where=names.name)
        active = decode_state(state.value, where=names.name)
        for row in (await self.manifest()).rows:
            is_active = row.status is ValueStatus.ACTIVE
            length = active.length if is_active else row.length
            last = active.next_sqn - 1 if is_active else row.last_sqn
            done = row.first_sqn - 1
            try:
                async for page in self._headers(row, length):
                    found = []
                    for header in (each.header for each in page):
                        done = header.sqn
                        if not which.covers(header.key):
                            continue
                        head = await self.head(header.key)
                        if head is not None and head.sqn == done and which.has(head, now_s):
                            found.append((header.key, head))
                    yield found
            except (CorruptDataError, SegmentNotFoundError, SegmentTruncatedError):
                yield await self._between(which, done, last)

    async def _between(self, which: HeadRange, done: int, last: int) -> list[Found]:
        """The heads after an SQN, up to another one, where the value log does not tell them."""
        found = [
            each async for page in self.by_key(which) for each in page if done < each[1].sqn <= last
        ]
        return sorted(found, key=lambda each: each[1].sqn)

    async def _headers(self, row: ManifestRow, length: int) -> AsyncIterator[list[FoundHeader]]:
        try:
            async for page in self.parts.values.headers(row, length):
                yield page
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            await self._check_named(row, error)
            raise

    async def _check_named(self, row: ManifestRow | None, error: Exception) -> None:
        """Tell a segment that is lost from one that the owner of the store compacted meanwhile.

        It does not know of the snapshots of other processes.

        Raises:
            SnapshotExpiredError: it was compacted.
        """
        if row is None or row.number not in (await self.parts.manifest.now()).numbers:
            raise SnapshotExpiredError(
                "value segment was deleted that the snapshot needs",
                table=self.parts.names.ledger,
                version=self.version,
            ) from error

    async def manifest(self) -> Manifest:
        """The value segments."""
        if self._rows is None:
            where = self.parts.names.name
            self._rows = Manifest(await manifest_of(self.ledger.scan, where=where))
        return self._rows

    async def head(self, key: ObjectKey) -> Head | None:
        """The head of an object; ``None`` when it is absent or has expired by now."""
        row_key = head_key(key)
        found = await self.ledger.get(row_key)
        if found is None:
            return None
        head = decode_head(found.value, where=row_key.hex())
        return head if head.is_visible(self.now_s) else None

    async def read(self, found: Found) -> StoredObject | None:
        """Read the value of an object; ``None`` where it is lost and readers are told so.

        Raises:
            LostObjectError: it is damaged or gone.
            SnapshotExpiredError: the owner of the store, another process, deleted its segment.
        """
        key, head = found
        try:
            value = await self.parts.values.value(key, head, await self.manifest())
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            if head.large is None:
                await self._check_named((await self.manifest()).row_of(head.sqn), error)
            else:
                await self.parts.check_unchanged(key, head, error)
            where = self.parts.names.value_segment(head.number)
            self.parts.losses.tell(key, lost(key, head, where, str(error)))
            return None
        except LostObjectError as error:
            self.parts.losses.tell(key, error)
            return None
        self.parts.meter.got(len(value))
        return StoredObject(head=ObjectHead(key, head), value=value)


async def moment_of(parts: SpaceParts, ttl_s: float) -> Moment:
    """Hold on to a keyspace as it is now.

    Args:
        parts: of the keyspace.
        ttl_s: seconds until it ends, above 0, at most twelve hours.

    Raises:
        SnapshotLimitError: 16 snapshots of tables of this container are living.
        RebuildingError: its ledger is being rebuilt.
        ValueError: ``ttl_s`` is out of range.
    """
    moment = Moment(parts, await parts.snapshots.take(ttl_s))
    try:
        await moment.check_built()
    except BaseException:
        moment.release()
        raise
    return moment
