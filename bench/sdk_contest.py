"""The same objects through a binding and through its own SDK, with the processor's time.

Client and server share the machine, so the server uses the processor time that a client leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from bench.figure import (
    MIB_PER_SECOND,
    MILLISECONDS,
    PER_SECOND,
    Better,
    Figure,
    Unit,
    alternate,
)
from bench.workshop import Stopwatch, Workshop

MIB = 2**20
CPU_PER_MIB = Unit(text="ms/MiB of CPU", better=Better.LOWER)
GOAL = 0.9
"""Of the SDK."""

Call = Callable[[int], object]


@dataclass(slots=True, kw_only=True)
class Client:
    """One client, and what it took, round by round.

    Attributes:
        put, get: the calls, given a number.
        name: as in a table, if there are more than two.
        rates: MiB or calls a second.
        cpu_ms: milliseconds of the processor for each MiB or call.
    """

    put: Call
    get: Call
    name: str = ""
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


def take_turns(
    workshop: Workshop,
    clients: Sequence[Client],
    empty: Callable[[], None],
    verb: str,
    count: int,
    width: int,
    amount: int,
) -> None:
    """Let each client put or get ``count`` objects in turn, and note what it took.

    Args:
        workshop: how often.
        clients: the first makes what is read.
        empty: removes all objects, which is not counted.
        verb: ``put`` or ``get``.
        count: how many objects.
        width: how many at a time.
        amount: what the rates count, of all of them.
    """
    if verb == "get":
        for number in range(count):
            clients[0].put(number)
    with ThreadPoolExecutor(width) as threads:

        def measure(client: Client) -> float:
            call = client.put if verb == "put" else client.get
            with Stopwatch() as watch:
                for _ in threads.map(call, range(count)):
                    pass
            if verb == "put":
                empty()
            client.rates.append(amount / watch.seconds)
            client.cpu_ms.append(1e3 * watch.cpu_s / amount)
            return watch.seconds

        alternate(workshop.rounds, *(partial(measure, client) for client in clients))
    empty()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two clients of one place.

    Attributes:
        workshop: how large a run is.
        peer: name of the SDK.
        clients: the binding and the SDK, for objects of a length.
        empty: removes all objects, which is not counted.
        turns: how many times as many objects one turn has, except for the largest: in a short turn,
            a pause of the server would hide everything else.
    """

    workshop: Workshop
    peer: str
    clients: Callable[[int], Sequence[Client]]
    empty: Callable[[], None]
    turns: int = 1

    def large(self, kind: str, verbs: Sequence[str] = ("put", "get")) -> list[Figure]:
        """Objects of 8 MiB, one at a time, and of 64 MiB, several at a time."""
        figures = []
        for full, count, width in ((8, 8 * self.turns, 1), (64, 4, 4)):
            size = self.workshop.pick(full, 1)
            for verb in verbs:
                clients = self._measured(verb, size * MIB, count, width, size * count)
                what = f"{kind}, {verb} of {size} MiB, {width} at a time"
                figures += self._figures(what, clients, (MIB_PER_SECOND, CPU_PER_MIB))
        return figures

    def small(self, kind: str, length: int) -> list[Figure]:
        """Objects of this size."""
        figures = []
        count = self.workshop.pick(200 * self.turns, 8)
        for width in (1, 4):
            for verb in ("put", "get"):
                clients = self._measured(verb, length, count, width, count)
                what = f"{kind}, {verb} of {length // 1024} KiB, {width} at a time"
                figures += self._figures(what, clients, (PER_SECOND, MILLISECONDS))
        return figures

    def _measured(
        self, verb: str, length: int, count: int, width: int, amount: int
    ) -> Sequence[Client]:
        clients = self.clients(length)
        take_turns(self.workshop, clients, self.empty, verb, count, width, amount)
        return clients

    def _figures(
        self, what: str, clients: Sequence[Client], units: tuple[Unit, Unit]
    ) -> list[Figure]:
        ours, sdk = clients
        return [
            Figure(
                what=what,
                peer=self.peer,
                unit=units[0],
                ours=ours.rates,
                theirs=sdk.rates,
                goal=GOAL,
            ),
            Figure(
                what="… processor of the client",
                peer=self.peer,
                unit=units[1],
                ours=ours.cpu_ms,
                theirs=sdk.cpu_ms,
            ),
        ]
