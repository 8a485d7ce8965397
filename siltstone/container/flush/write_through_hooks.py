"""Writing through: an owner whose bytes go to files of another program's layout, a legacy layout.

Hardly any store does that. The rows of one that does say so, and only then something is loaded that
knows the layout. Everything else in an owner asks the hooks here, which mostly are those of no
layout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CapabilityError
from siltstone.core.records.legacy_row import NEW_SEGMENTS
from siltstone.metadata.adoption_rows import layout_adoption
from siltstone.metadata.legacy_rows import legacy_pages, pending_legacy, remove_legacy

if TYPE_CHECKING:
    from siltstone.container.commit.owner_context import OwnerContext
    from siltstone.container.state.open_segment import OpenSegment
    from siltstone.core.log_writer import LogWriter
    from siltstone.core.records.adoption_row import AdoptionRow
    from siltstone.core.records.segment_state import SegmentState
    from siltstone.core.records.table_record import TableEntry
    from siltstone.core.records.writer_row import WriterRow
    from siltstone.metadata.tables import Tables
    from siltstone.segments.packing_segment_storage import PackingSegmentStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteThroughOwner:
    """The owner that is to write in a layout.

    Attributes:
        container: its index.
        context: what its parts work with.
        segments: where the bytes of applications go.
    """

    container: int
    context: OwnerContext
    segments: PackingSegmentStorage


class WriteThroughHooks(Protocol):
    """What a layout requires of the owner that writes in it."""

    @property
    def adoption(self) -> str | None:
        """The adoption that the files belong to; ``None`` when no layout is written."""
        ...

    @property
    def unsettled(self) -> Collection[int]:
        """Ids of segments that are sealed, and whose files may not say so yet."""
        ...

    def writes(self, segment_id: int) -> bool:
        """Whether the bytes of a segment go to the layout."""
        ...

    async def check_new(self, name: str) -> Mapping[str, str]:
        """Look whether the layout can take a new segment of this name; return its attributes.

        Nothing is awaited after the last look.

        Raises:
            SegmentNameError: no file can have the name.
            SegmentExistsError: the layout has a segment of this name.
            ChunkError: long-term storage failed.
        """
        ...

    def new_rows(self, segment_id: int, name: str) -> Sequence[TableEntry]:
        """The entries that go with a new segment."""
        ...

    def plan(self, segment: OpenSegment, end: int) -> int:
        """Up to where one ``write`` takes the tail of a segment, at most to ``end``."""
        ...

    async def write(
        self,
        segment: OpenSegment,
        end: int,
        writers: tuple[WriterRow, ...],
        extra: tuple[TableEntry, ...],
    ) -> None:
        """Bring the tail of a segment up to ``end`` into the layout, dead bytes too.

        Args:
            segment: that the layout takes; nothing else flushes it at the moment.
            end: of ``plan``.
            writers: writer rows as of ``end``.
            extra: entries that go with the transaction.

        Raises:
            SegmentNotFoundError: the segment was deleted; nothing was committed.
            LostDataError: a file has lost bytes; nothing was written.
            ChunkError: storage failed, or another program changed the layout; a repeat continues.
            LogError: whether it took place is unknown, this owner must stop.
        """
        ...

    def on_sealed(self, state: SegmentState) -> None:
        """A segment was sealed: its files have to say so when all of it is flushed."""
        ...

    async def settle(self, segment: OpenSegment) -> None:
        """Let files say that a segment is sealed, if all of it is flushed. Raises as ``write``."""
        ...

    async def on_deleted(self, segment_id: int) -> Sequence[TableEntry]:
        """Let the layout have no such segment any more; return the entries that end its rows.

        The collector deletes the files that are chunks.

        Raises:
            FencedError: there is a newer owner; the pipeline has failed with it.
            ChunkError: long-term storage failed; a repeat continues.
        """
        ...


class NoWriteThroughHooks:
    """No layout is written: each segment has chunks of the store's own."""

    adoption: str | None = None
    unsettled: Collection[int] = frozenset()

    def writes(self, segment_id: int) -> bool:
        """See ``WriteThroughHooks.writes``."""
        return False

    async def check_new(self, name: str) -> Mapping[str, str]:
        """See ``WriteThroughHooks.check_new``."""
        return {}

    def new_rows(self, segment_id: int, name: str) -> Sequence[TableEntry]:
        """See ``WriteThroughHooks.new_rows``."""
        return ()

    def plan(self, segment: OpenSegment, end: int) -> int:
        """See ``WriteThroughHooks.plan``."""
        raise AssertionError("no layout takes the segment")

    async def write(
        self,
        segment: OpenSegment,
        end: int,
        writers: tuple[WriterRow, ...],
        extra: tuple[TableEntry, ...],
    ) -> None:
        """See ``WriteThroughHooks.write``."""
        raise AssertionError("no layout takes the segment")

    def on_sealed(self, state: SegmentState) -> None:
        """See ``WriteThroughHooks.on_sealed``."""

    async def settle(self, segment: OpenSegment) -> None:
        """See ``WriteThroughHooks.settle``."""

    async def on_deleted(self, segment_id: int) -> Sequence[TableEntry]:
        """See ``WriteThroughHooks.on_deleted``."""
        return ()


