"""Every error that Siltstone raises, as one tree.

A class exists only where a caller would act differently. What a handler may conclude::

    SiltstoneError            anything of ours
    |-- ChunkError            a call to long-term storage failed; ``outcome`` says what is known
    |-- SegmentError          the request does not fit the segment as it is
    |-- TableError            the request does not fit the table as it is
    |-- CollectionError       the request does not fit the collection as it is
    |-- ConditionFailedError  a condition of a commit does not hold: read again and retry
    |-- BackPressureError     no room before the deadline: wait and retry
    |-- SafeModeError         no room on long-term storage: make some first
    |-- OutcomeUnknownError   log or storage failed meanwhile: read back what is there
    |-- LogError              tier 1: fenced (stop), lost (call a person), full, or failed
    |-- StoreError            the store as a whole: missing, in use, of a newer format, closed
    |-- CorruptDataError      bytes are not what was written: stop, call a person
    `-- SettingsError         what a person wrote is wrong

Messages are lower case, without a full stop, facts last as ``key=value``; no secrets, no data.

The error of a service that asks for fewer requests is separate from those that mean no answer.
"""

from __future__ import annotations

from copyreg import __newobj__  # type: ignore[attr-defined]
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What is known about the effect of a call that failed."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class SiltstoneError(Exception):
    """Base of all errors of Siltstone.

    ``outcome`` tells whether the call that failed may have had its effect. It is ``NOT_APPLIED``
    for every error that is raised before anything was attempted.
    """

    outcome: Outcome = Outcome.NOT_APPLIED

    def __init__(self, message: str, *, outcome: Outcome | None = None, **facts: Any) -> None:
        tail = " ".join(f"{key}={value}" for key, value in facts.items() if value not in (None, ""))
        super().__init__(f"{message} {tail}" if tail else message)
        if outcome is not None:
            self.outcome = outcome

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it says and knows."""
        return __newobj__, (type(self), *self.args), self.__dict__


class ChunkError(SiltstoneError):
    """A call to long-term storage failed.

    Attributes:
        chunk: the key that the call named; empty for a call that names none, such as a listing.
        operation: the verb, such as ``create``.
    """

    def __init__(
        self,
        message: str,
        *,
        chunk: str,
        operation: str,
        outcome: Outcome | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, outcome=outcome, chunk=chunk, operation=operation, **facts)
        self.chunk = chunk
        self.operation = operation


class ChunkNotFoundError(ChunkError):
    """No chunk has this name."""


class ChunkExistsError(ChunkError):
    """A chunk of this name exists; nothing was written."""


class ChunkOffsetError(ChunkError):
    """A write named another offset than the chunk's physical end, or a read began beyond it.

    Attributes:
        expected: the chunk's physical end in bytes.
        actual: the offset that the call named.
    """

    def __init__(self, *, chunk: str, operation: str, expected: int, actual: int) -> None:
        super().__init__(
            "wrong offset", chunk=chunk, operation=operation, expected=expected, actual=actual
        )
        self.expected = expected
        self.actual = actual


class ChunkStorageFullError(ChunkError):
    """Device or quota is full. The outcome says whether a part may have been written."""


class ChunkAccessDeniedError(ChunkError):
    """The service refused: permissions, a sealed chunk, or credentials."""


class ChunkUnavailableError(ChunkError):
    """The service did not answer, or answered with something that no other class describes."""


class StorageSuspendedError(ChunkUnavailableError):
    """The call was not sent: storage did not answer those before it. It has no effect, ever."""


class ChunkReadBackError(ChunkError):
    """Bytes that were written did not come back as they were; what the service keeps is unknown."""

    outcome = Outcome.UNKNOWN


class ChunkNameError(ChunkError, ValueError):
    """The name cannot be a key of this service, or would leave its folder."""


class CapabilityError(SiltstoneError):
    """The configured service or log cannot do what was asked."""


class SegmentError(SiltstoneError):
    """A request does not fit the segment.

    Attributes:
        segment: the segment's name.
    """

    def __init__(self, message: str, *, segment: str, **facts: Any) -> None:
        super().__init__(message, segment=segment, **facts)
        self.segment = segment


class SegmentNotFoundError(SegmentError):
    """No segment has this name, or it was deleted."""


class SegmentExistsError(SegmentError):
    """A segment of this name exists."""


class SegmentSealedError(SegmentError):
    """The segment is sealed and takes no more bytes."""


class SegmentNotSealedError(SegmentError):
    """The operation needs a sealed segment, such as the source of a concat."""


class SegmentTruncatedError(SegmentError):
    """The offset lies below the start of the readable range.

    Attributes:
        start_offset: the first readable offset in bytes.
    """

    def __init__(self, *, segment: str, offset: int, start_offset: int) -> None:
        super().__init__(
            "offset was truncated", segment=segment, offset=offset, start_offset=start_offset
        )
        self.start_offset = start_offset


class OffsetError(SegmentError):
    """An append expected another length, or an offset lies beyond the end.

    Attributes:
        expected: the segment's length in bytes.
        actual: the offset that the call named.
    """

    def __init__(self, message: str, *, segment: str, expected: int, actual: int) -> None:
        super().__init__(message, segment=segment, expected=expected, actual=actual)
        self.expected = expected
        self.actual = actual


class NotFlushedError(SegmentError):
    """Bytes that were acknowledged are in no chunk yet, where all of them were asked for.

    Attributes:
        unflushed: how many bytes.
    """

    def __init__(self, message: str, *, segment: str, unflushed: int) -> None:
        super().__init__(message, segment=segment, unflushed=unflushed)
        self.unflushed = unflushed


class SegmentNameError(SegmentError, ValueError):
    """The name is empty, too long, reserved, or holds a NUL byte."""


class AttributeLimitError(SegmentError, ValueError):
    """A segment has at most 32 attributes, with at most 4,096 bytes of keys and values."""


class AppendTooLargeError(SegmentError):
    """One commit does not fit in a frame of the tier-1 log; nothing was applied.

    Attributes:
        limit: the most bytes that fit.
    """

    def __init__(self, *, segment: str, length: int, limit: int) -> None:
        super().__init__("commit larger than a frame", segment=segment, length=length, limit=limit)
        self.limit = limit


class WriterExpiredError(SegmentError):
    """This writer was evicted or never registered; its last sequence is not known any more."""


class SequenceError(SegmentError):
    """A writer repeated a sequence that is older than its last one, or one of another length.

    Attributes:
        last_sequence: the newest sequence of this writer.
    """

    def __init__(self, message: str, *, segment: str, sequence: int, last_sequence: int) -> None:
        super().__init__(message, segment=segment, sequence=sequence, last_sequence=last_sequence)
        self.last_sequence = last_sequence


class TableError(SiltstoneError):
    """A request does not fit the table.

    Attributes:
        table: the table's name.
    """

    def __init__(self, message: str, *, table: str, **facts: Any) -> None:
        super().__init__(message, table=table, **facts)
        self.table = table


class TableNotFoundError(TableError):
    """No table has this name."""


class TableExistsError(TableError):
    """A table of this name exists."""


class TableTruncatedError(TableError):
    """The table log does not reach back to the version that is to be followed.

    Attributes:
        version: the table version that was asked for.
        first: the lowest table version that can be followed.
    """

    def __init__(self, *, table: str, version: int, first: int) -> None:
        super().__init__(
            "table log was truncated beyond this version", table=table, version=version, first=first
        )
        self.version = version
        self.first = first


class SnapshotExpiredError(TableError):
    """The snapshot's time is over, or its container was closed or opened again: take another."""


