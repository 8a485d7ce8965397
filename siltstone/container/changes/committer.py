"""Commits: several operations in one frame, on conditions decided at assignment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from siltstone.container.commit.appender import Appender
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.pipeline import PIECE_BYTES, UPDATE_BYTES, Pipeline
from siltstone.container.commit.repeats import REFUSALS
from siltstone.container.models.segments import (
    Append,
    AttributeIs,
    ChangeKeys,
    CommitResult,
    Condition,
    LengthIs,
    Operation,
    Put,
    Remove,
    RemoveRange,
    SetAttribute,
    VersionIs,
    changed,
    check_attribute,
)
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.bytes_like import as_bytes
from siltstone.core.errors import (
    AppendTooLargeError,
    AttributeLimitError,
    ConditionFailedError,
    TableNotFoundError,
)
from siltstone.core.records.table_record import (
    KEY_BYTES_MAX,
    Entries,
    KeyChanges,
    TableEntry,
    encode_entries,
)
from siltstone.metadata.changes import put_attributes

_Change = Put | Remove | ChangeKeys | RemoveRange
_PUT_OR_REMOVE = (Put, Remove)
_PUTS = {Put, ChangeKeys}
_OF_TABLES = (Put, Remove, ChangeKeys, RemoveRange, VersionIs)
"""Tuples: making a union of classes takes longer than asking for one."""
_PLAIN = {bytes}
_PLAIN_OR_REMOVED = {bytes, type(None)}


class Committer:
    """Takes the commits of one container."""

    def __init__(self, pipeline: Pipeline, appender: Appender, pressure: Pressure) -> None:
        self._pipeline = pipeline
        self._appender = appender
        self._pressure = pressure
        self._replica = pipeline.replica

    async def commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition]
    ) -> CommitResult:
        """Apply all operations, or none, if all conditions hold.

        Raises:
            ConditionFailedError: a condition does not hold; it names what was found.
            SegmentNotFoundError: an operation or a condition names no segment.
            SegmentSealedError: an append names a sealed segment.
            TableNotFoundError: an operation or a condition names no table.
            AttributeLimitError: a segment would have too many attributes, or too long ones.
            AppendTooLargeError: the commit does not fit in a frame.
            BackPressureError: no room was made before the deadline.
            SafeModeError: long-term storage has too little room for what the commit adds.
            LogError: as for an append.

        A refusal of new bytes is raised only where the conditions hold: a caller that repeats a
        commit that took place has to learn that they no longer hold.
        """
        try:
            return await self._commit(operations, conditions)
        except REFUSALS:
            if conditions:
                await self.check(conditions)
            raise

    async def check(self, conditions: Sequence[Condition]) -> None:
        """Raise ``ConditionFailedError`` if one does not hold."""
        segments = await self._segments((), (), conditions)
        tables = await self._table_ids((), conditions)
        failed = self._failed(conditions, segments, tables)
        if failed is not None:
            await self._pipeline.barrier()
            raise failed

    async def _commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition]
    ) -> CommitResult:
        appends, changes, attributes = _sorted(operations, conditions)
        size = sum(len(data) for _, data in appends)
        joint = size > 0 and bool(changes or attributes or len(appends) > 1)
        if not _PUTS.isdisjoint(map(type, changes)):
            self._pressure.check()
        if changes or attributes:
            await self._pipeline.admit_update()
        await self._admit(size)
        try:
            while True:
                segments = await self._segments(appends, attributes, conditions)
                tables = await self._table_ids(changes, conditions)
                if not joint or self._pipeline.joint_gate.is_open:
                    break
                await self._pipeline.joint_gate.passed()
            failed = self._failed(conditions, segments, tables)
            if failed is not None:
                await self._pipeline.barrier()
                raise failed
            entries = _entries(changes, tables)
            try:
                entries += self._attributes(attributes, segments)
            except AttributeLimitError:
                await self._pipeline.barrier()
                raise
            encoded = encode_entries(entries)
            total = self._checked_size(size, appends, encoded)
            result, future = self._assign(appends, entries, encoded, segments, total, joint=joint)
        except BaseException:
            self._pressure.release(size)
            raise
        if future is None:
            await self._pipeline.barrier()
        else:
            await future
        return result

    async def append_with(
        self,
        appends: Sequence[tuple[str, bytes]],
        entries: Callable[[Sequence[tuple[int, int]]], list[TableEntry]],
    ) -> None:
        """Append to several segments, each named once, and update the metadata, in one frame.

        Args:
            appends: names and bytes, together at most what a frame takes.
            entries: gives the update, from the id of each segment and the offset of its bytes.

        Raises what ``commit`` raises.
        """
        size = sum(len(data) for _, data in appends)
        await self._pipeline.admit_update()
        await self._admit(size)
        try:
            while True:
                segments = await self._segments(appends, (), ())
                if self._pipeline.joint_gate.is_open:
                    break
                await self._pipeline.joint_gate.passed()
            found = [segments[name] for name, _ in appends]
            update = entries([(segment.segment_id, segment.assigned) for segment in found])
            encoded = encode_entries(update)
            total = self._checked_size(size, appends, encoded)
            _, future = self._assign(appends, update, encoded, segments, total, joint=True)
        except BaseException:
            self._pressure.release(size)
            raise
        assert future is not None, "there is an update"
        await future

    async def _admit(self, size: int) -> None:
        self._pipeline.check_open()
        await self._pressure.admit(size)

    async def _segments(
        self,
        appends: Sequence[tuple[str, bytes]],
        attributes: Sequence[SetAttribute],
        conditions: Sequence[Condition],
    ) -> dict[str, OpenSegment]:
        """Every segment that is named, all of them as they are in this step of the loop."""
        if not (appends or attributes or conditions):
            return {}
        names = dict.fromkeys(name for name, _ in appends)
        parts = [part for part in conditions if not isinstance(part, VersionIs)]
        others = dict.fromkeys(part.segment for part in (*attributes, *parts))
        while True:
            found: dict[str, OpenSegment] = {}
            try:
                for name in names | others:
                    take = self._appender.writable if name in names else self._appender.existing
                    found[name] = await take(name)
                    found[name].keep()  # opening the next one might drop it from memory
                if all(
                    self._replica.find(name) is segment
                    and (segment.writable if name in names else self._appender.named(segment, name))
                    for name, segment in found.items()
                ):
                    return found
            finally:
                for segment in found.values():
                    segment.release()

    async def _table_ids(
        self, changes: Sequence[_Change], conditions: Sequence[Condition]
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        names = {
            part.table: None for part in (*changes, *conditions) if isinstance(part, _OF_TABLES)
        }
        for name in names:
            table_id = self._replica.rows.table_id(name)
            if table_id is None:
                await self._pipeline.barrier()
                raise TableNotFoundError("no such table", table=name)
            found[name] = table_id
        return found

    def _failed(
        self,
        conditions: Sequence[Condition],
        segments: dict[str, OpenSegment],
        tables: dict[str, int],
    ) -> ConditionFailedError | None:
        """The first condition that does not hold against what is assigned."""
        for condition in conditions:
            current: int | str | None
            expected: int | str | None
            if isinstance(condition, LengthIs):
                current = segments[condition.segment].assigned
                expected = condition.length
            elif isinstance(condition, AttributeIs):
                segment_id = segments[condition.segment].segment_id
                attributes = self._replica.rows.pending_attributes(segment_id)
                current = attributes.get(condition.key)
                expected = condition.value
            else:
                table_id = tables[condition.table]
                current = self._replica.tables.pending_version(table_id, condition.key)
                expected = condition.version
            if current != expected:
                return ConditionFailedError(condition=condition, current=current)
        return None

    def _attributes(
        self, changes: Sequence[SetAttribute], segments: dict[str, OpenSegment]
    ) -> list[TableEntry]:
        entries = []
        for name in dict.fromkeys(change.segment for change in changes):
            segment_id = segments[name].segment_id
            before = self._replica.rows.pending_attributes(segment_id)
            mine = [change for change in changes if change.segment == name]
            entries.append(put_attributes(segment_id, changed(name, before, mine)))
        return entries

    def _checked_size(self, size: int, appends: Sequence[tuple[str, bytes]], encoded: bytes) -> int:
        total = size + PIECE_BYTES * len(appends)
        if encoded:
            total += UPDATE_BYTES + len(encoded)
        limit = self._pipeline.body_bytes_max
        if total > limit:
            named = appends[0][0] if appends else "none"
            raise AppendTooLargeError(segment=named, length=total, limit=limit)
        return total

    def _assign(
        self,
        appends: Sequence[tuple[str, bytes]],
        entries: Entries,
        encoded: bytes,
        segments: dict[str, OpenSegment],
        total: int,
        *,
        joint: bool,
    ) -> tuple[CommitResult, asyncio.Future[int] | None]:
        pipeline = self._pipeline
        pipeline.check_open()
        size = 0
        batch = pipeline.room(total)
        version = pipeline.replica.tables.version
        if entries:
            version = pipeline.assign(entries, relief=False, encoded=encoded)
        offsets = []
        for name, data in appends:
            segment = segments[name]
            offsets.append(segment.assigned)
            if data:
                piece = pipeline.piece(segment)
                piece.parts.append(data)
                segment.assigned += len(data)
                if joint:
                    piece.joint_end = segment.assigned
                size += len(data)
        batch.size += size
        batch.admitted += size
        result = CommitResult(version=version, offsets=tuple(offsets))
        if not entries and not size:
            return result, None
        return result, pipeline.promise(version)


def _sorted(
    operations: Sequence[Operation], conditions: Sequence[Condition]
) -> tuple[list[tuple[str, bytes]], list[_Change], list[SetAttribute]]:
    """Check all parts; return appends with bytes of their own, changes of tables, attributes."""
    for condition in conditions:
        if isinstance(condition, AttributeIs):
            check_attribute(condition.key, condition.value)
    attributes: list[SetAttribute] = []
    appends: list[tuple[str, bytes]] = []
    changes: list[_Change] = []
    for operation in operations:
        if isinstance(operation, _PUT_OR_REMOVE):
            if type(operation.key) is not bytes:
                _check_bytes("key", operation.key)
            if len(operation.key) > KEY_BYTES_MAX:
                raise ValueError(f"a key has at most {KEY_BYTES_MAX} bytes")
            if isinstance(operation, Put) and type(operation.value) is not bytes:
                _check_bytes("value", operation.value)
            changes.append(operation)
        elif isinstance(operation, ChangeKeys):
            _check_changes(operation.keys, operation.values)
            changes.append(operation)
        elif isinstance(operation, Append):
            appends.append((operation.segment, as_bytes(operation.data)))
        elif isinstance(operation, RemoveRange):
            _check_range(operation)
            changes.append(operation)
        elif isinstance(operation, SetAttribute):
            check_attribute(operation.key, operation.value)
            attributes.append(operation)
        else:
            raise TypeError(f"not an operation: {operation!r}")
    return appends, changes, attributes


def _entries(changes: Sequence[_Change], tables: dict[str, int]) -> list[TableEntry | KeyChanges]:
    entries: list[TableEntry | KeyChanges] = []
    for change in changes:
        table_id = tables[change.table]
        if isinstance(change, Put):
            entries.append(TableEntry(table_id, change.key, change.value))
        elif isinstance(change, Remove):
            entries.append(TableEntry(table_id, change.key, None))
        elif isinstance(change, ChangeKeys):
            if change.keys:
                entries.append(KeyChanges(table_id, change.keys, change.values))
        else:
            end = change.end or b""
            entries.append(TableEntry(table_id, change.start, None, range_end=end))
    return entries


def _check_changes(keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
    if len(keys) != len(values):
        raise ValueError(f"there are {len(keys)} keys, and {len(values)} values")
    if (
        _PLAIN.issuperset(map(type, keys))
        and _PLAIN_OR_REMOVED.issuperset(map(type, values))
        and max(map(len, keys), default=0) <= KEY_BYTES_MAX
    ):
        return  # almost always, and found at a third of what asking each takes
    for key, value in zip(keys, values, strict=True):
        _check_bytes("key", key)
        if len(key) > KEY_BYTES_MAX:
            raise ValueError(f"a key has at most {KEY_BYTES_MAX} bytes")
        if value is not None:
            _check_bytes("value", value)


def _check_range(operation: RemoveRange) -> None:
    _check_bytes("start", operation.start)
    if operation.end is not None:
        _check_bytes("end", operation.end)
        if operation.end <= operation.start:
            raise ValueError("a range to remove ends above its start")
    if max(len(operation.start), len(operation.end or b"")) > KEY_BYTES_MAX:
        raise ValueError(f"a key has at most {KEY_BYTES_MAX} bytes")


def _check_bytes(what: str, value: object) -> None:
    if not isinstance(value, bytes):
        raise TypeError(f"{what} is bytes, not {type(value).__name__}")
