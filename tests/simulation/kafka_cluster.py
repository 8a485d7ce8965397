"""The cluster of Kafka under the logs of a run: it is away, refuses, and answers late or never.

The log's own code runs over it as it is; only what carries its requests is replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from kafka import errors as kafka_errors

from siltstone.core.environment import Environment
from siltstone.core.remote.deadline import Deadline
from siltstone.testing.virtual_time import Clock
from siltstone.tier1.kafka import client as client_module
from siltstone.tier1.kafka import connection, fenced_log, reader
from siltstone.tier1.kafka.client import Client
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.settings import KafkaLogSettings
from tests.simulation.broker import Broker
from tests.support.simulation.stepping import EndedError, StepLock, pause

T = TypeVar("T")

DEADLINE_S = 4.0
LATE_S = 15.0
AWAY_S = 10.0
CHANGES = frozenset({"ProduceRequest", "DeleteRecordsRequest"})
"""What may have its effect when no caller waits for it any more."""


class Fate(Enum):
    """What becomes of a request."""

    DONE = auto()
    REFUSED = auto()
    LOST = auto()
    LATE = auto()
    LOST_ANSWER = auto()
    SILENCE = auto()
    """It has its effect, and no answer comes, nor an error."""


FAILURES = tuple(fate for fate in Fate if fate is not Fate.DONE)


class KafkaCluster:
    """The broker, and the way to it.

    Attributes:
        broker: see there.

    Args:
        clock: the time.
        chance: decides what fails.
        patched: undoes the replacement of the clients.
        most_s: tells what a request takes at most, each way.
        note: told what happens.
    """

    def __init__(
        self,
        clock: Clock,
        chance: Random,
        patched: pytest.MonkeyPatch,
        most_s: Callable[[], float],
        note: Callable[[str], None],
    ) -> None:
        self.broker = Broker(chance, note)
        self._clock = clock
        self._chance = chance
        self._most_s = most_s
        self._note = note
        self._fault = 0.0
        self._away_until = 0.0
        self._late: list[tuple[float, Any]] = []
        patched.setattr(
            "siltstone.core.remote.deadline.time", SimpleNamespace(monotonic=lambda: clock.now)
        )
        patched.setattr(connection, "Client", lambda options: ModelClient(self))
        locks = SimpleNamespace(Lock=StepLock, RLock=StepLock)
        for module in (fenced_log, reader):
            patched.setattr(module, "threading", locks)
        patched.setattr(fenced_log, "Heart", NoHeart)

    def log(self, container: int, environment: Environment) -> KafkaFencedLog:
        """A handle to a log."""
        settings = KafkaLogSettings(
            servers=["modelled:1"],
            topic="log",
            create_topics=True,
            replication=1,
            single_broker=True,
            insecure=True,
            deadline_s=DEADLINE_S,
        )
        return KafkaFencedLog(settings, container, environment=environment)

    # --- what fails ---

    def change_weather(self) -> None:
        """Be another cluster for a while."""
        self._fault = self._chance.choice((0.0, 0.0, 0.01, 0.05, 0.2))
        if self._chance.random() < 0.3:
            seconds = AWAY_S * self._chance.random() ** 2
            self._away_until = self._clock.now + seconds
            self._note(f"away for {seconds:.3f}")
        if self._chance.random() < 0.1:
            self._note("forgets its producers")
            self.broker.forget_producers()

    def calm_down(self) -> None:
        """Fail no more; what is on its way arrives."""
        self._fault = self._away_until = 0.0
        for _, request in self._late:
            self._carry_out(request)
        self._late.clear()

    @property
    def is_away(self) -> bool:
        """Whether no client reaches it."""
        return self._clock.now < self._away_until

    def fate(self) -> Fate:
        """What becomes of the next request."""
        if self._chance.random() < self._fault:
            return self._chance.choice(FAILURES)
        return Fate.DONE

    def travel(self, *, is_sent: bool) -> None:
        """Take the time of one way."""
        pause(self._most_s() * self._chance.random() ** 3, is_sent=is_sent)

    def sleep(self, seconds: float) -> None:
        """Take that much time."""
        if not pause(seconds):
            self._clock.now += seconds

    def is_half_way(self) -> bool:
        """Whether a request is on its way whose sender died or was paused since."""
        return self._chance.random() < 0.5

    def come_later(self, request: Any) -> None:
        """Carry a request out some time, whether or not its caller waits for it."""
        if type(request).__name__ in CHANGES:
            seconds = LATE_S * self._chance.random() ** 2
            self._note(f"{type(request).__name__} comes in {seconds:.3f}")
            self._late.append((self._clock.now + seconds, request))

    def answer(self, request: Any) -> Any:
        """Carry a request out after those that came before."""
        due = [entry for entry in self._late if entry[0] <= self._clock.now]
        self._late = [entry for entry in self._late if entry[0] > self._clock.now]
        for _, before in sorted(due, key=lambda entry: entry[0]):
            self._carry_out(before)
        return self.broker.answer(request)

    def _carry_out(self, request: Any) -> None:
        self._note(f"{type(request).__name__} arrives late")
        self.broker.answer(request)


class ModelClient(Client):
    """Carries requests to the model. What is repeated is decided by the log's own client."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._net = SimpleNamespace(sleep=self._sleep)
        told = SimpleNamespace(update_metadata=lambda answer: None)
        self.manager = cast("Any", SimpleNamespace(cluster=told))
        self._is_closed = False

    def run(self, call: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """``Client.run``; nothing in it waits but for virtual time."""
        step = call().__await__()
        try:
            next(step)
        except StopIteration as ended:
            result: T = ended.value
            return result
        raise AssertionError("a call waits for something")

    async def ask(self, request: Any, node: int | None, deadline: Deadline) -> Any:
        """``Client.ask``."""
        cluster = self._cluster
        if self._is_closed:
            raise kafka_errors.IllegalStateError("the client was closed")
        deadline.check()
        fate = cluster.fate()
        try:
            cluster.travel(is_sent=cluster.is_half_way())
        except EndedError:
            if cluster.is_half_way():
                cluster.come_later(request)
            raise
        if self._has_closed() or fate is Fate.LATE:
            cluster.come_later(request)
            raise kafka_errors.KafkaConnectionError("the connection broke")
        if cluster.is_away or fate is Fate.LOST:
            raise kafka_errors.KafkaConnectionError("the broker is away")
        if fate is Fate.REFUSED:
            raise kafka_errors.NotLeaderForPartitionError
        answer = cluster.answer(request)
        if fate is Fate.SILENCE:
            cluster.sleep(min(deadline.left_s(), client_module.ATTEMPT_S))
            raise kafka_errors.KafkaTimeoutError
        cluster.travel(is_sent=False)
        if self._has_closed() or fate is Fate.LOST_ANSWER:
            raise kafka_errors.KafkaConnectionError("the answer was lost")
        return answer

    def _has_closed(self) -> bool:
        return self._is_closed

    async def _sleep(self, seconds: float) -> None:
        self._cluster.sleep(seconds)

    def close(self) -> None:
        """``Client.close``."""
        self._is_closed = True


class NoHeart:
    """Takes the place of ``Heart``: all processes of a run are of one machine."""

    def __init__(self, *parts: object, **choices: object) -> None:
        pass

    def stop(self) -> None:
        """Do nothing."""
