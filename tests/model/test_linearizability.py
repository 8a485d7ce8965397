"""Calls on segments by concurrent clients, while owners crash and follow, put in order.

What may fail: any owner at any moment, and clients still call owners that have been taken over.
What must hold: the calls of each segment, taken one after the other in some order that their times
allow, give exactly the answers that were given; those without an answer took effect once or never.
Reads of an owner that was followed show what it saw last, and are left out.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, NamedTuple

import pytest

from siltstone.core.errors import OffsetError, SegmentSealedError, SegmentTruncatedError
from tests.support.container.container_world import Owner
from tests.support.model.unquiet_owners import LOST, UnquietOwners
from tests.support.oracles.linearizability import Call, search

NAMES = ("a", "b")
CLIENTS = 5
COUNT = 150
"""Calls of one seed, on all segments together."""

SEALING = 30
"""This many of the last calls may be seals."""


class Segment(NamedTuple):
    """The model: what one segment is at a moment."""

    data: bytes = b""
    start: int = 0
    sealed: bool = False


def step(state: Segment, call: Call) -> Segment | None:
    """The segment after a call; ``None`` if its answer is not the one of this segment."""
    answer, after = run(state, *call.what)
    return after if call.ended is None or call.answer == answer else None


def run(state: Segment, verb: str, *parts: Any) -> tuple[Any, Segment]:
    length = len(state.data)
    match verb, *parts:
        case "append", data, expected:
            if state.sealed:
                return "sealed", state
            if expected not in (None, length):
                return ("offset", length), state
            return length, state._replace(data=state.data + data)
        case "seal", *_:
            return None, state._replace(sealed=True)
        case "truncate", offset:
            if offset > length:
                return ("offset", length), state
            return None, state._replace(start=max(state.start, offset))
        case "read", offset, count:
            if offset < state.start:
                return ("truncated", state.start), state
            if offset > length:
                return ("offset", length), state
            return state.data[offset : offset + count], state
        case _:
            return (state.start, length, state.sealed), state


class Clients:
    """The clients of one run, and the history of each segment."""

    def __init__(self, owners: UnquietOwners) -> None:
        self.owners = owners
        self.histories: dict[str, list[Call]] = {name: [] for name in NAMES}
        self.begun = 0

    async def client(self) -> None:
        """Calls until enough were begun, each to an owner that may be an old one."""
        owners = self.owners
        owner = owners.owner
        while self.begun < COUNT:
            self.begun += 1
            if owners.chance.random() < 0.3 or owner.container.closed:
                owner = owners.owner
            await self.call(owner, owners.chance.choice(NAMES), self.chosen())
            await owners.pause(0.02)

    def chosen(self) -> tuple[Any, ...]:
        """What to ask for next."""
        chance = self.owners.chance
        about = 3 * self.begun // 2
        kinds = ["append"] * 6 + ["truncate", "info"] + ["read"] * 3
        if self.begun > COUNT - SEALING:
            kinds.append("seal")
        kind = chance.choice(kinds)
        if kind == "append":
            data = f"{self.begun:x},".encode()
            return kind, data, chance.choice([None, None, None, chance.randint(0, about)])
        if kind == "truncate":
            return kind, chance.randint(0, about)
        if kind == "read":
            return kind, chance.randint(0, about), chance.randint(0, 40)
        return (kind,)

    async def call(self, owner: Owner, name: str, what: tuple[Any, ...]) -> None:
        """Make a call and keep what came of it."""
        owners = self.owners
        if what[0] == "append" and what[2] is not None:
            what = (*what[:2], (await self.length(owner, name)))
        began, ended, answer = owners.now(), None, None
        try:
            answer = await self.answer(owner, name, what)
            ended = owners.now()
        except LOST:
            await owners.pause(0.1)
        if what[0] in ("read", "info") and (ended is None or not owners.newest(owner)):
            return
        self.histories[name].append(Call(what=what, answer=answer, began=began, ended=ended))

    async def length(self, owner: Owner, name: str) -> int:
        """A length to expect: the newest one that is known, right or not."""
        try:
            return (await owner.container.info(name)).length
        except LOST:
            return 0

    async def answer(self, owner: Owner, name: str, what: tuple[Any, ...]) -> Any:
        """What a container says, in the words of the model."""
        try:
            return await self.asked(owner, name, *what)
        except SegmentSealedError:
            return "sealed"
        except OffsetError as error:
            return "offset", error.expected
        except SegmentTruncatedError as error:
            return "truncated", error.start_offset

    def asked(self, owner: Owner, name: str, verb: str, *parts: Any) -> Awaitable[Any]:
        """The call itself."""
        container = owner.container
        match verb:
            case "append":
                return container.append(name, *parts)
            case "truncate":
                return container.truncate(name, *parts)
            case "read":
                return container.read(name, *parts)
            case "seal":
                return self.sealed(owner, name)
            case _:
                return self.info(owner, name)

    async def sealed(self, owner: Owner, name: str) -> None:
        """Seal; the answer says nothing that ``info`` would not."""
        await owner.container.seal(name)

    async def info(self, owner: Owner, name: str) -> tuple[int, int, bool]:
        """The parts of what there is to know that the model has."""
        info = await owner.container.info(name)
        return info.start_offset, info.length, info.sealed


@pytest.mark.parametrize("seed", range(25))
def test_some_order_explains_all_calls(seed: int) -> None:
    owners = UnquietOwners(seed, quiet_s=(0.1, 0.6))
    clients = Clients(owners)

    async def work() -> None:
        for name in NAMES:
            await owners.owner.container.create(name)
        await owners.during([clients.client] * CLIENTS)
        for name in NAMES:
            info = await owners.owner.container.info(name)
            await clients.call(owners.owner, name, ("info",))
            await clients.call(owners.owner, name, ("read", info.start_offset, 10_000))
        await owners.close()

    try:
        owners.world.run(work())
    finally:
        owners.world.close()
    for name, history in clients.histories.items():
        assert len(history) > COUNT / len(NAMES) / 3
        verdict = search(history, Segment(), step)
        assert verdict.order is not None, f"seed {seed}, segment {name}: after {verdict.furthest}"
