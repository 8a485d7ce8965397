"""Comparing a keyspace with another one, and making both equal, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from siltstone.objects.changes import STANDARD, Name
from siltstone.objects.comparison import Comparison, CountedSide, Share, no_share
from siltstone.objects.errors import UnsupportedError
from siltstone.objects.folds import head_range
from siltstone.objects.object_views import ObjectHead
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import HEAD, after_prefix, bounds, decode_head_key, heads_prefix
from siltstone.objects.sync import Preference, Sync, SyncReport, check_preference
from siltstone.objects.tree import Range
from siltstone.objects.tree_side import Side, own_side

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts

_ALL_HEADS: Range = (HEAD, after_prefix(HEAD))


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not the same in two keyspaces.

    Attributes:
        ours: its head in the keyspace whose verb it was; ``None`` when it is absent there.
        theirs: its head in the other one. Not both are absent.
    """

    ours: ObjectHead | None
    theirs: ObjectHead | None

    @property
    def tag(self) -> str:
        """The tag of the object."""
        return self._any.tag

    @property
    def bucket(self) -> str:
        """Its bucket."""
        return self._any.bucket

    @property
    def key(self) -> str:
        """Its name in the bucket."""
        return self._any.key

    @property
    def subkey(self) -> str:
        """Its name below the key, in a keyspace of heads only; else empty."""
        return self._any.subkey

    @property
    def _any(self) -> ObjectHead:
        found = self.ours or self.theirs
        assert found is not None, "one of both is there"
        return found


class Sides(NamedTuple):
    """Both sides of a comparison that has begun.

    Attributes:
        left: here.
        right: the other keyspace.
        which: the range of rows.
    """

    left: Side
    right: CountedSide
    which: Range


Begin = Callable[[], AbstractAsyncContextManager[Sides]]


class AsyncDifferences:
    """The objects that are not the same in two keyspaces. Each iteration compares again.

    Args:
        begin: begins a comparison.
        progress: told how much is done, from 0 to 1.

    Attributes:
        exchanged_bytes: what the newest iteration took from the other keyspace, and told it.
    """

    def __init__(self, begin: Begin, progress: Share = no_share) -> None:
        self._begin = begin
        self._progress = progress
        self.exchanged_bytes = 0

    async def __aiter__(self) -> AsyncIterator[Difference]:
        self.exchanged_bytes = 0
        async with self._begin() as sides:
            async for page in Comparison(*sides, self._progress).pages():
                self.exchanged_bytes = sides.right.exchanged_bytes
                for found in page:
                    key, where = decode_head_key(found.row_key), found.row_key.hex()
                    heads = [
                        None if row is None else ObjectHead(key, decode_head(row, where=where))
                        for row in (found.left, found.right)
                    ]
                    yield Difference(*heads)
            self.exchanged_bytes = sides.right.exchanged_bytes


