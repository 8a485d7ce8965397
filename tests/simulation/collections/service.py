"""Long-term storage as processes reach it: each request travels, and may fail or come late.

A request that was sent takes effect by itself, whether its sender waits, is stopped or has died. A
sender that waits too long hears that the outcome is unknown; the request may come minutes later.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage
from siltstone.testing.virtual_time import Clock
from tests.simulation.weather import FAILURES
from tests.support.simulation.stepping import pause

T = TypeVar("T")

PATIENCE_S = 3.0
"""How long a sender waits for an answer."""

LATE_S = (3.0, 10.0, 40.0)
"""How late a request may come, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionClimate:
    """How the service is for a while.

    Attributes:
        fault: share of the requests that fail.
        late: share of the requests that come after their sender has given up.
        takes_s: most seconds of any other request.
    """

    fault: float = 0.0
    late: float = 0.0
    takes_s: float = 0.05


CALM = CollectionClimate()
CLIMATES = (
    CALM,
    CALM,
    CollectionClimate(takes_s=0.6),
    CollectionClimate(fault=0.03, takes_s=0.2),
    CollectionClimate(late=0.04, takes_s=0.1),
    CollectionClimate(fault=0.1, late=0.03, takes_s=0.1),
    CollectionClimate(fault=0.5, takes_s=0.5),
    CollectionClimate(fault=1.0),
)


class CollectionWeather:
    """What becomes of requests.

    Attributes:
        chance: of its own.
        climate: how the service is now.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.climate = CALM

    def change(self) -> None:
        """Another climate from now on."""
        self.climate = self.chance.choice(CLIMATES)

    def fate(self) -> Fate:
        """What becomes of a request."""
        fault = self.climate.fault
        if fault and self.chance.random() < fault:
            return self.chance.choice(FAILURES)
        return Fate.DONE

    def travel_s(self) -> tuple[float, float]:
        """Seconds until a request takes effect, and from then until its answer is there."""
        late = self.climate.late
        if late and self.chance.random() < late:
            return PATIENCE_S + self.chance.choice(LATE_S) * self.chance.random(), 0.0
        most_s = self.climate.takes_s
        return most_s * self.chance.random() ** 3, most_s * self.chance.random() ** 3


class _Request:
    """One request on its way."""

    def __init__(self, action: Callable[[], Any], after: Callable[[], None] | None) -> None:
        self._action = action
        self._after = after
        self.is_done = False
        self.result: Any = None
        self.error: Exception | None = None

    def arrive(self) -> None:
        """Take effect."""
        try:
            self.result = self._action()
        except Exception as error:  # noqa: BLE001 - told to the sender
            self.error = error
        self.is_done = True
        if self._after is not None:
            self._after()


class SentRequests(FaultyChunkStorage):
    """A client of long-term storage whose requests travel.

    Args:
        inner: the service.
        weather: decides what becomes of requests.
        clock: the time.
        loop: on which requests arrive.
        note: told of each request.
        deleted: called when parts were deleted.

    Attributes:
        busy_until: the time, in seconds of the clock, at which the last request has arrived.
    """

    def __init__(
        self,
        inner: ChunkStorage,
        weather: CollectionWeather,
        clock: Clock,
        loop: AbstractEventLoop,
        note: Callable[[str], None],
        deleted: Callable[[], None],
    ) -> None:
        super().__init__(inner)
        self._deleted = deleted
        self._weather = weather
        self._clock = clock
        self._loop = loop
        self._note = note
        self.busy_until = 0.0

    def _fated(
        self,
        operation: str,
        name: str,
        action: Callable[[], T],
        *,
        torn: Callable[[], object] | None = None,
    ) -> T:
        fate = self._weather.fate()
        before_s, after_s = self._weather.travel_s()
        if fate in (Fate.REFUSED, Fate.LOST_CALL):
            self._note(f"{operation} {name} {fate.value}")
            pause(after_s)
            raise _failure(operation, name, fate)
        if fate is Fate.TORN:
            self._note(f"{operation} {name} {fate.value}")
            if torn is not None:
                torn()
            raise _failure(operation, name, fate)
        has_parts = operation.startswith("delete") and "/parts/" in name
        request = _Request(action, self._deleted if has_parts else None)
        self._note(f"{operation} {name} {fate.value} in {before_s:.3f}")
        self.busy_until = max(self.busy_until, self._clock.now + before_s)
        self._loop.call_later(before_s, request.arrive, context=Context())
        pause(min(before_s + after_s, PATIENCE_S) + 1e-5)
        if not request.is_done or fate is Fate.LOST_REPLY:
            raise _failure(operation, name, Fate.LOST_REPLY)
        if request.error is not None:
            raise request.error
        result: T = request.result
        return result


def _failure(operation: str, name: str, fate: Fate) -> ChunkUnavailableError:
    return ChunkUnavailableError(
        f"injected: {fate.value}",
        chunk=name,
        operation=operation,
        outcome=Outcome.NOT_APPLIED if fate is Fate.REFUSED else Outcome.UNKNOWN,
    )
