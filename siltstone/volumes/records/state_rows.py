"""Values of the rows that a volume has once, and of its local commits: see docs/formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from pyroaring import BitMap

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.wire import Reader, head, uvarint
from siltstone.volumes.records.keys import ID_BYTES
from siltstone.volumes.records.page_set import decode_pages, encode_pages

_VERSION = 1
_CONFIG, _STATUS, _SNAPSHOT, _WATERMARKS, _PUSH, _COMMIT = range(1, 7)


class SyncDirection(StrEnum):
    """Which way ``sync`` moves the commits of a volume."""

    DISABLED = "disabled"
    PUSH = "push"
    PULL = "pull"
    BOTH = "both"

    @property
    def pushes(self) -> bool:
        """Whether local commits go to the place."""
        return self in {SyncDirection.PUSH, SyncDirection.BOTH}

    @property
    def pulls(self) -> bool:
        """Whether commits of the place come here."""
        return self in {SyncDirection.PULL, SyncDirection.BOTH}


_DIRECTIONS = tuple(SyncDirection)


class VolumeStatus(IntEnum):
    """Whether a volume can be synced. Numbers are persisted and never change."""

    OK = 0
    REJECTED_COMMIT = 1
    CONFLICT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig:
    """What a volume follows.

    Attributes:
        log: id of its log in the place.
        sync: the direction.
        place: id of the place, once it was seen.
    """

    log: bytes
    sync: SyncDirection
    place: bytes | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """The last pair of LSNs at which the place and the client had the same pages.

    Attributes:
        remote: of the place.
        local: of the client.
    """

    remote: int
    local: int


UNMAPPED = Mapping(0, 0)
"""The place has no commit that this client knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A volume after one of its commits.

    Attributes:
        local: LSN of the commit; 0 before the first.
        mapping: what of it the place has.
        pages: how many pages it has; those never written are zeros.
        generation: goes up with each commit, pull and reset.
    """

    local: int = 0
    mapping: Mapping = UNMAPPED
    pages: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """How far pushes and collection came.

    Attributes:
        pending_sync: the last local LSN of the push that began last; 0 before the first.
        checkpoint: versions of pages that commits up to this one hid are gone.
    """

    pending_sync: int = 0
    checkpoint: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPush:
    """A commit record that was, or will be, created; its outcome is not known.

    Attributes:
        end: the last local LSN that it has.
        target: its remote LSN.
        digest: of the record.
        data: the whole object, record and trail.
    """

    end: int
    target: int
    digest: bytes
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A local commit that the place has not.

    Attributes:
        changed: indexes of the pages that it wrote or zeroed.
        pages: how many pages the volume has after it.
        kept: how many of those before it stayed throughout; pages above began again as zeros.
    """

    changed: BitMap
    pages: int
    kept: int


def encode_config(config: VolumeConfig) -> bytes:
    """Encode the row ``config``."""
    place = config.place or b""
    direction = bytes((_DIRECTIONS.index(config.sync), len(place)))
    return head(_CONFIG, _VERSION) + config.log + direction + place


def decode_config(value: bytes, *, where: str) -> VolumeConfig:
    """Decode the row ``config``. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_CONFIG, version=_VERSION, where=where)
    log = reader.raw(ID_BYTES)
    direction = reader.u8()
    if direction >= len(_DIRECTIONS):
        raise reader.damaged("unknown direction")
    place = reader.raw(reader.u8())
    reader.end()
    return VolumeConfig(log=log, sync=_DIRECTIONS[direction], place=place or None)


def encode_status(status: VolumeStatus) -> bytes:
    """Encode the row ``status``."""
    return head(_STATUS, _VERSION) + bytes((status,))


def decode_status(value: bytes, *, where: str) -> VolumeStatus:
    """Decode the row ``status``. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_STATUS, version=_VERSION, where=where)
    number = reader.u8()
    reader.end()
    if number not in VolumeStatus.__members__.values():
        raise CorruptDataError("unknown status", where=where, status=number)
    return VolumeStatus(number)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode the row ``snapshot``."""
    mapping = snapshot.mapping
    numbers = (snapshot.local, mapping.remote, mapping.local, snapshot.pages, snapshot.generation)
    return head(_SNAPSHOT, _VERSION) + b"".join(map(uvarint, numbers))


def decode_snapshot(value: bytes, *, where: str) -> Snapshot:
    """Decode the row ``snapshot``. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_SNAPSHOT, version=_VERSION, where=where)
    snapshot = Snapshot(
        local=reader.uvarint(),
        mapping=Mapping(reader.uvarint(), reader.uvarint()),
        pages=reader.uvarint(),
        generation=reader.uvarint(),
    )
    reader.end()
    return snapshot


def encode_watermarks(watermarks: Watermarks) -> bytes:
    """Encode the row ``watermarks``."""
    numbers = (watermarks.pending_sync, watermarks.checkpoint)
    return head(_WATERMARKS, _VERSION) + b"".join(map(uvarint, numbers))


def decode_watermarks(value: bytes, *, where: str) -> Watermarks:
    """Decode the row ``watermarks``. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_WATERMARKS, version=_VERSION, where=where)
    watermarks = Watermarks(pending_sync=reader.uvarint(), checkpoint=reader.uvarint())
    reader.end()
    return watermarks


def encode_push(push: PendingPush) -> bytes:
    """Encode the row ``push``."""
    numbers = b"".join(map(uvarint, (push.end, push.target, len(push.digest), len(push.data))))
    return head(_PUSH, _VERSION) + numbers + push.digest + push.data


def decode_push(value: bytes, *, where: str) -> PendingPush:
    """Decode the row ``push``. Raises ``CorruptDataError`` and ``FormatError``."""
    reader = Reader(value, kind=_PUSH, version=_VERSION, where=where)
    end, target, digest_bytes, data_bytes = (reader.uvarint() for _ in range(4))
    push = PendingPush(
        end=end, target=target, digest=reader.raw(digest_bytes), data=reader.raw(data_bytes)
    )
    reader.end()
    return push


def encode_commit(row: CommitRow) -> bytes:
    """Encode a row of the partition ``commits``."""
    changed = encode_pages(row.changed)
    numbers = b"".join(map(uvarint, (row.pages, row.kept, len(changed))))
    return head(_COMMIT, _VERSION) + numbers + changed


def decode_commit(value: bytes, *, where: str) -> CommitRow:
    """Decode a row of the partition ``commits``. Raises ``CorruptDataError``, ``FormatError``."""
    reader = Reader(value, kind=_COMMIT, version=_VERSION, where=where)
    pages, kept = reader.uvarint(), reader.uvarint()
    changed = decode_pages(reader.raw(reader.uvarint()), where=where)
    reader.end()
    return CommitRow(changed=changed, pages=pages, kept=kept)
