"""What an application does with a store, and what it tells the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from siltstone.core.errors import (
    CorruptDataError,
    SegmentNotFoundError,
)
from tests.simulation.facts import Segment, State, ViolationError
from tests.simulation.importing import Importing
from tests.simulation.looking import Look, look
from tests.support import inside

REFUSALS_MAX = 12
"""A client that is refused this often in a row stops."""


class Application(Importing):
    """The clients of one open store."""

    async def run(self, clients: int) -> None:
        """Be busy until told to leave, or until the store is of no use."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def run_few(self, operations: int) -> None:
        """Do this many operations, and create the table if there is none."""
        await self._create_rows()
        for _ in range(operations):
            if self.leaving or self._refusals >= REFUSALS_MAX:
                break
            await self._operate()

    async def _client(self) -> None:
        await self._create_rows()
        while not self.leaving and self._refusals < REFUSALS_MAX:
            await self._process.sleep(0.6 * self._chance.random())
            await self._operate()

    async def _create_rows(self) -> None:
        name = self._rows.name
        await self._ask(lambda: self._store.create_table(name, exist_ok=True))

    async def _operate(self) -> None:
        verb, _ = self._chance.choices(VERBS, WEIGHTS)[0]
        await verb(self)

    async def look(self) -> None:
        segments = list(self._ledger.segments.values())
        if segments:
            await self._look(self._chance.choice(segments))

    async def look_at_all(self) -> None:
        """Look at everything, and at the rows."""
        for segment in list(self._ledger.segments.values()):
            await self._look(segment)
        await self.look_at_rows()
        await self.look_at_rules()

    async def _look(self, segment: Segment) -> None:
        who = Look(
            name=self._process.name, ledger=self._ledger, epoch=self.epoch, process=self._process
        )
        if segment.rename is not None:
            await self._find_out(segment)
        if segment.rename is None:
            await self._ask(lambda: look(who, self._handle(segment), segment), others=(segment,))

    async def _find_out(self, segment: Segment) -> None:
        """Which of its two names a segment has."""
        epoch, rename, name = self.epoch, segment.rename, segment.name
        if rename is None or rename.epoch >= epoch or epoch != self._ledger.epoch:
            return

        async def there(name: str) -> bool:
            try:
                await self._store.segment(name).info()
            except SegmentNotFoundError:
                return False
            return True

        old = await self._ask(lambda: there(name))
        new = await self._ask(lambda: there(segment.new_name))
        if None in (old, new) or epoch != self._ledger.epoch or segment.rename is not rename:
            return
        if old == new and segment.create.state is State.HAPPENED and segment.end is None:
            raise ViolationError(f"{name} has two names, or none: {old} {new}")
        if new:
            self._ledger.renamed(segment)
        else:
            rename.failed(f"epoch {epoch} does not have it")
            segment.rename = None

    async def list_all(self) -> None:
        """All names of the store, in their order, those that are certain among them."""
        epoch, ledger = self.epoch, self._ledger
        current, every = epoch == ledger.epoch, [*ledger.segments.values()]
        sure = {s.name: s for s in every if s.create.state is State.HAPPENED and s.is_quiet}

        async def call() -> list[str]:
            return [info.name async for info in self._store.list()]

        found = await self._ask(call)
        if found is None:
            return
        if found != sorted(set(found), key=str.encode):
            raise ViolationError(f"a listing in disorder: {found}")
        if current and epoch == ledger.epoch:
            for name, segment in sure.items():
                if segment.is_quiet and segment.name == name and name not in found:
                    raise ViolationError(f"{name} is not listed by epoch {epoch}: {found}")

    async def care(self) -> None:
        """Do now what is otherwise done by itself."""
        store = self._store
        choice = self._chance.randrange(5)
        if choice == 0:
            await self._ask(store.flush)
        elif choice == 1:
            await self._ask(lambda: self._slot.container.checkpoint())
        elif choice == 2:
            await self._ask(store.collect)
        elif choice == 3:
            await self._ask(self._optimise)
        else:

            async def sweep() -> int:
                return len([finding async for finding in store.sweep(delete=True)])

            await self._ask(sweep)

    async def _optimise(self) -> None:
        parts = inside.parts(self._slot.container)
        try:
            await parts.optimiser.round()
        except CorruptDataError:
            # Only the verbs tell whether a newer owner took the chunk away.
            if self.epoch == self._ledger.epoch:
                raise


VERBS: tuple[tuple[Callable[[Application], Awaitable[object]], int], ...] = (
    (Application.append, 30),
    (Application.burst, 8),
    (Application.append_once, 12),
    (Application.commit, 8),
    (Application.create, 4),
    (Application.truncate, 6),
    (Application.seal, 2),
    (Application.delete, 2),
    (Application.rename, 2),
    (Application.set_attribute, 3),
    (Application.remove_row, 3),
    (Application.set_twins, 3),
    (Application.snapshot, 2),
    (Application.set_rule, 2),
    (Application.remove_rule, 1),
    (Application.look_at_rules, 1),
    (Application.retain, 1),
    (Application.import_chunks, 2),
    (Application.join, 6),
    (Application.join_again, 4),
    (Application.look, 14),
    (Application.look_at_rows, 3),
    (Application.list_all, 1),
    (Application.care, 5),
)

WEIGHTS = [weight for _, weight in VERBS]
