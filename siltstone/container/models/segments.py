"""What callers of a container hand in and get back: frozen values, no behaviour.

What attributes a segment may have, and what a change makes of them. Pure.

What retention is told and tells: frozen values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from siltstone.core.errors import AttributeLimitError, SiltstoneError
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.table_value import TableValue as TableValue

if TYPE_CHECKING:
    from siltstone.core.bytes_like import BytesLike


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """How much of some segments is kept. With neither limit, everything is.

    Attributes:
        name: of a segment, or the beginning of names.
        prefix: whether it is about every segment whose name starts with ``name``.
        bytes_max: the oldest bytes of a segment go while it holds more than this many.
        age_max_s: bytes that were appended longer ago go, seconds.
    """

    name: str
    prefix: bool
    bytes_max: int | None
    age_max_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCut:
    """One segment that a rule shortens.

    Attributes:
        segment: its name.
        start_offset: first readable byte before.
        cut_offset: first readable byte afterwards, where an append ends.
        length: its end.
        rule: which rule says so.
    """

    segment: str
    start_offset: int
    cut_offset: int
    length: int
    rule: RetentionRule


def rule_of_row(row: RetentionRow) -> RetentionRule:
    """The rule as callers see it."""
    return RetentionRule(
        name=row.name,
        prefix=row.scope is RetentionScope.PREFIX,
        bytes_max=row.bytes_max,
        age_max_s=None if row.age_max_ms is None else row.age_max_ms / 1000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInfo:
    """One segment as it is acknowledged.

    Attributes:
        name: its name.
        segment_id: its id, never used again.
        start_offset: first readable offset in bytes.
        length: bytes ever appended, so also the end offset.
        flushed_length: how much of that lies in chunks.
        sealed: whether it takes no more bytes.
        created_ms: milliseconds since 1970.
        retention: the rule by which it is shortened; ``None`` when there is none.
        attributes: what users noted about it, by key.
    """

    name: str
    segment_id: int
    start_offset: int
    length: int
    flushed_length: int
    sealed: bool
    created_ms: int
    retention: RetentionRule | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkInfo:
    """Where a run of a segment's bytes lies.

    Attributes:
        start: offset in the segment, in bytes.
        length: bytes of the run.
        chunk: key on long-term storage.
        chunk_offset: offset in the chunk, in bytes.
        chunk_length: committed bytes of the chunk.
        epoch: epoch that wrote the chunk.
        crc32c: CRC32C of the chunk's committed bytes; ``None`` for an object in place that has no
            sums.
    """

    start: int
    length: int
    chunk: str
    chunk_offset: int
    chunk_length: int
    epoch: int
    crc32c: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStats:
    """A container at a glance.

    Attributes:
        container: its index.
        epoch: of the owner, or the newest one that a reader saw.
        lineage: its uuid.
        unflushed_bytes: acknowledged user bytes that are in no chunk yet.
        exposed_bytes: user bytes that would be lost at most if tier 1 were gone: those in no chunk,
            and those whose chunks no table-log flush on long-term storage covers yet.
        exposed_age_s: age in seconds of the oldest of what would be lost, tables included.
        unflushed_table_bytes: table-log bytes that are only in tier 1.
        safe_index: the log below is not needed any more.
        log_first: first index that the log keeps.
        log_end: one above the newest index.
        table_version: applied table version.
        checkpoint_version: table version of the newest durable checkpoint.
        dropped_tail: bytes of a torn last frame that the last boot dropped.
        warnings: what the boot had to pass over.
        last_error: why background work last failed, if it did since it last worked.
        log_held_by: what needs the oldest frame of the log: ``tables``, or ``segment`` and its
            name; empty when all is on long-term storage.
        read_backs_failed: writes that did not come back as they were written and were repeated in
            another chunk, since this owner opened.
        error: why the container is closed, such as while it is opened again after a failure: every
            number but ``epoch`` is 0 then, and says nothing; ``None`` while it is open.
    """

    container: int
    epoch: int
    lineage: str
    unflushed_bytes: int
    exposed_bytes: int
    exposed_age_s: float
    unflushed_table_bytes: int
    safe_index: int
    log_first: int
    log_end: int
    table_version: int
    checkpoint_version: int
    dropped_tail: int
    warnings: tuple[str, ...] = ()
    last_error: str | None = None
    read_backs_failed: int = 0
    log_held_by: str = ""
    error: str | None = None


def closed_stats(container: int, epoch: int, error: SiltstoneError) -> ContainerStats:
    """Return what is known of a container that is closed."""
    return ContainerStats(
        container=container,
        epoch=epoch,
        lineage="",
        unflushed_bytes=0,
        exposed_bytes=0,
        exposed_age_s=0.0,
        unflushed_table_bytes=0,
        safe_index=0,
        log_first=0,
        log_end=0,
        table_version=0,
        checkpoint_version=0,
        dropped_tail=0,
        error=str(error),
    )


def warned_of_tail(warnings: tuple[str, ...], dropped_tail: int) -> tuple[str, ...]:
    """``warnings``, and one of a frame at the end of the log that is not whole, if it has any."""
    if not dropped_tail:
        return warnings
    warning = (
        f"tier-1 log ended in {dropped_tail} bytes of a torn frame: an append that was in flight"
        " and not acknowledged, unless these bytes were changed later"
    )
    return (*warnings, warning)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterInfo:
    """An exactly-once writer of a segment.

    Attributes:
        name: chosen by the application.
        number: never used again.
        sequence: its last acknowledged sequence, -1 before the first.
        offset: where its last acknowledged append begins, in bytes; 0 before the first.
        length: bytes of that append.
    """

    name: str
    number: int
    sequence: int
    offset: int
    length: int


def writer_info(row: WriterRow) -> WriterInfo:
    """What users see of a writer's row."""
    return WriterInfo(
        name=row.name,
        number=row.number,
        sequence=row.sequence,
        offset=row.offset,
        length=row.length,
    )


