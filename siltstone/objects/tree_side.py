"""One side of a comparison: what the other one may ask of it, and what is written to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from siltstone.core.errors import (
    ConditionFailedError,
    ReadOnlyError,
    SegmentNotFoundError,
    SiltstoneError,
)
from siltstone.objects.changes import DeleteRequest, PutRequest
from siltstone.objects.entries import EntriesRequest
from siltstone.objects.errors import LostObjectError, UnsupportedError
from siltstone.objects.large_upload import LargeUpload, ValueSums, begin_upload
from siltstone.objects.moment import Moment, moment_of
from siltstone.objects.open_value import LargeReader
from siltstone.objects.records.head import decode_head, has_expired
from siltstone.objects.records.keys import decode_head_key, head_key
from siltstone.objects.records.space_rows import HeadOnly
from siltstone.objects.records.value_record import encode_value_sum
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.tree import HeadTree, Node, Range, TreeBuilder, TreeShape, head_hash
from siltstone.store.handles.async_table import value_pages

if TYPE_CHECKING:
    from siltstone.objects.open_space import OpenSpace

HASHES_MAX: Final = 1_000
"""Hashes of heads that a page has at least, unless it is the last one."""

SHAPE: Final = TreeShape()


class HashPage(NamedTuple):
    """Hashes of heads.

    Attributes:
        hashes: by the key of each row, in order.
        after: where the next page begins; ``None`` when this is the last one of its range.
    """

    hashes: dict[bytes, bytes]
    after: bytes | None


class CopiedObject(NamedTuple):
    """An object on its way to the other side.

    Attributes:
        row_key: of its head.
        row: its head as it is on the side that has it.
        value: its bytes; empty for an entry of heads only, and for a value that was uploaded.
        expected: SQN that the other side must have; ``None`` for absence.
    """

    row_key: bytes
    row: bytes
    value: bytes
    expected: int | None


class Side(Protocol):
    """What may be asked of a side; the other one may be far away."""

    async def refusal(self) -> SiltstoneError | None:
        """Why nothing can be written to it; ``None`` when it can."""
        ...

    async def branches(self) -> list[Node]:
        """The branches of its tree, which is made now."""
        ...

    async def leaves(self, which: Range) -> list[Node]:
        """The leaves of a range of branches."""
        ...

    async def hashes(self, which: Range) -> HashPage:
        """Hashes of heads, from the beginning of a range on."""
        ...

    async def rows(self, row_keys: Sequence[bytes]) -> list[bytes]:
        """The heads of these keys, which are all there."""
        ...

    async def lost(self) -> list[bytes]:
        """The keys of the heads in its range whose values it knows to be lost, in order."""
        ...

    async def part(self, row_key: bytes, row: bytes, offset: int) -> bytes | None:
        """Some bytes of the value of an object from an offset on; ``None`` when they are lost."""
        ...

    async def record_value_max(self) -> int:
        """Most bytes of a value that it takes as a whole; larger ones are uploaded."""
        ...

    async def begin_upload(self) -> int:
        """Begin to write a larger value; returns what the upload is called by."""
        ...

    async def push(self, upload: int, part: bytes) -> None:
        """Write the bytes that follow."""
        ...

    async def finish(self, upload: int, copied: CopiedObject) -> bool:
        """Write the object whose value was uploaded; ``False`` as for ``take``."""
        ...

    async def drop(self, upload: int) -> None:
        """Give an upload up, unless it was finished."""
        ...

    async def take(self, copied: CopiedObject) -> bool:
        """Write an object; ``False`` when it was changed since the comparison began."""
        ...

    async def remove(self, row_key: bytes, expected: int) -> bool:
        """Remove an object; ``False`` when it was changed since the comparison began."""
        ...

    async def end(self) -> None:
        """End the comparison on this side. Idempotent."""
        ...


class OwnSide:
    """A side that is here. See ``Side``.

    Args:
        space: the keyspace.
        moment: as it is compared.
        which: the range of rows.
        now_s: what has expired by then is absent, seconds since 1970; the same for both sides.
        shape: of the tree, the same for both sides.
    """

    def __init__(
        self, space: OpenSpace, moment: Moment, which: Range, now_s: float, shape: TreeShape
    ) -> None:
        self._space = space
        self._moment = moment
        self._which = which
        self._now_s = now_s
        self._shape = shape
        self._tree: HeadTree | None = None
        self._uploads: dict[int, tuple[LargeUpload, ValueSums]] = {}
        self._numbers = count()

    async def refusal(self) -> SiltstoneError | None:
        """See ``Side``."""
        parts = self._space.parts
        if parts.space.head_only is HeadOnly.NO_LOOKUP:
            return UnsupportedError(
                "a keyspace without look-up has no conditions, and a sync could overwrite what"
                " changes meanwhile: mput what differences tells",
                keyspace=parts.names.name,
            )
        if parts.store.read_only:
            return ReadOnlyError("the store was opened read-only", keyspace=parts.names.name)
        return None

    async def branches(self) -> list[Node]:
        """See ``Side``."""
        builder = TreeBuilder(self._which[0], self._now_s, self._shape)
        async for page in value_pages(self._moment.ledger, *self._which):
            builder.add(page)
            await asyncio.sleep(0)
        self._tree = builder.tree()
        return self._tree.branches

    async def leaves(self, which: Range) -> list[Node]:
        """See ``Side``."""
        assert self._tree is not None, "branches are asked for first"
        return self._tree.leaves_of(which)

    async def hashes(self, which: Range) -> HashPage:
        """See ``Side``."""
        hashes: dict[bytes, bytes] = {}
        async for page in value_pages(self._moment.ledger, *which):
            for row_key, value in page:
                if not has_expired(value, self._now_s):
                    hashes[row_key] = head_hash(row_key, value)
            if len(hashes) >= HASHES_MAX:
                return HashPage(hashes, page[-1][0] + b"\0")
            await asyncio.sleep(0)
        return HashPage(hashes, None)

    async def rows(self, row_keys: Sequence[bytes]) -> list[bytes]:
        """See ``Side``."""
        rows = []
        for row_key in row_keys:
            found = await self._moment.ledger.get(row_key)
            assert found is not None, "a snapshot does not change"
            rows.append(found.value)
        return rows

    async def lost(self) -> list[bytes]:
        """See ``Side``."""
        first, after = self._which
        found = []
        for key, sqn in self._space.parts.losses.known:
            row_key = head_key(key)
            row = await self._moment.ledger.get(row_key) if first <= row_key < after else None
            if row is None or has_expired(row.value, self._now_s):
                continue
            if decode_head(row.value, where=row_key.hex()).sqn == sqn:
                found.append(row_key)
        return sorted(found)

    async def part(self, row_key: bytes, row: bytes, offset: int) -> bytes | None:
        """See ``Side``."""
        head, key = decode_head(row, where=row_key.hex()), decode_head_key(row_key)
        parts = self._space.parts
        if parts.space.head_only is not None:
            return b""
        try:
            if head.large is None:
                found = await self._moment.read((key, head))
                return None if found is None else found.value[offset:]
            parts.large.hold(head.large.number)
            value = parts.large.value(key, head, head.large)
            reader = LargeReader(parts, key, head, value, head.large.number)
            try:
                start, data = await reader.around(offset, head.size)
            finally:
                reader.close()
            return data[offset - start :]
        except (LostObjectError, SegmentNotFoundError):
            return None

    async def record_value_max(self) -> int:
        """See ``Side``."""
        return self._space.record_value_max

    async def begin_upload(self) -> int:
        """See ``Side``."""
        upload = await begin_upload(self._space.parts, self._space.batches)
        number = next(self._numbers)
        self._uploads[number] = (upload, ValueSums(self._space.limits.piece, None))
        return number

    async def push(self, upload: int, part: bytes) -> None:
        """See ``Side``."""
        writer, sums = self._uploads[upload]
        sums.add(part)
        await writer.push(part)

    async def finish(self, upload: int, copied: CopiedObject) -> bool:
        """See ``Side``."""
        writer, sums = self._uploads[upload]
        try:
            await writer.put(_put_request(copied), sums)
        except ConditionFailedError:
            return False  # its caller drops it
        del self._uploads[upload]
        return True

    async def drop(self, upload: int) -> None:
        """See ``Side``."""
        found = self._uploads.pop(upload, None)
        if found is not None:
            await found[0].abort()

    async def take(self, copied: CopiedObject) -> bool:
        """See ``Side``."""
        if self._space.parts.space.head_only is None:
            return await _is_done(self._space.batches.put(_put_request(copied)))
        head = decode_head(copied.row, where=copied.row_key.hex())
        key = decode_head_key(copied.row_key)
        entry = EntriesRequest(
            values={key: head.metadata},
            hashes={key: head.value_hash},
            expected={key: copied.expected},
            looked_up=frozenset((key,)),
            expires_s=head.expires_s,
            modified_ms=head.modified_ms,
        )
        return await _is_done(self._space.batches.mput(entry))

    async def remove(self, row_key: bytes, expected: int) -> bool:
        """See ``Side``."""
        key = decode_head_key(row_key)
        if self._space.parts.space.head_only is None:
            request = DeleteRequest(key=key, expected=expected)
            return await _is_done(self._space.batches.delete(request))
        entry = EntriesRequest(
            values={key: None},
            hashes={},
            expected={key: expected},
            looked_up=frozenset((key,)),
        )
        return await _is_done(self._space.batches.mput(entry))

    async def end(self) -> None:
        """See ``Side``."""
        self._moment.release()


def _put_request(copied: CopiedObject) -> PutRequest:
    head = decode_head(copied.row, where=copied.row_key.hex())
    return PutRequest(
        key=decode_head_key(copied.row_key),
        value=copied.value,
        value_crc=encode_value_sum(copied.value),
        value_hash=head.value_hash,
        metadata=head.metadata,
        entries=head.entries,
        added=frozenset(),
        removed=frozenset(),
        expected=copied.expected,
        ttl_s=None,
        expires_s=head.expires_s,
        modified_ms=head.modified_ms,
    )


async def _is_done(change: asyncio.Future[Any]) -> bool:
    try:
        await change
    except ConditionFailedError:
        return False
    return True


async def own_side(space: OpenSpace, which: Range, now_s: float) -> OwnSide:
    """Hold on to a keyspace as it is now, for a comparison; end it when done.

    Raises:
        SnapshotLimitError: 16 snapshots of tables of this container are living.
        RebuildingError: its ledger is being rebuilt.
        ClosedError: it was closed.
    """
    space.check_open()
    moment = await moment_of(space.parts, FOLD_TTL_S)
    return OwnSide(space, moment, which, now_s, SHAPE)