class SnapshotLimitError(TableError):
    """Too many snapshots of the container's tables are living: release one, or wait."""


class CollectionError(SiltstoneError):
    """A request does not fit the collection.

    Attributes:
        collection: the collection's name, or its id in hex where the name is not known; empty
            where rows are looked at that belong to none yet.
    """

    def __init__(self, message: str, *, collection: str = "", **facts: Any) -> None:
        super().__init__(message, collection=collection, **facts)
        self.collection = collection


class CollectionNotFoundError(CollectionError):
    """No collection has this name."""


class CollectionExistsError(CollectionError):
    """A collection of this name exists."""


class CollectionDroppedError(CollectionError):
    """The collection was dropped. It never comes back; its name may stand for another one."""


class CollectionMovedError(CollectionError):
    """The store was switched elsewhere: open its collections again, with its new settings."""


class UpperMismatchError(CollectionError):
    """The upper is not the one that an append expected; nothing was appended.

    Attributes:
        expected: the upper that the call named.
        current: the upper of the collection.
    """

    def __init__(self, *, collection: str, expected: int, current: int) -> None:
        super().__init__(
            "another upper than expected", collection=collection, expected=expected, current=current
        )
        self.expected = expected
        self.current = current


class SinceError(CollectionError):
    """A time is below the since: its history is gone.

    Attributes:
        as_of: the time that the call named.
        since: the lowest time that can be named.
    """

    def __init__(self, message: str, *, collection: str, as_of: int, since: int) -> None:
        super().__init__(message, collection=collection, as_of=as_of, since=since)
        self.as_of = as_of
        self.since = since


