"""Calls of blocking callers end at their deadline, whatever the service does.

What is injected: a service that does not answer until it is told to. What must hold: the caller has
a typed error that names the storage; a call that was not sent is known to have had no effect; and
everything works again when the service answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError, Outcome, StorageSuspendedError
from siltstone.core.pauses import Stop
from siltstone.core.storage.deadline import HANGING_MAX, PAGE_COUNT, DeadlineChunkStorage
from siltstone.core.storage.wrapper import WrappedChunkStorage

WAIT_S = 120.0


class Clock(SystemEnvironment):
    """The real time, and what a test adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.added_s = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + self.added_s


class Service(WrappedChunkStorage):
    """Does not answer the calls named in ``silent`` until ``answers`` is set.

    Meanwhile the time of these calls passes at once.
    """

    def __init__(self) -> None:
        super().__init__(MemoryChunkStorage())
        self.clock = Clock()
        self.storage = DeadlineChunkStorage(self, self.clock, deadline_s=WAIT_S)
        self.answers = threading.Event()
        self.silent: set[str] = set()
        self.threads: list[int] = []

    def _call(self, operation: str, name: str, action: Callable[[], Any]) -> Any:
        self.threads.append(threading.get_ident())
        if operation in self.silent:
            self.clock.added_s += 2 * WAIT_S
            assert self.answers.wait(WAIT_S)
        return action()

    def close(self) -> None:
        if "close" in self.silent:
            assert self.answers.wait(WAIT_S)
        super().close()

    def uri_of(self, name: str) -> str | None:
        return f"file:///srv/{name}"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("siltstone.core.bounded_calls.LOOK_S", 0.01)
    made = Service()
    yield made
    made.answers.set()


VERBS: dict[str, Callable[[DeadlineChunkStorage], object]] = {
    "create": lambda storage: storage.create("new", [b"bytes"]),
    "write": lambda storage: storage.write("a", 5, [b"more"]),
    "read_into": lambda storage: storage.read_into("a", 0, bytearray(5)),
    "stat": lambda storage: storage.stat("a"),
    "list": lambda storage: list(storage.list("")),
    "delete": lambda storage: storage.delete("a"),
    "delete_many": lambda storage: storage.delete_many(["a"]),
    "concat": lambda storage: storage.concat("b", [("a", 5)]),
    "seal": lambda storage: storage.seal("a"),
    "used_space": lambda storage: storage.used_space(),
    "free_space": lambda storage: storage.free_space(),
    "sweep_leftovers": lambda storage: storage.sweep_leftovers("", 0.0),
    "overwrite": lambda storage: storage.overwrite("a", 0, [b"bytes"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_that_hangs_is_an_unknown_outcome_of_a_named_storage(
    service: Service, verb: str
) -> None:
    service.create("a", [b"bytes"])
    service.silent = {verb}
    with pytest.raises(ChunkUnavailableError, match="no answer before the deadline") as caught:
        VERBS[verb](service.storage)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.operation == verb
    assert "storage=file:///srv/" in str(caught.value)


def test_a_whole_create_hangs_no_longer_than_any_other(service: Service) -> None:
    service.silent = {"create"}
    with pytest.raises(ChunkUnavailableError, match="no answer before the deadline") as caught:
        service.storage.create_whole("new", [b"a", b"b"])
    assert (caught.value.operation, caught.value.outcome) == ("create", Outcome.UNKNOWN)


def test_a_create_from_pieces_hangs_no_longer_than_any_other(service: Service) -> None:
    service.silent = {"create"}
    with pytest.raises(ChunkUnavailableError, match="no answer before the deadline"):
        service.storage.create_from("new", 2, [b"a", b"b"])


def test_the_time_that_pieces_take_is_not_the_storage_s(service: Service) -> None:
    storage = service.storage

    def slow() -> Iterable[bytes]:
        for piece in (b"a", b"b"):
            service.clock.added_s += 2 * WAIT_S
            seen = service.clock.looks
            while service.clock.looks < seen + 2:
                time.sleep(0.001)  # the caller checks the time
            yield piece

    storage.create_from("new", 2, slow())
    assert storage.stat("new").length == 2


def test_what_would_hang_too_is_not_sent_until_something_answers(service: Service) -> None:
    storage = service.storage
    service.silent = {"stat"}
    for _ in range(HANGING_MAX):
        with pytest.raises(ChunkUnavailableError, match="no answer"):
            storage.stat("a")
    with pytest.raises(StorageSuspendedError, match="not sent") as caught:
        storage.create("a", [b"bytes"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    service.answers.set()
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        try:
            storage.create("a", [b"bytes"])
            break
        except StorageSuspendedError:
            time.sleep(0.001)  # the threads are returning
    assert storage.stat("a").length == 5


def test_closing_does_not_wait_for_a_close_that_hangs(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.core.storage.deadline.END_S", 0.01)
    service.silent = {"close"}
    service.storage.close()
    assert not service.answers.is_set()


def test_a_listing_comes_page_by_page_and_whole(service: Service) -> None:
    names = [f"{number:05}" for number in range(2 * PAGE_COUNT + 1)]
    for name in names:
        service.create(name, [b"x"])
    assert [found.name for found in service.storage.list("")] == names


def test_work_of_a_stop_stays_on_its_thread_and_is_given_up_by_its_waiter(
    service: Service,
) -> None:
    service.create("a", [b"bytes"])
    storage, stop = service.storage, Stop()
    service.threads.clear()
    stop.run(lambda: storage.stat("a"))
    assert service.threads == [threading.get_ident()]
    assert not stop.calls

    service.silent = {"stat"}
    worker = threading.Thread(target=lambda: stop.run(lambda: storage.stat("a")), daemon=True)
    worker.start()
    while not service.clock.added_s:
        time.sleep(0.001)  # it is in flight
    stop.check_calls(0.0)
    with pytest.raises(ChunkUnavailableError, match="no answer before the deadline"):
        stop.check_calls(service.clock.monotonic())
    service.answers.set()
    worker.join(WAIT_S)
    assert not stop.calls
