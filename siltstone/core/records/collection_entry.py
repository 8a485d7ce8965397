"""The entry: one change of a collection's state, with those before it, as far as room allows.

Body of a record of kind 20, version 1, little-endian::

    collection_id: bytes[16]
    seqno: u64
    base: u64
    rollup: rollup        the anchor
    links: u8             1: a rollup follows
    link: rollup          only if links is 1
    count: u32            seqno - base
    diffs: diff[count]    of base + 1 to seqno

    rollup: seqno: u64, nonce: u64, length: u64, crc: u32
    diff:   seqno: u64, token: u64, written_ms: u64, actor: text, count: u32, change[count]
    change: kind: u8, length: u32, bytes[length]

The envelope is that of ``siltstone.core.records.envelope``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from operator import ge

from siltstone.core.constants import Buffer
from siltstone.core.records.envelope import RecordKind, open_only, seal
from siltstone.core.records.fields import FieldReader, FieldWriter

VERSION = 1
COLLECTION_ID_BYTES = 16

_ID = struct.Struct("16s")
_NUMBERS = struct.Struct("<QQ")
_ROLLUP = struct.Struct("<QQQI")
_LINKS = struct.Struct("<B")
_COUNT = struct.Struct("<I")
_DIFF = struct.Struct("<QQQ")
_CHANGE = struct.Struct("<BI")

ROLLUP_BYTES = _ROLLUP.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """Where the state of one seqno is kept, and how to check what is read there.

    Attributes:
        seqno: of the state; 0 is the state before the first entry.
        nonce: a random u64; with the seqno it makes the name of the object.
        length: bytes of the object.
        crc: CRC32C of the object.
    """

    seqno: int
    nonce: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one field of a state. What kinds there are, the codec of states says.

    Attributes:
        kind: below 256.
        body: what the kind takes, undecoded.
    """

    kind: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What leads from the state of ``seqno - 1`` to that of ``seqno``.

    Attributes:
        seqno: from 1 on, dense.
        token: a random u64, by which its writer knows it again.
        written_ms: milliseconds since 1970 by the clock of its writer, but above that of the diff
            before it.
        actor: who wrote it, for people.
        changes: in the order in which they apply.
    """

    seqno: int
    token: int
    written_ms: int
    actor: str
    changes: tuple[Change, ...]
    _encoded: bytes | None = field(init=False, default=None, repr=False, compare=False)

    @property
    def encoded(self) -> bytes:
        """As it lies in entries. Each diff is repeated in many, so it is encoded once at most."""
        encoded = self._encoded
        if encoded is None:
            encoded = _encoded_diff(self)
            object.__setattr__(self, "_encoded", encoded)
        return encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The content of one name: a diff, and a copy of those before it.

    Attributes:
        collection_id: 16 bytes.
        seqno: of the newest diff, the one that this entry adds.
        base: the first diff is that of ``base + 1``; at least the seqno of ``rollup``.
        rollup: the anchor: the newest rollup that the state of ``seqno - 1`` names. The entry
            counts only if that rollup is there after the entry was made or read.
        link: the rollup that this entry adds to the state, newer than the anchor; ``None`` when it
            adds none. From the next entry on it is the anchor.
        diffs: of ``base + 1`` to ``seqno``, without a gap.
    """

    collection_id: bytes
    seqno: int
    base: int
    rollup: Rollup
    link: Rollup | None
    diffs: tuple[Diff, ...]

    @property
    def diff(self) -> Diff:
        """The diff that this entry adds."""
        return self.diffs[-1]


def put_rollup(fields: FieldWriter, rollup: Rollup) -> None:
    """Add a rollup: 28 bytes."""
    fields.put(_ROLLUP, rollup.seqno, rollup.nonce, rollup.length, rollup.crc)


def take_rollup(fields: FieldReader) -> Rollup:
    """Take a rollup."""
    seqno, nonce, length, crc = fields.take(_ROLLUP)
    return Rollup(seqno=seqno, nonce=nonce, length=length, crc=crc)


def encode_entry(entry: Entry) -> bytes:
    """Encode one entry."""
    problem = _contradiction(entry)
    assert not problem, problem
    assert len(entry.collection_id) == COLLECTION_ID_BYTES, "an id has 16 bytes"
    fields = FieldWriter()
    fields.put(_ID, entry.collection_id)
    fields.put(_NUMBERS, entry.seqno, entry.base)
    put_rollup(fields, entry.rollup)
    fields.put(_LINKS, entry.link is not None)
    if entry.link is not None:
        put_rollup(fields, entry.link)
    fields.put(_COUNT, len(entry.diffs))
    fields.put_bytes(b"".join([diff.encoded for diff in entry.diffs]))
    return seal(RecordKind.ENTRY, VERSION, fields.to_bytes())


def decode_entry(data: Buffer, *, where: str) -> Entry:
    """Decode one entry.

    Raises:
        CorruptDataError: damaged, or its fields contradict one another; ``where`` is named.
        FormatError: another kind, or a newer version.
    """
    fields = FieldReader(open_only(data, RecordKind.ENTRY, VERSION, where=where), where=where)
    collection_id = fields.take_bytes(COLLECTION_ID_BYTES)
    seqno, base = fields.take(_NUMBERS)
    rollup = take_rollup(fields)
    (links,) = fields.take(_LINKS)
    if links > 1:
        raise fields.damage("entry has an impossible flag")
    link = take_rollup(fields) if links else None
    (count,) = fields.take(_COUNT)
    entry = Entry(
        collection_id=collection_id,
        seqno=seqno,
        base=base,
        rollup=rollup,
        link=link,
        diffs=tuple(_take_diff(fields) for _ in range(count)),
    )
    fields.finish()
    problem = _contradiction(entry)
    if problem:
        raise fields.damage(problem)
    return entry


def _contradiction(entry: Entry) -> str:
    """What no entry can be; empty where nothing is wrong."""
    if not entry.rollup.seqno <= entry.base < entry.seqno:
        return "entry does not begin between its rollup and its end"
    if entry.link is not None and not entry.rollup.seqno < entry.link.seqno < entry.seqno:
        return "entry links a rollup that is not newer than its own, or not older than itself"
    if len(entry.diffs) != entry.seqno - entry.base or [diff.seqno for diff in entry.diffs] != [
        *range(entry.base + 1, entry.seqno + 1)
    ]:
        return "entry has other diffs than it says"
    times = [diff.written_ms for diff in entry.diffs]
    if any(map(ge, times, times[1:])):
        return "diffs of an entry are not in the order of their times"
    return ""


def _encoded_diff(diff: Diff) -> bytes:
    actor = FieldWriter()
    actor.put_text(diff.actor)
    parts = [
        _DIFF.pack(diff.seqno, diff.token, diff.written_ms),
        actor.to_bytes(),
        _COUNT.pack(len(diff.changes)),
    ]
    for change in diff.changes:
        parts += (_CHANGE.pack(change.kind, len(change.body)), change.body)
    return b"".join(parts)


def _take_diff(fields: FieldReader) -> Diff:
    seqno, token, written_ms = fields.take(_DIFF)
    actor = fields.take_text()
    (count,) = fields.take(_COUNT)
    return Diff(
        seqno=seqno,
        token=token,
        written_ms=written_ms,
        actor=actor,
        changes=tuple(_take_change(fields) for _ in range(count)),
    )


def _take_change(fields: FieldReader) -> Change:
    kind, length = fields.take(_CHANGE)
    return Change(kind=kind, body=fields.take_bytes(length))
