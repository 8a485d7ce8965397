"""The verbs of a store by which others bring chunks: import sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from siltstone.container.import_views import (
    ImportBatch,
    ImportOutput,
    ImportResult,
    ImportTicket,
)
from siltstone.store.arguments import SeveralContainersError

if TYPE_CHECKING:
    from siltstone.store.container_slot import ContainerSlot

LIFETIME: Final = timedelta(days=1)


class ImportVerbs:
    """A part of ``AsyncStore``."""

    _slots: tuple[ContainerSlot, ...]

    def container_index(self, name: str) -> int:
        """See ``AsyncStore.container_index``."""
        raise NotImplementedError

    async def open_import(
        self, name: str, segment: str, *, lifetime: timedelta = LIFETIME
    ) -> ImportTicket:
        """Open an import session, durably; return what those need who bring its chunks.

        They create chunks under the ticket's prefix with ``siltstone.ImportWriter``, on any host
        and without owning the store, and say what they made; ``commit_import`` gives that to
        segments. Repeated, it returns what is known of the session of this name.

        Args:
            name: of the session, at most 256 bytes; a repeat is known by it for a day after the
                session was closed.
            segment: a segment that is to get bytes; all of them belong to its container.
            lifetime: then an open session is aborted; 1 second to 30 days.

        Raises:
            ValueError: the name or the lifetime is out of range.
            SegmentNameError: no segment can have this name.
        """
        slot = self._slots[self.container_index(segment)]
        return await slot.container.imports.open(name, lifetime_s=lifetime.total_seconds())

    async def commit_import(
        self,
        ticket: ImportTicket,
        outputs: Sequence[ImportOutput],
        *,
        batch: ImportBatch | None = None,
    ) -> ImportResult:
        """Give segments what a session brought: all of it in one step, or nothing. Repeatable.

        A crash before it leaves nothing that anybody sees. A repeat, by whoever owns the store
        then, finds what it came to. Chunks under the prefix that are not named here are deleted.

        Args:
            ticket: of the session.
            outputs: what each segment gets; at most 1,000 segments, of the ticket's container.
            batch: which batch of a stream this is; if it was imported before, by whatever session,
                nothing is done.

        Raises:
            ImportSessionError: the session was aborted, has expired or is not known.
            SeveralContainersError: a segment belongs to another container; give the names one
                ``{tag}``.
            LostDataError, CorruptDataError: a chunk is gone, or not what was said of it.
            SegmentExistsError: a segment that is to be made exists.
            SegmentSealedError: a segment that is to be appended to is sealed.
            BackPressureError: segments could not be held long enough.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat tells.

        But for the last two, nothing was done, and the session is as it was.
        """
        found = {output.segment: self.container_index(output.segment) for output in outputs}
        if set(found.values()) - {ticket.container}:
            raise SeveralContainersError({f"session {ticket.name}": ticket.container, **found})
        imports = self._slots[ticket.container].container.imports
        return await imports.commit(ticket.name, outputs, batch)

    async def abort_import(self, ticket: ImportTicket) -> bool:
        """Let a session bring nothing, and delete its chunks; return whether it was open.

        It never undoes a commit.
        """
        return await self._slots[ticket.container].container.imports.abort(ticket.name)
