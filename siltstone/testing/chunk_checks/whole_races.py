"""Checks of ``create_whole`` by many callers, while others look, and by callers that die."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import RawIOBase
from threading import Event

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import WholeCreates, create_whole, sweep_leftovers
from siltstone.testing.chunk_checks.processes import begun_child, ended_child, in_child
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    Raised,
    at_once,
    need,
    read,
)

CALLERS = 8
CLIENTS = 4
PROCESSES = 3
ROUNDS = 10
KILLS = 8
SEEN_BYTES = 300_000
"""Several blocks and packets of any service, and still sent in a moment."""


class WholeRaceChecks(ChunkSubject):
    """One of many gets a name; all see all of a chunk, or nothing; no death burns a name."""

    @pytest.fixture
    def whole(self, storage: ChunkStorage) -> WholeCreates:
        """The client, if it has the capability."""
        need(storage, "whole")
        assert isinstance(storage, WholeCreates)
        return storage

    def test_whole_create_of_one_name_is_won_once(
        self, whole: WholeCreates, service: ChunkService
    ) -> None:
        for number in range(ROUNDS):
            name = f"d{number}/a"
            calls = [partial(whole.create_whole, name, [_of(index)]) for index in range(CALLERS)]
            self._won_once(at_once(calls), service.outside_read(name))

    def test_whole_create_of_one_name_by_many_clients_is_won_once(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        others = [service.open() for _ in range(CLIENTS)]
        for number in range(ROUNDS):
            name = f"{number}"
            calls = [
                partial(create_whole, client, name, [_of(index)])
                for index, client in enumerate(others)
            ]
            self._won_once(at_once(calls), service.outside_read(name))
        for other in others:
            other.close()

    def test_whole_create_and_create_of_one_name_are_won_once(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        for number in range(ROUNDS):
            calls: list[Callable[[], None]] = [
                partial(storage.create, f"{number}", [_of(0)]),
                partial(whole.create_whole, f"{number}", [_of(1)]),
            ]
            self._won_once(at_once(calls), service.outside_read(f"{number}"))

    def test_whole_create_of_one_name_by_processes_is_won_once(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        _need_children(storage, service)
        made = [f"d/{number}" for number in range(ROUNDS)]

        def race(index: int, told: RawIOBase) -> None:
            own = service.open()
            for number, name in enumerate(made):
                with suppress(ChunkExistsError):
                    create_whole(own, name, [_of(index)])
                    told.write(bytes([number]))
            own.close()

        with _pipes(PROCESSES) as pipes:
            children = [
                begun_child(partial(race, index, told)) for index, (_, told) in enumerate(pipes)
            ]
            assert [ended_child(child) for child in children] == [0] * PROCESSES
            for _, told in pipes:
                told.close()
            won = [set(here.readall() or b"") for here, _ in pipes]
        for number, name in enumerate(made):
            winners = [index for index in range(PROCESSES) if number in won[index]]
            assert len(winners) == 1, winners
            assert service.outside_read(name) == _of(winners[0])

    def test_whole_creates_are_seen_wholly_or_not_at_all(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        made = [f"d/{number:03}" for number in range(ROUNDS)]
        content = _large(storage)
        now = [made[0]]

        def create_all() -> None:
            try:
                for name in made:
                    now[0] = name
                    whole.create_whole(name, [content])
            finally:
                now[0] = ""

        def look(at: Callable[[ChunkStorage, str], None]) -> None:
            other = service.open()
            while name := now[0]:
                with suppress(ChunkNotFoundError):
                    at(other, name)
            other.close()

        def look_at_it(other: ChunkStorage, name: str) -> None:
            assert other.stat(name).length == len(content)

        def read_it(other: ChunkStorage, name: str) -> None:
            assert read(other, name, 0, len(content) + 1) == content

        def list_it(other: ChunkStorage, name: str) -> None:
            assert {found.length for found in other.list("d/")} <= {len(content)}

        def look_from_outside(other: ChunkStorage, name: str) -> None:
            assert service.outside_read(name) in (None, content)

        looks = (look_at_it, read_it, list_it, look_from_outside)
        calls: list[Callable[[], None]] = [create_all, *(partial(look, at) for at in looks)]
        results = at_once(calls)
        assert results == [None] * (1 + len(looks))
        assert sorted(service.outside_names()) == made

    def test_whole_create_of_a_killed_process_is_there_wholly_or_not_at_all(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        _need_children(storage, service)
        content = _large(storage)
        for number in range(KILLS):
            made = [f"k{number}/{index}" for index in range(100)]
            acknowledged = _killed(service, made, content, number)
            present = {name: service.outside_read(name) for name in made[: acknowledged + 1]}
            assert set(present.values()) <= {content, None}
            assert None not in list(present.values())[:acknowledged]
            assert {found.length for found in storage.list(f"k{number}/")} <= {len(content)}
            # The name is not burnt: it is there wholly, or it can be made.
            with suppress(ChunkExistsError):
                whole.create_whole(made[acknowledged], [content])
            assert service.outside_read(made[acknowledged]) == content
        sweep_leftovers(storage, "", 0.0)

    def test_whole_creates_and_sweeps_run_side_by_side(
        self, storage: ChunkStorage, whole: WholeCreates, service: ChunkService
    ) -> None:
        made: set[str] = set()
        swept: dict[str, Outcome] = {}
        is_over = [False]
        # A sweep that began after a create has ended, or none will.
        is_swept = Event()

        def create_all() -> None:
            try:
                for name in [f"d/{number}" for number in range(2 * ROUNDS)]:
                    try:
                        whole.create_whole(name, [b"abc"])
                        made.add(name)
                    except ChunkUnavailableError as error:
                        swept[name] = error.outcome
                is_swept.wait()
            finally:
                is_over[0] = True

        def sweep_all() -> None:
            try:
                while not is_over[0]:
                    began_after = bool(made or swept)
                    sweep_leftovers(storage, "", 0.0)
                    if began_after:
                        is_swept.set()
            finally:
                is_swept.set()

        assert at_once([create_all, sweep_all]) == [None, None]
        present = set(service.outside_names())
        assert made <= present <= made | set(swept)
        assert not {name for name in present if swept.get(name) is Outcome.NOT_APPLIED}
        assert {service.outside_read(name) for name in present} <= {b"abc"}

    def _won_once(self, results: list[Raised | None], content: bytes | None) -> None:
        """One has made it, with its own bytes; all others were told so."""
        winners = [index for index, result in enumerate(results) if result is None]
        assert len(winners) == 1, results
        assert content == _of(winners[0])
        for result in results:
            assert result is None or isinstance(result.error, ChunkExistsError), result


def _large(storage: ChunkStorage) -> bytes:
    return (bytes(range(250)) * (SEEN_BYTES // 250))[: storage.capabilities.chunk_bytes_max]


def _of(index: int) -> bytes:
    """The bytes of one of several callers."""
    return b"%d" % index * 1_000


def _need_children(storage: ChunkStorage, service: ChunkService) -> None:
    """Skip the check where a child process cannot make a chunk that this one sees."""

    def make_one() -> None:
        own = service.open()
        own.create("child", [b"x"])
        own.close()

    if in_child(make_one) != 0 or service.outside_read("child") is None:
        pytest.skip("a child process does not reach the service")
    storage.delete("child")


def _killed(service: ChunkService, made: list[str], content: bytes, after: int) -> int:
    """Kill a child that makes chunks, when it has made some; return how many it reported."""

    def create_all(told: RawIOBase) -> None:
        own = service.open()
        for name in made:
            create_whole(own, name, [content])
            told.write(b"x")

    with _pipes(1) as ((here, told),):
        child = begun_child(partial(create_all, told))
        told.close()
        count = sum(len(here.read(1) or b"") for _ in range(after))
        os.kill(child, signal.SIGKILL)
        code = ended_child(child)
        count += len(here.readall() or b"")
    assert code in (-signal.SIGKILL, 0), "the child failed"
    return count


@contextmanager
def _pipes(count: int) -> Iterator[list[tuple[RawIOBase, RawIOBase]]]:
    """Pipes, each with the end to read from and the one to write to, which may be closed twice."""
    with ExitStack() as stack:
        yield [
            (
                stack.enter_context(open(here, "rb", buffering=0)),
                stack.enter_context(open(told, "wb", buffering=0)),
            )
            for here, told in (os.pipe() for _ in range(count))
        ]