NO_WRITE_THROUGH: Final = NoWriteThroughHooks()

OpenHooks = Callable[[WriteThroughOwner], WriteThroughHooks]
"""Gives the hooks of the layout that the rows of an owner name."""

BeginHooks = Callable[[WriteThroughOwner, WriteThroughHooks], Awaitable[WriteThroughHooks]]
"""Begins a layout, durably, and gives its hooks; the second argument are those that the owner has.

Repeatable, and refused where another layout is written already.
"""


class WriteThrough:
    """The layout that an owner writes in at the moment, if any.

    Attributes:
        hooks: asked at each step, since a layout begins and ends while the owner works.
    """

    def __init__(self, hooks: WriteThroughHooks = NO_WRITE_THROUGH) -> None:
        self.hooks = hooks

    async def begin(self, owner: WriteThroughOwner, begin: BeginHooks) -> None:
        """Write in a layout from now on. Repeatable; raises what ``begin`` raises."""
        owner.context.pipeline.check_alive()
        self.hooks = await begin(owner, self.hooks)

    async def end(self, owner: WriteThroughOwner) -> None:
        """Write as any other owner from now on. Repeatable."""
        pipeline = owner.context.pipeline
        pipeline.check_alive()
        self.hooks = NO_WRITE_THROUGH
        if not await forget_write_through(pipeline.replica.tables, pipeline):
            await pipeline.barrier()

    def refuse(self, verb: str, *segments: OpenSegment) -> None:
        """Raise ``CapabilityError`` if one of the segments goes to a layout."""
        for segment in segments:
            if self.hooks.writes(segment.segment_id):
                raise CapabilityError(
                    f"a store that writes a legacy layout cannot {verb}: finalise its migration "
                    f"first",
                    segment=segment.name,
                )

    def check_import(self, adoption: str) -> None:
        """Raise ``CapabilityError`` for an import that would bypass the layout."""
        if self.hooks.adoption not in (None, adoption):
            raise CapabilityError(
                "a store that writes a legacy layout takes no imports: finalise its migration first"
            )

    def lets_go(self, adoption: AdoptionRow | None) -> bool:
        """Whether files of an adoption are deleted when no segment names them."""
        if adoption is None:
            return False
        return adoption.finalised or adoption.adoption == self.hooks.adoption


def write_through_of(owner: WriteThroughOwner, open_hooks: OpenHooks) -> WriteThrough:
    """The layout that an owner writes in, as its rows say when it opens."""
    if pending_legacy(owner.context.pipeline.replica.tables, NEW_SEGMENTS) is None:
        return WriteThrough()
    return WriteThrough(open_hooks(owner))


def refuse_write_through(owner: WriteThroughOwner) -> WriteThroughHooks:
    """The ``OpenHooks`` of an owner that was given none. Raises ``CapabilityError``."""
    raise CapabilityError(
        "the rows say that a legacy layout is written, and nothing here can do that",
        container=owner.container,
    )


def written_adoption(tables: Tables) -> str | None:
    """The adoption of the layout that rows say is written; ``None`` when none is."""
    new = pending_legacy(tables, NEW_SEGMENTS)
    return None if new is None else layout_adoption(tables, new)


async def forget_write_through(tables: Tables, writer: LogWriter) -> bool:
    """Remove every row of a layout that is written; return whether there was one."""
    ids = [segment_id for page in legacy_pages(tables) for segment_id in page]
    for begin in range(0, len(ids), ROWS_PER_SLICE):
        await writer.update([remove_legacy(i) for i in ids[begin:][:ROWS_PER_SLICE]])
        await asyncio.sleep(0)
    return bool(ids)