@dataclass(frozen=True, slots=True)
class Append:
    """Operation of a commit: append ``data`` to ``segment``."""

    segment: str
    data: BytesLike


@dataclass(frozen=True, slots=True)
class Put:
    """Operation of a commit: set ``key`` of ``table``."""

    table: str
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Operation of a commit: remove ``key`` of ``table``; nothing happens when it is absent."""

    table: str
    key: bytes


@dataclass(frozen=True, slots=True)
class ChangeKeys:
    """Operation of a commit: set keys of ``table``, or remove those whose value is ``None``.

    It does what a ``Put`` or ``Remove`` for each does, for those who change thousands at once; in
    columns, which Python need not look through when it looks for garbage.
    """

    table: str
    keys: Sequence[bytes]
    values: Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class RemoveRange:
    """Operation of a commit: remove every key of ``table`` with ``start <= key < end``.

    ``end`` is ``None`` for all from ``start`` on. Whatever the count of keys, it is logged as one
    small entry.
    """

    table: str
    start: bytes = b""
    end: bytes | None = None


@dataclass(frozen=True, slots=True)
class SetAttribute:
    """Operation of a commit: set an attribute of ``segment``; ``None`` removes it."""

    segment: str
    key: str
    value: str | None


Operation = Append | Put | Remove | ChangeKeys | RemoveRange | SetAttribute


@dataclass(frozen=True, slots=True)
class VersionIs:
    """Condition of a commit: ``key`` of ``table`` has this version; ``None`` means it is absent."""

    table: str
    key: bytes
    version: int | None


@dataclass(frozen=True, slots=True)
class LengthIs:
    """Condition of a commit: ``segment`` has exactly this length before the commit."""

    segment: str
    length: int


@dataclass(frozen=True, slots=True)
class AttributeIs:
    """Condition of a commit: an attribute has this value; ``None`` means that it is absent."""

    segment: str
    key: str
    value: str | None


Condition = VersionIs | LengthIs | AttributeIs


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit did.

    Attributes:
        version: table version of its updates, or the current one when it had none.
        offsets: where each ``Append`` begins, in the order of the operations.
    """

    version: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that ``check`` found.

    Attributes:
        severity: ``damage`` (data is lost or wrong), ``warning`` (worth knowing) or ``garbage``.
        where: segment, chunk, record or file.
        message: what is the matter.
    """

    severity: str
    where: str
    message: str


ATTRIBUTES_MAX = 32
ATTRIBUTE_BYTES_MAX = 4_096
"""Most bytes of UTF-8 that keys and values of one segment have together."""


def changed(
    segment: str, before: Mapping[str, str], changes: Iterable[SetAttribute]
) -> dict[str, str]:
    """Return the attributes of ``segment`` after ``changes``, made in order.

    Raises:
        AttributeLimitError: there would be too many, or they would be too long.
    """
    after = dict(before)
    for change in changes:
        if change.value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = change.value
    check_limits(segment, after)
    return after


def check_limits(segment: str, attributes: Mapping[str, str]) -> None:
    """Refuse more than a segment may have. Raises ``AttributeLimitError``."""
    size = sum(len(part.encode("utf-8")) for item in attributes.items() for part in item)
    if len(attributes) > ATTRIBUTES_MAX or size > ATTRIBUTE_BYTES_MAX:
        raise AttributeLimitError(
            "too many or too long attributes",
            segment=segment,
            count=len(attributes),
            count_max=ATTRIBUTES_MAX,
            bytes=size,
            bytes_max=ATTRIBUTE_BYTES_MAX,
        )


def check_attribute(key: object, value: object) -> None:
    """Refuse what can be no attribute; a ``value`` of ``None`` is a removal or absence.

    Raises:
        TypeError: no strings.
        ValueError: the key is empty or holds ``=``, or one of both is not valid unicode.
    """
    if not isinstance(key, str) or not (value is None or isinstance(value, str)):
        raise TypeError("keys and values of attributes are strings")
    if not key or "=" in key:
        raise ValueError(f"an attribute's key is not empty and holds no '=': {key!r}")
    for part in (key, value or ""):
        part.encode("utf-8")