class AsyncExchange:
    """The verbs of a keyspace that are about another keyspace, too."""

    __slots__ = ()

    _space: OpenSpace

    def differences(
        self,
        other: AsyncExchange,
        bucket: Name | None = None,
        *,
        tag: str | None = None,
        start: Name | None = None,
        end: Name | None = None,
        progress: Share = no_share,
    ) -> AsyncDifferences:
        """Return an asynchronous iterable of the objects that differ, in the order of their keys.

        Both keyspaces are compared as they are at its first step, by sums over their heads. What is
        compared of an object is its value hash, metadata, index entries, and when it expires, not
        its SQN or its time of change. What has expired is absent, by the clock of this store.

        Args:
            other: of the same store or another one, on the same loop.
            bucket: of the objects; ``None`` means all buckets.
            tag: of the objects. ``None`` means all tags, which both must have; with a bucket it
                means ``o``, or the one tag of a keyspace of heads only.
            start: the first key of the bucket.
            end: the key after the last.
            progress: told how much is done, from 0 to 1, on the store's loop. It begins after both
                went through their heads.

        Raises:
            ObjectLimitError: a name is too long.
            UnsupportedError: a keyspace lacks the tag, or one has heads only and the other values.

        Raises, at its steps:
            SnapshotLimitError: 16 snapshots of tables of a container are living.
            ClosedError: a store was closed.
        """
        which = range_of(self._space.parts, other._space.parts, bucket, tag, start, end)
        return AsyncDifferences(lambda: self.sides(which, other._space), progress)

    async def sync(
        self,
        other: AsyncExchange,
        bucket: Name | None = None,
        *,
        prefer: Preference,
        deletes: bool = False,
        dry_run: bool = False,
        tag: str | None = None,
        start: Name | None = None,
        end: Name | None = None,
        progress: Share = no_share,
    ) -> SyncReport:
        """Make this keyspace, *left*, and another one, *right*, equal, and tell what was done.

        What differs is found as by ``differences``. Value, metadata, index, value hash, expiry and
        time of change travel. An object is written only if it still is what was compared; one that
        was changed meanwhile, or is too long for its target, is left as it is, and counted. A
        repeat goes on. A value that one side knows to be lost, since a read or a check found it in
        this process, is copied from the other one where both have the same version.

        Args:
            other: as for ``differences``, like ``bucket``, ``tag``, ``start`` and ``end``.
            bucket: of the objects; ``None`` means all buckets.
            prefer: of an object that both have, the version that both get: of the ``left``, of the
                ``right``, or the ``newest`` by the time of change, which is right if the clocks of
                all writers are. The preferred side may be read-only; what it lacks is left out.
            deletes: what the preferred side lacks is removed from the other one. Otherwise an
                object that one side lacks is copied to it, since nothing tells a deleted object
                from one that never was.
            progress: as for ``differences``.
            dry_run: only count what would be done; both sides may be read-only.
            tag: of the objects.
            start: the first key of the bucket.
            end: the key after the last.

        Raises what ``differences`` and ``put`` raise, and:
            ReadOnlyError: a side that must be written to was opened read-only.
            UnsupportedError: such a side is a keyspace without look-up.
            ValueError: no such preference, or ``newest`` with ``deletes``.
        """
        preference = check_preference(prefer, deletes=deletes)
        which = range_of(self._space.parts, other._space.parts, bucket, tag, start, end)
        async with self.sides(which, other._space) as sides:
            sync = Sync(*sides, preference, deletes=deletes, dry_run=dry_run, progress=progress)
            return await sync.run()

    def sides(self, which: Range, other: OpenSpace) -> AbstractAsyncContextManager[Sides]:
        """Begin a comparison with a keyspace on the same loop."""
        return sides_of(self._space, partial(own_side, other), which)


@asynccontextmanager
async def sides_of(
    left_space: OpenSpace, begin_right: Callable[[Range, float], Awaitable[Side]], which: Range
) -> AsyncIterator[Sides]:
    """Begin a comparison, and end it with the body.

    Args:
        left_space: the keyspace here.
        begin_right: ``own_side`` of the other one.
        which: the range of rows.
    """
    now_s = left_space.parts.store.environment.time()
    left = await own_side(left_space, which, now_s)
    try:
        right = await begin_right(which, now_s)
        try:
            yield Sides(left, CountedSide(right), which)
        finally:
            await right.end()
    finally:
        await left.end()


def range_of(
    left: SpaceParts,
    right: SpaceParts,
    bucket: Name | None,
    tag: str | None,
    start: Name | None,
    end: Name | None,
) -> Range:
    """Return the rows that are compared.

    Raises:
        ObjectLimitError: a name is too long.
        UnsupportedError: the keyspaces cannot be compared.
        ValueError: keys without a bucket.
    """
    if (left.space.head_only is None) != (right.space.head_only is None):
        raise UnsupportedError(
            "a keyspace of heads only is not compared with one that has values",
            keyspace=left.names.name,
            other=right.names.name,
        )
    if tag is None and bucket is None and start is None and end is None:
        if set(left.space.tags) != set(right.space.tags):
            raise UnsupportedError(
                "the keyspaces have different tags: name one that both have",
                keyspace=left.names.name,
                other=right.names.name,
            )
        return _ALL_HEADS
    found = {parts.check_tag(STANDARD if tag is None else tag) for parts in (left, right)}
    which = head_range(found.pop(), bucket, start, end, None, None)
    return bounds(heads_prefix(which.tag, which.bucket), which.start, which.end)