class SinceHeldError(CollectionError):
    """The since cannot move so far: a reader or a bookmark still needs the times below.

    Attributes:
        to: the since that the call named.
        limit: how far it could move.
        holder: what keeps it there.
    """

    def __init__(self, *, collection: str, to: int, limit: int, holder: str) -> None:
        super().__init__("since is held", collection=collection, to=to, limit=limit, holder=holder)
        self.to = to
        self.limit = limit
        self.holder = holder


class UpdateTimeError(CollectionError):
    """Times of updates do not fit the range of an append, or the range is none."""


class LeaseExpiredError(CollectionError):
    """The lease of this reader ended: what it has not read yet may be gone. Begin a new one."""


class BookmarkFencedError(CollectionError):
    """The bookmark has another token: another process moves it now.

    Attributes:
        actual: its token, 16 bytes; ``None`` when there is no such bookmark.
    """

    def __init__(self, *, collection: str, bookmark: str, actual: bytes | None) -> None:
        token = "none" if actual is None else actual.hex()
        super().__init__(
            "bookmark has another token", collection=collection, bookmark=bookmark, actual=token
        )
        self.actual = actual


class CollectionSchemaError(CollectionError, ValueError):
    """Rows, or a new schema, do not fit the schema of the collection, or a schema cannot be."""


class CollectionSourceError(CollectionError, ValueError):
    """A table elsewhere cannot be imported: it is not there, is none, is damaged, or changes."""


class CollectionSequenceError(CollectionError):
    """A writer used a sequence below its last one.

    Attributes:
        last_sequence: the sequence of its last append.
    """

    def __init__(self, *, collection: str, writer: str, sequence: int, last_sequence: int) -> None:
        super().__init__(
            "the sequence is below the last one of the writer: this append is an older one",
            collection=collection,
            writer=writer,
            sequence=sequence,
            last_sequence=last_sequence,
        )
        self.last_sequence = last_sequence


class BatchExpiredError(CollectionError):
    """The batch was appended before, or its writer was forgotten meanwhile: build it again."""


class NegativeCountError(CollectionError):
    """More copies of a row were taken away than there were."""


class CollectionLimitError(CollectionError):
    """The collection has as many readers, writers, bookmarks or schemas as it may have.

    Attributes:
        limit: how many.
    """

    def __init__(self, message: str, *, collection: str, limit: int) -> None:
        super().__init__(message, collection=collection, limit=limit)
        self.limit = limit


class InlineLimitError(CollectionError):
    """No more rows fit into the state itself: upload them, and append the parts."""


