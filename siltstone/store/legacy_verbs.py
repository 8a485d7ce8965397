"""The verbs of a store that writes on in a legacy layout, as a migration begins and ends that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from siltstone.container.models.legacy import LegacyLayout, LegacySegment

if TYPE_CHECKING:
    from siltstone.store.handles.container_slot import ContainerSlot


class LegacyVerbs:
    """A part of ``AsyncStore``."""

    _here: tuple[ContainerSlot, ...]

    def container_index(self, name: str) -> int:
        """See ``AsyncStore.container_index``."""
        raise NotImplementedError

    async def begin_legacy(self, layout: LegacyLayout, segments: Sequence[LegacySegment]) -> None:
        """Write segments in a legacy layout from now on, those that are made later too. Repeatable.

        Args:
            layout: where, and how names begin that belong to it.
            segments: those that are there, all of them in place.

        Raises:
            CapabilityError: this service can not do what that takes; nothing was done.
            StoreError: another layout is written already.
            SegmentNotFoundError: a segment is not there.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat goes on.
        """
        for slot in self._here:
            mine = [one for one in segments if self.container_index(one.name) == slot.index]
            await slot.container.begin_legacy(layout, mine)

    async def end_legacy(self) -> None:
        """Write all segments as any other store does, from now on. Changes no file. Repeatable.

        Raises:
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat goes on.
        """
        for slot in self._here:
            await slot.container.end_legacy()

    async def legacy_adoption(self) -> str | None:
        """The adoption of the legacy layout that is written; ``None`` when none is."""
        found = [await slot.container.legacy_adoption() for slot in self._here]
        return next((name for name in found if name is not None), None)
