"""The verbs of a store by which a person looks after it: retention, checkpoints, rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from siltstone.container.models.segments import RetentionCut, RetentionRule
from siltstone.core.errors import SiltstoneError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.metadata.row_views import MetadataRow
from siltstone.store.retention_arguments import retention_row

if TYPE_CHECKING:
    from siltstone.container.retention.retention import Retention
    from siltstone.store.handles.container_slot import ContainerSlot

ROWS_PAGE = 1_000

T = TypeVar("T")


class CareVerbs:
    """A part of ``AsyncStore``."""

    _slots: tuple[ContainerSlot, ...]
    _here: tuple[ContainerSlot, ...]

    def _slot_of(self, name: str) -> ContainerSlot:
        raise NotImplementedError

    async def set_retention(
        self,
        name: str,
        *,
        prefix: bool = False,
        bytes_max: int | None = None,
        age_max: timedelta | float | None = None,
    ) -> None:
        """Let the oldest bytes of segments be truncated in the background, from now on.

        A segment's own rule counts, else that of the longest prefix. It cuts where an append ends,
        as soon as one of the limits allows, and only what is flushed; up to 1 MiB more than asked
        for stays, nothing less. Ages are those of ``Segment.offset_at``. With neither limit
        everything is kept, whatever a shorter prefix says. Setting it again replaces it.

        Args:
            name: a segment, which need not exist.
            prefix: ``name`` is the beginning of names, and may be empty.
            bytes_max: so many bytes stay at least.
            age_max: what was appended within this time stays; seconds, at least 1.

        Raises:
            SegmentNameError: no segment can have this name, or begin with it.
            ValueError: a limit is out of range.
            CapabilityError: there are 1,000 rules already.
            StoreError: the rule is for a prefix, and a container is not open here.

        The rule of a prefix is set in one container after the other. If that fails in some, the
        first error says in which ones it holds. Nothing is half-way in any of them, and the same
        call, made again, sets it in all.
        """
        row = retention_row(name, prefix=prefix, bytes_max=bytes_max, age_max=age_max)
        await _in_each(self._slots_of(row), lambda retention: retention.set(row))

    async def remove_retention(self, name: str, *, prefix: bool = False) -> bool:
        """Remove a rule; return whether there was one. What it cut is gone.

        If it fails in some containers, the error says so as that of ``set_retention``.
        """
        row = retention_row(name, prefix=prefix, bytes_max=None, age_max=None)
        slots = self._slots_of(row)
        found = await _in_each(slots, lambda retention: retention.remove(row.scope, row.name))
        return any(found)

    async def retention(self) -> list[RetentionRule]:
        """Return all rules, in the order of their names.

        A rule for a prefix is kept in every container. Where setting it failed in some, it may be
        here twice with different limits; then set it again.
        """
        found = {rule for slot in self._here for rule in await slot.container.retention.rules()}
        return sorted(found, key=lambda rule: (rule.name.encode(), not rule.prefix, str(rule)))

    async def retain(self, *, dry_run: bool = False) -> AsyncIterator[RetentionCut]:
        """Truncate now what the rules say, and yield each cut; ``dry_run`` only yields them."""
        for slot in self._here:
            retention = slot.container.retention
            async for cut in retention.plan() if dry_run else retention.round():
                yield cut

    def _slots_of(self, row: RetentionRow) -> list[ContainerSlot]:
        if row.scope is RetentionScope.PREFIX:
            return list(self._slots)
        return [self._slot_of(row.name)]

    async def checkpoint(self) -> list[int]:
        """Write a checkpoint of every container that is open here now.

        Returns the table versions that they hold.

        Raises:
            ChunkError: long-term storage failed; the checkpoint before counts.
        """
        versions = []
        for slot in self._here:
            await slot.container.checkpoint()
            versions.append(slot.container.stats().checkpoint_version)
        return versions

    async def rows(
        self, *, kind: RowKind | None = None, segment: str | None = None
    ) -> AsyncIterator[MetadataRow]:
        """Yield the rows of the metadata, decoded, in the order of their keys.

        For a person who looks for the reason of something; the rows are no interface.

        Args:
            kind: rows of this kind only.
            segment: rows of this segment only, except for those of its chunks and tasks.

        Raises:
            SegmentNotFoundError: there is no such segment.
        """
        slots = self._here if segment is None else (self._slot_of(segment),)
        for slot in slots:
            start = b""
            while True:
                page = await slot.container.rows(start, ROWS_PAGE, kind=kind, segment=segment)
                for row in page.rows:
                    yield row
                if page.next_key is None:
                    break
                start = page.next_key


async def _in_each(
    slots: Sequence[ContainerSlot], act: Callable[[Retention], Awaitable[T]]
) -> list[T]:
    """Do ``act`` in every container, whatever becomes of the others.

    Raises:
        SiltstoneError: the first failure. If there are several containers, it says in which ones
            the act took place, and in which ones it failed or is not known.
    """
    done, failed = [], []
    results = []
    failure: SiltstoneError | None = None
    for slot in slots:
        try:
            results.append(await act(slot.container.retention))
            done.append(str(slot.index))
        except SiltstoneError as error:
            failure = failure or error
            failed.append(str(slot.index))
    if failure is not None:
        if len(slots) > 1:
            where = f"done_in={','.join(done) or 'none'} failed_in={','.join(failed)}"
            failure.args = (f"{failure} {where}",)
        raise failure
    return results
