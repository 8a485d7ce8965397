"""Opening an import session, with a fault at every call: of the boot, the opening and the end.

A driver claims the container, opens a session and gives the container up again. What may fail: one
call of that to long-term storage or the log; its process may die before the call or after it.
What must hold: a driver that repeats it has one session, the same that an earlier try was told of;
where none does, it expires, and nothing of it is left; other sessions, opened before and after it,
bring what they have, once. An owner that is paused there, and continues when a newer one has opened
the session, tells no driver of another one.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from siltstone.container.container import Container
from siltstone.container.imports.sessions import KEPT_MS
from siltstone.container.models.imports import ImportOutput, ImportTicket
from siltstone.core.errors import ChunkError, ClosedError, LogError, OutcomeUnknownError
from siltstone.core.records.import_row import ImportRow, ImportState
from siltstone.core.records.task import TaskKind
from siltstone.metadata.import_rows import import_pages
from tests.support import inside
from tests.support.container.container_world import Owner, World, close_quietly, world
from tests.support.container.imported_chunks import bring, content, gives, left
from tests.support.faults.failing_calls import (
    DAYS_S,
    Mortal,
    Operation,
    open_chunk,
    play_every,
    play_some,
)
from tests.support.faults.import_calls import NEVER, brought, given
from tests.support.faults.zombie import OldOwner, PausingEnvironment
from tests.support.model.container_model import ModelSegment

SAMPLE = 12
"""Runs of each operation without ``soak``."""
LENGTHS = (500, 300)
BRIEF_S = 3_600.0
"""The lifetime of a session whose driver does not come back."""
LIFETIME_S = DAYS_S
"""That of all others."""


async def opened(
    life: Mortal, name: str, told: list[ImportTicket], lifetime_s: float = LIFETIME_S
) -> ImportTicket:
    """Open a session, and repeat until that is reported; ``told`` gets the answer of every try."""

    async def step(container: Container) -> None:
        told.append(await container.imports.open(name, lifetime_s=lifetime_s))

    await life.do(step)
    assert len({(ticket.session_id, ticket.prefix) for ticket in told}) == 1
    return told[-1]


async def sessions(life: Mortal) -> dict[str, ImportRow]:
    """The rows of sessions; each has the one task that it needs, and there is no other task."""
    rows = inside.parts(await life.opened()).pipeline.replica.rows
    found = [row for page in import_pages(rows.tables) for row in page]
    tasks = {
        (task.subject, task.name, task.due_ms)
        for page in rows.task_pages()
        for task in page
        if task.kind is TaskKind.CLOSE_IMPORT
    }
    due = {
        row.name: row.expires_ms if row.state is ImportState.OPEN else row.closed_ms + KEPT_MS
        for row in found
    }
    assert tasks == {(row.session_id, row.name, due[row.name]) for row in found}
    return {row.name: row for row in found}


async def _commit(name: str, output: ImportOutput, container: Container) -> None:
    await container.imports.commit(name, [output])


async def come_to_their_end(life: Mortal, tickets: list[ImportTicket]) -> None:
    """Each of these sessions brings a segment of its name, and then nothing else is left."""
    prefixes = {ticket.prefix for ticket in tickets}
    assert len(prefixes) == len(tickets), "no two sessions share a prefix"
    chunks = {ticket.name: brought(life, ticket, *LENGTHS) for ticket in tickets}
    await life.sweep()
    assert len(left(life.world)) > len(LENGTHS) * len(tickets), "open sessions keep what they have"
    for name, some in chunks.items():
        output, data = given(name, some)
        await life.do(partial(_commit, name, output))
        life.model.segments[name] = ModelSegment(data=bytearray(data), sealed=True)
    await life.sweep()
    assert left(life.world) == sorted(chunk.name for some in chunks.values() for chunk, _ in some)


async def another_session(life: Mortal) -> None:
    """A session of another driver, which is open meanwhile."""
    await open_chunk(life)
    await opened(life, "other", [])


async def without_an_owner(life: Mortal) -> None:
    """Begin with the boot of a driver: the end of the owner before it is not looked at."""
    life.faults.armed = False
    await life.close()
    life.faults.armed = True


async def later(life: Mortal, seconds: float) -> None:
    """The store has no owner for this time; then its next owner collects garbage."""
    await life.close()
    life.world.environment.clock.now += seconds
    await life.do(lambda container: container.garbage.run())


async def a_driver_repeats(life: Mortal) -> None:
    told: list[ImportTicket] = []
    await without_an_owner(life)
    await opened(life, "job", told)
    await life.close()
    ticket = await opened(life, "job", told)
    life.faults.armed = False
    other = await opened(life, "other", [])
    third = await opened(life, "third", [])
    found = await sessions(life)
    assert {name: row.session_id for name, row in found.items()} == {
        each.name: each.session_id for each in (ticket, other, third)
    }
    assert {row.state for row in found.values()} == {ImportState.OPEN}
    await come_to_their_end(life, [ticket, other, third])


async def a_driver_is_gone(life: Mortal) -> None:
    ticket = None
    await without_an_owner(life)
    with suppress(ChunkError, LogError, ClosedError, OutcomeUnknownError):
        container = await life.opened()
        ticket = await container.imports.open("job", lifetime_s=BRIEF_S)
    await life.close()
    life.faults.armed = False
    if ticket is not None:
        # A task that began before the driver died; its output is of no use any more.
        bring(life.world.new_storage(), ticket, [b"orphaned"])
    assert (await sessions(life)).keys() in ({"other"}, {"other", "job"})
    assert ticket is None or "job" in await sessions(life), "what is told of is durable"
    await later(life, BRIEF_S)
    assert left(life.world) == []
    await later(life, KEPT_MS / 1000)
    other = await opened(life, "other", [])
    assert (await sessions(life)).keys() == {"other"}
    again = await opened(life, "job", [])
    assert ticket is None or again.session_id != ticket.session_id
    await come_to_their_end(life, [other, again])


OPERATIONS = {
    "a driver repeats": Operation(before=another_session, act=a_driver_repeats),
    "a driver is gone": Operation(before=another_session, act=a_driver_is_gone),
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])


# --- an owner is overtaken ------------------------------------------------------------------------


def overtake(number: int, *, after: bool) -> range:
    """Stop an owner at a call of an opening or its repeat; a newer one opens the session as well.

    Returns the numbers of those calls; if ``number`` is none of them, no one takes over.
    """

    async def lived(made: World) -> range:
        environment = PausingEnvironment(made, number, after=after)
        first: list[int] = []
        told: list[ImportTicket] = []

        async def life(owner: Owner) -> None:
            await owner.container.create("a")
            first.append(environment.calls + 1)
            told.append(await open_in_container(owner, "job"))
            told.append(await open_in_container(owner, "job"))

        older = OldOwner(made, environment, life)
        last = await older.begin()
        if number == NEVER:
            environment.resume.set()
            assert older.owner is not None, "its life is over"
            await close_quietly(older.owner)
            return range(first[0], last + 1)
        before = [*told]
        newer = await made.open(index="newer", takeover=True)
        tickets = [await open_in_container(newer, name) for name in ("between", "job")]
        await older.resume()
        assert {ticket.session_id for ticket in told} <= {tickets[1].session_id}
        assert after or told == before, "an owner overtaken before a call tells nothing more"
        for ticket in tickets:
            bring(made.new_storage(), ticket, [b"lost"], attempt=7)
            chunks = bring(made.new_storage(), ticket, [b"data"])
            await newer.container.imports.commit(ticket.name, [gives(ticket.name, chunks)])
            assert await content(newer, ticket.name) == b"data"
        assert len(left(made)) == len(tickets)
        await made.check(newer)
        await close_quietly(newer)
        return range(0)

    with world() as made:
        found = made.run(lived(made))
    assert isinstance(found, range)
    return found


async def open_in_container(owner: Owner, name: str) -> ImportTicket:
    return await owner.container.imports.open(name, lifetime_s=LIFETIME_S)


def test_an_owner_is_overtaken_at_every_call_of_an_opening() -> None:
    calls = overtake(NEVER, after=False)
    assert len(calls) >= 2, "one for the session, one for its repeat"
    for number in calls:
        for after in (False, True):
            overtake(number, after=after)
