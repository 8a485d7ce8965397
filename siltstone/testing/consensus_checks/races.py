"""Checks of a consensus: many callers at a time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event

from siltstone.core.environment import Environment
from siltstone.testing.chunk_checks.subject import at_once
from siltstone.testing.consensus_checks.subject import (
    ID,
    Caller,
    ConsensusService,
    ConsensusSubject,
)


class ConsensusRaceChecks(ConsensusSubject):
    """Callers that want the same seqno, while others truncate and look on."""

    def test_one_caller_begins_a_collection(
        self, service: ConsensusService, environment: Environment
    ) -> None:
        clients = [Caller(service.open(environment)) for _ in range(self.callers)]
        results = at_once(
            [partial(client.begin, f"of {number}") for number, client in enumerate(clients)]
        )
        assert results == [None] * self.callers
        assert {client.story for client in clients} == {clients[0].story}
        assert len(clients[0].story.lines) == 1
        assert clients[0].sweep() == 0, "those that lost deleted their rollups"

    def test_every_line_is_there_once(
        self, client: Caller, service: ConsensusService, environment: Environment
    ) -> None:
        results = at_once([partial(self._add, c) for c in self._callers(service, environment)])
        assert results == [None] * self.callers
        self._all_is_there(client, service, environment)

    def test_every_line_is_there_once_while_much_is_forgotten(
        self, client: Caller, other: Caller, service: ConsensusService, environment: Environment
    ) -> None:
        callers = self._callers(service, environment)
        finished: list[Caller] = []
        done = Event()

        def add(caller: Caller) -> None:
            try:
                self._add(caller)
            finally:
                finished.append(caller)
                if len(finished) == len(callers):
                    done.set()

        calls: list[Callable[[], None]] = [partial(add, caller) for caller in callers]
        calls += [partial(self._forget, client, done), partial(self._look_on, other, done)]
        assert at_once(calls) == [None] * len(calls)
        self._all_is_there(client, service, environment)

    def _callers(self, service: ConsensusService, environment: Environment) -> list[Caller]:
        callers = [
            Caller(service.open(environment), name=f"caller {number}")
            for number in range(self.callers)
        ]
        for caller in callers:
            caller.open()
        return callers

    def _add(self, caller: Caller) -> None:
        for number in range(self.lines):
            caller.add(f"{caller.name}, line {number}")

    def _forget(self, client: Caller, done: Event) -> None:
        """Link, truncate, forget and sweep, all the time."""
        while not done.is_set():
            client.refresh()
            if client.link():
                client.truncate()
                client.sweep()

    def _look_on(self, other: Caller, done: Event) -> None:
        """Take what is new in each way in which it is to be had."""
        while not done.is_set():
            progress = other.consensus.poll(other.tip)
            if progress is not None:
                other.take(progress)
            other.refresh()
            replayed = other.consensus.replay(other.tip, other.story.rollups[0])
            if replayed is not None:
                assert replayed.tip.seqno == other.tip.seqno
            other.open()

    def _all_is_there(
        self, client: Caller, service: ConsensusService, environment: Environment
    ) -> None:
        client.refresh()
        fresh = Caller(service.open(environment))
        fresh.open()
        assert fresh.story == client.story
        added = {f"caller {c}, line {n}" for c in range(self.callers) for n in range(self.lines)}
        lines = client.story.lines
        assert len(lines) == len(set(lines))
        assert set(lines) == {"first"} | added
        for number in range(self.callers):
            own = [line for line in lines if line.startswith(f"caller {number},")]
            assert own == [f"caller {number}, line {n}" for n in range(self.lines)]
        assert list(service.open(environment).keys()) == [ID]
