"""Imports: chunks that a client brings, and the commit that any client of any process repeats."""

from __future__ import annotations

from dataclasses import dataclass, field

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportTicket,
)
from siltstone.core.chunk_names import imported_chunk
from siltstone.core.errors import ChunkExistsError
from siltstone.core.storage.block_sums import extend_sums
from tests.simulation.facts import Bytes, Segment, State
from tests.simulation.versions import Versions
from tests.support import inside

TARGETS = 3
"""Segments that only imports append to, so that no client deletes them meanwhile."""


@dataclass(eq=False)
class Session:
    """An import on its way.

    Attributes:
        name: of the session.
        targets: the segments that get bytes.
        appends: what each of them gets: all or none.
        outputs: the chunks of each, once they were brought.
        tried: whether its commit was asked for.
        aborting: whether its abort was.
        busy: whether a client has it.
        over: whether it is known what became of it.
    """

    name: str
    targets: list[Segment]
    appends: list[Bytes] = field(default_factory=list)
    outputs: list[ImportOutput] = field(default_factory=list)
    tried: bool = False
    aborting: bool = False
    busy: bool = False
    over: bool = False


class Importing(Versions):
    """The verb that imports."""

    async def import_chunks(self) -> None:
        """Continue an import that may have happened, or begin one."""
        session = await self._session()
        if session is None:
            return
        session.busy = True
        try:
            await self._continue(session)
        finally:
            session.busy = False

    async def _session(self) -> Session | None:
        free = [each for each in self._plans.sessions if not each.busy and not each.over]
        if free and (len(free) > 2 or self._chance.random() < 0.7):
            return self._chance.choice(free)
        targets = self._plans.targets
        if len(targets) < TARGETS:
            made = await self.create(private=True)
            if made is None:
                return None
            targets.append(made)
        self._plans.names += 1
        count = self._chance.randint(1, len(targets))
        session = Session(f"job-{self._plans.names}", self._chance.sample(targets, count))
        self._plans.sessions.append(session)
        return session

    async def _continue(self, session: Session) -> None:
        first = session.targets[0]
        ticket = await self._ask(lambda: self._store.open_import(session.name, first.name))
        if ticket is None:
            return
        if session.aborting or self._chance.random() < 0.1:
            await self._abort(session, ticket)
            return
        if not session.outputs:
            data = [self._data() for _ in session.targets]
            outputs = await self._ask(lambda: self._bring(ticket, session, data))
            if outputs is None:
                return
            session.appends = [
                segment.append(each, self.epoch, "import")
                for segment, each in zip(session.targets, data, strict=True)
            ]
            for append in session.appends:
                append.group = session.appends
            session.outputs = outputs
        elif session.tried:
            for segment, append in zip(session.targets, session.appends, strict=True):
                append.again(self.epoch)
                segment.asked(append)
        again, session.tried = session.tried, True
        result = await self._ask(
            lambda: self._store.commit_import(ticket, session.outputs),
            *session.appends,
            again=again,
            others=session.targets,
        )
        if result is not None:
            session.over = True
            places = zip(session.targets, session.appends, result.segments, strict=True)
            for segment, append, place in places:
                segment.acknowledged(append, place.offset)

    async def _bring(
        self, ticket: ImportTicket, session: Session, data: list[bytes]
    ) -> list[ImportOutput]:
        """Make one or two chunks for each segment; another attempt may have made some before."""
        storage = inside.parts(self._slot.container).storage
        outputs: list[ImportOutput] = []
        for segment, each in zip(session.targets, data, strict=True):
            cut = self._chance.randrange(len(each))
            chunks = []
            for part in filter(None, (each[:cut], each[cut:])):
                nonce = f"{self._chance.getrandbits(64):016x}"
                name = imported_chunk(ticket.prefix, len(outputs), 0, nonce)
                try:
                    await storage.create(name, [part])
                except ChunkExistsError as error:
                    raise AssertionError("no name is used twice") from error
                sums = tuple(extend_sums([part], 0, 0))
                chunks.append(ImportedChunk(name=name, length=len(part), sums=sums))
            mode = ImportMode.APPEND
            outputs.append(ImportOutput(segment=segment.name, chunks=tuple(chunks), mode=mode))
        return outputs

    async def _abort(self, session: Session, ticket: ImportTicket) -> None:
        """From now on nothing but its abort is asked for."""
        session.aborting = True
        was_open = await self._ask(lambda: self._store.abort_import(ticket))
        if was_open is None:
            return
        session.over = True
        for append in session.appends:
            if was_open and append.state is State.OPEN:
                append.failed("its session was aborted")
