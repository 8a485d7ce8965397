"""The verbs of a store by which others bring chunks: import sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from siltstone.container.imports.checks import already_known
from siltstone.container.models.imports import (
    Adoption,
    AdoptionNotFoundError,
    ImportBatch,
    ImportOutput,
    ImportResult,
    ImportTicket,
    ReleasedAdoption,
)
from siltstone.store.handles.arguments import SeveralContainersError

if TYPE_CHECKING:
    from siltstone.store.handles.container_slot import ContainerSlot

LIFETIME: Final = timedelta(days=1)


class ImportVerbs:
    """A part of ``AsyncStore``."""

    _slots: tuple[ContainerSlot, ...]
    _here: tuple[ContainerSlot, ...]
    _adopting: asyncio.Lock

    @property
    def uuid(self) -> str:
        """See ``AsyncStore.uuid``."""
        raise NotImplementedError

    def container_index(self, name: str) -> int:
        """See ``AsyncStore.container_index``."""
        raise NotImplementedError

    async def open_import(
        self,
        name: str,
        segment: str,
        *,
        lifetime: timedelta = LIFETIME,
        adoption: str | None = None,
    ) -> ImportTicket:
        """Open an import session, durably; return what those need who bring its chunks.

        They create chunks under the ticket's prefix with ``siltstone.ImportWriter``, on any host
        and without owning the store, and say what they made; ``commit_import`` gives that to
        segments. Repeated, it returns what is known of the session of this name, which is aborted
        if it has expired.

        Args:
            name: of the session, at most 256 bytes; a repeat is known by it for a day after the
                session was closed.
            segment: a segment that is to get bytes; all of them belong to its container.
            lifetime: then an open session is aborted; 1 second to 30 days.
            adoption: lets the session take objects in place: chunks of any name outside of what
                the store makes itself. They are kept, whatever becomes of their segments, until
                the adoption of this name, of at most 256 bytes, is finalised. Several sessions
                may share it.

        Raises:
            ValueError: a name or the lifetime is out of range.
            ImportSessionError: the session of this name is for another adoption.
            SegmentNameError: no segment can have this name.
        """
        slot = self._slots[self.container_index(segment)]
        ticket = await slot.container.imports.open(
            name, lifetime_s=lifetime.total_seconds(), adoption=adoption
        )
        return replace(ticket, uuid=self.uuid)

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
                nothing is done, and the result tells the newest batch of the stream.

        Raises:
            ImportSessionError: the session was aborted, has expired or is not known; or an object
                is a chunk of the store already.
            SeveralContainersError: a segment belongs to another container; give the names one
                ``{tag}``.
            LostDataError, CorruptDataError: a chunk is gone, or not what was said of it.
            SegmentExistsError: a segment that is to be made exists.
            SegmentSealedError: a segment that is to be appended to is sealed.
            ConditionFailedError: a segment is not what an output says that it replaces.
            BackPressureError: segments could not be held long enough.
            StoreError: objects are taken in place, and a container of the store is not open
                here, so nobody can tell whether it has one of them.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat tells.

        But for the last, nothing was done, and the session is as it was.
        """
        found = {output.segment: self.container_index(output.segment) for output in outputs}
        if set(found.values()) - {ticket.container}:
            raise SeveralContainersError({f"session {ticket.name}": ticket.container, **found})
        imports = self._slots[ticket.container].container.imports
        if not ticket.adoption:
            return await imports.commit(ticket.name, outputs, batch)
        async with self._adopting:
            if not imports.is_committed(ticket.name):
                self._check_unknown(ticket, outputs)
            return await imports.commit(ticket.name, outputs, batch)

    def _check_unknown(self, ticket: ImportTicket, outputs: Sequence[ImportOutput]) -> None:
        """No other container may have an object: it would be deleted under its feet."""
        names = [chunk.name for output in outputs for chunk in output.chunks]
        for slot in self._slots:
            if slot.index != ticket.container:
                known = slot.container.adoptions.knows(names)
                if known is not None:
                    raise already_known(ticket.name, known)

    async def abort_import(self, ticket: ImportTicket) -> bool:
        """Let a session bring nothing, and delete its chunks; return whether it was open.

        It never undoes a commit.
        """
        return await self._slots[ticket.container].container.imports.abort(ticket.name)

    async def adoptions(self) -> list[Adoption]:
        """Return what was taken in place, by name; one entry for each container that has some.

        It looks at the row of every imported chunk.
        """
        found = [each for slot in self._here for each in await slot.container.garbage.adoptions()]
        return sorted(found, key=lambda each: (each.name, each.container))

    async def finalise_adoption(self, name: str) -> int:
        """Let objects that were taken in place be deleted when nothing needs them any more.

        From now on they are like any other chunks, but for their names, and stay where they are.

        Returns:
            How many were dropped before and are garbage now.

        Raises:
            AdoptionNotFoundError: there is none of this name in the containers that are open here.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat goes on.
        """
        found = [await slot.container.adoptions.finalise(name) for slot in self._here]
        known = [count for count in found if count is not None]
        if not known:
            raise AdoptionNotFoundError("no such adoption", session=name)
        return sum(known)

    async def release_adoption(self, name: str) -> ReleasedAdoption:
        """Forget objects that were taken in place and that no segment names any more.

        Nothing is deleted, and they may be adopted again. To undo an adoption, delete its segments
        before.

        Raises:
            AdoptionNotFoundError: there is none of this name in the containers that are open here.
            ImportSessionError: it is finalised.
            LogError, OutcomeUnknownError: whether it took place is unknown; a repeat goes on.
        """
        found = [await slot.container.adoptions.release(name) for slot in self._here]
        known = [each for each in found if each is not None]
        if not known:
            raise AdoptionNotFoundError("no such adoption", session=name)
        return ReleasedAdoption(
            released=sum(each.released for each in known),
            in_use=sum(each.in_use for each in known),
        )

    async def record_sums(
        self, segment: str, *, progress: Callable[[int], None] = lambda _: None
    ) -> int:
        """Read what a segment has in place without sums, and record them.

        From then on reads compare with what was read now: a change of before is not noticed.

        Args:
            segment: its name.
            progress: called with the bytes of each step, on the store's loop.

        Returns:
            How many bytes were read.

        Raises:
            SegmentNotFoundError: there is no such segment.
            LostDataError, CorruptDataError: an object is shorter or longer than when it was
                adopted, or changes meanwhile.
        """
        slot = self._slots[self.container_index(segment)]
        return await slot.container.record_sums(segment, progress)