class ConditionFailedError(SiltstoneError):
    """A condition of a commit does not hold; nothing of the commit was applied.

    Attributes:
        condition: the condition that failed.
        current: what was found instead: a version, an offset, or ``None`` for absence.
    """

    def __init__(
        self, message: str = "condition failed", *, condition: object, current: object
    ) -> None:
        super().__init__(message, condition=condition, current=current)
        self.condition = condition
        self.current = current


class BackPressureError(SiltstoneError):
    """Unflushed bytes, or the batches of a collection, are at their bound; nothing was applied."""


class SafeModeError(SiltstoneError):
    """Long-term storage is short of room; nothing was applied. What makes room is still allowed."""


class OutcomeUnknownError(SiltstoneError):
    """The log, or storage, failed while the request was in flight; it may or may not be durable."""

    outcome = Outcome.UNKNOWN


class LogError(SiltstoneError):
    """The tier-1 log failed; the handle is poisoned unless a subclass says otherwise."""

    outcome = Outcome.UNKNOWN


class FencedError(LogError):
    """A newer epoch owns the log or the store. This owner must stop."""


class LogLostError(LogError):
    """The log is empty, of another lineage, or older than what long-term storage has seen."""

    outcome = Outcome.NOT_APPLIED


class StorageFullError(LogError):
    """The log has no room for this frame; nothing was written and the handle stays usable."""

    outcome = Outcome.NOT_APPLIED


class LogTruncatedError(LogError):
    """The index lies below the first frame that the log keeps.

    Attributes:
        first: the first index that can be read.
    """

    outcome = Outcome.NOT_APPLIED

    def __init__(self, *, index: int, first: int) -> None:
        super().__init__("log index was truncated", index=index, first=first)
        self.first = first


class StoreError(SiltstoneError):
    """The store as a whole cannot serve the request."""


class StoreNotFoundError(StoreError):
    """There is no store here."""


class StoreExistsError(StoreError):
    """There is a store, or something else, here already."""


class StoreInUseError(StoreError):
    """A live owner holds the container; take it over explicitly, or open read-only.

    Attributes:
        owner: the holder, as it described itself.
    """

    def __init__(self, message: str, *, owner: str, **facts: Any) -> None:
        super().__init__(message, owner=owner, **facts)
        self.owner = owner


class ReadOnlyError(StoreError):
    """The store was opened read-only."""


class FormatError(StoreError):
    """A record or the whole store was made by a newer version than this one can read.

    Attributes:
        record: what kind of record it is; empty where that is what is unknown.
        found, known: its version, and the newest that this one reads; ``None`` if not known.
    """

    record = ""
    found: int | None = None
    known: int | None = None

    @classmethod
    def of_version(cls, record: str, found: int, known: int, **facts: Any) -> FormatError:
        """Return the error for a ``record`` of version ``found`` where ``known`` is the newest."""
        error = cls(f"{record} of an unknown version", found=found, known=known, **facts)
        error.record, error.found, error.known = record, found, known
        return error


class ClosedError(StoreError):
    """The object was closed."""


class CorruptDataError(SiltstoneError):
    """Bytes are not what was written. Nothing unverified was returned.

    Attributes:
        where: file, chunk or record that is damaged.
    """

    def __init__(self, message: str, *, where: str, **facts: Any) -> None:
        super().__init__(message, where=where, **facts)
        self.where = where


class LostDataError(CorruptDataError):
    """A chunk that the metadata names does not exist any more."""


class SettingsError(SiltstoneError, ValueError):
    """Settings are wrong: the message names file, key and reason."""


class ChunkThrottledError(ChunkUnavailableError):
    """The service answered that it gets too many requests: send fewer, and this one again later.

    Attributes:
        retry_after_s: seconds that the service asks to wait; ``None`` where it does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        chunk: str,
        operation: str,
        outcome: Outcome = Outcome.NOT_APPLIED,
        retry_after_s: float | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(
            message,
            chunk=chunk,
            operation=operation,
            outcome=outcome,
            retry_after_s=retry_after_s,
            **facts,
        )
        self.retry_after_s = retry_after_s
