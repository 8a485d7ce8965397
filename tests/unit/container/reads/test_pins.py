"""Pins as an owner reads them: which ones promise something, and which version is the oldest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.reads.pin_watch import GRACE_S, PinWatch
from siltstone.container.reads.pins import FoundPin, list_pins
from siltstone.core.chunk_names import claim_file
from siltstone.core.errors import ChunkError, CorruptDataError
from siltstone.core.records.pin import PIN_BYTES, Pin, encode_pin
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage
from siltstone.testing.virtual_time import START_S, VirtualEnvironment

T = TypeVar("T")

LINEAGE, OTHER = bytes(16), bytes([1] * 16)
NOW_MS = int(START_S * 1000)
CONTAINER = 1


def pin(version: int, *, expires_ms: int = NOW_MS + 1, lineage: bytes = LINEAGE) -> Pin:
    return Pin(lineage=lineage, version=version, expires_ms=expires_ms)


class Service:
    """Long-term storage with pins on it, and the owner of the container they are of.

    Attributes:
        time_s: the clock of the service, seconds since 1970.
    """

    def __init__(self, pins: dict[str, Pin]) -> None:
        self.environment = VirtualEnvironment()
        self.time_s: float = START_S
        self.storage = FaultyChunkStorage(MemoryChunkStorage(Bucket(), clock=lambda: self.time_s))
        self.new_owner()
        for name, found in pins.items():
            self.storage.inner.create(f"system/pins/{name}", [encode_pin(found)])

    def new_owner(self, epoch: int = 1) -> None:
        """Another process owns the container from now on, by a claim that it makes now."""
        self.bridge = AsyncChunkStorage(self.storage, self.environment, threads=1)
        self.watch = PinWatch(self.bridge, self.environment, CONTAINER, epoch)
        self.storage.inner.create(claim_file(CONTAINER, epoch), [b"claim"])

    def later(self, seconds: float) -> None:
        """Time passes, for this machine and for the service."""
        self.environment.clock.now += seconds
        self.time_s += seconds

    def ask(self, question: Callable[[AsyncChunkStorage], Awaitable[T]]) -> T:
        bridge = self.bridge

        async def asked() -> T:
            return await question(bridge)

        with self.environment.runner() as runner:
            return runner.run(asked())

    def all(self) -> list[FoundPin]:
        return self.ask(lambda storage: list_pins(storage, CONTAINER))

    def living(self) -> list[int]:
        found = self.ask(lambda _: self.watch.living(LINEAGE))
        return [each.pin.version for each in found]

    def oldest(self) -> int | None:
        return self.ask(lambda _: self.watch.oldest(LINEAGE))


def test_all_pins_of_a_container_and_none_of_another_are_listed() -> None:
    pins = {
        "1-b": pin(7),
        "1-a": pin(9, lineage=OTHER),
        "1-c": pin(5, expires_ms=0),
        "10-x": pin(1),
        "11-x": pin(1),
        "0-x": pin(1),
        "1": pin(1),
    }
    assert Service(pins).all() == [
        FoundPin(
            name=f"system/pins/{name}",
            length=len(encode_pin(pins[name])),
            pin=pins[name],
            modified_s=START_S,
        )
        for name in ("1-a", "1-b", "1-c")
    ]


@pytest.mark.parametrize(("expires_ms", "lives"), [(NOW_MS, False), (NOW_MS + 1, True)])
def test_a_pin_of_version_1_promises_until_it_expires(expires_ms: int, lives: bool) -> None:
    service = Service({"1-a": pin(3, expires_ms=expires_ms)})
    assert service.living() == ([3] if lives else [])
    assert service.oldest() == (3 if lives else None)


def test_a_pin_of_another_lineage_promises_nothing() -> None:
    assert Service({"1-a": pin(3, lineage=OTHER)}).oldest() is None


@pytest.mark.parametrize("versions", [(4, 7, 9), (9, 4, 7), (7, 9, 4), (4,)])
def test_the_oldest_of_all_counts(versions: tuple[int, ...]) -> None:
    pins = {f"1-{number}": pin(version) for number, version in enumerate(versions)}
    pins |= {"1-x": pin(1, lineage=OTHER), "1-y": pin(2, expires_ms=NOW_MS)}
    assert Service(pins).oldest() == 4


def test_a_pin_that_goes_while_it_is_read_hides_none_after_it() -> None:
    service = Service({"1-a": pin(3), "1-b": pin(2), "1-c": pin(1)})

    def removed(operation: str, name: str) -> None:
        if operation == "read_into" and name.endswith("1-b"):
            service.storage.inner.delete(name)

    service.storage.before = removed
    assert service.living() == [3, 1]


def test_a_damaged_pin_is_named_and_allows_nothing() -> None:
    service = Service({"1-a": pin(3)})
    service.storage.inner.create("system/pins/1-b", [b"what is this"])
    for question in (service.all, service.living, service.oldest):
        with pytest.raises(CorruptDataError, match="system/pins/1-b"):
            question()


TTL_S = 3_600.0


def timed(version: int, *, behind_s: float = 0.0) -> Pin:
    """A pin for an hour, made by a process whose clock is behind by ``behind_s``."""
    ttl_ms = int(TTL_S * 1000)
    expires_ms = NOW_MS + ttl_ms - int(behind_s * 1000)
    return Pin(lineage=LINEAGE, version=version, expires_ms=expires_ms, ttl_ms=ttl_ms)


CLOCKS = [0.0, 7_200.0, 1.6e9, -7_200.0, -3e8]


@pytest.mark.parametrize("behind_s", CLOCKS)
def test_a_pin_lives_for_its_time_whatever_the_clock_of_its_maker_says(behind_s: float) -> None:
    service = Service({"1-a": timed(3, behind_s=behind_s)})
    for _ in range(6):
        assert service.living() == [3]
        service.later(TTL_S / 6)
    assert service.living() == []


@pytest.mark.parametrize("ahead_s", [7_200.0, 3e8, -7_200.0, -1.6e9])
def test_a_pin_lives_for_its_time_whatever_the_clock_of_the_owner_does(ahead_s: float) -> None:
    service = Service({"1-a": timed(3)})
    time = service.environment.time
    assert service.living() == [3]
    service.environment.time = lambda: time() + ahead_s  # type: ignore[method-assign]
    service.later(TTL_S / 2)
    assert service.living() == [3]
    service.later(TTL_S / 2)
    assert service.living() == []


def test_a_pin_that_is_made_again_lives_on() -> None:
    service = Service({"1-a": timed(3)})
    for number in range(5):
        service.later(TTL_S / 2)
        assert service.living() == [3]
        service.storage.inner.create(f"system/pins/1-{number}", [encode_pin(timed(3))])
        old = "a" if number == 0 else str(number - 1)
        service.storage.inner.delete(f"system/pins/1-{old}")
    assert service.living() == [3]


def test_an_owner_who_never_saw_a_pin_goes_by_the_clock_of_storage_and_a_day() -> None:
    """Otherwise owners that each live briefly would hold for ever what a dead process pinned."""
    service = Service({"1-a": timed(3, behind_s=1e9)})
    for epoch in range(2, 8):
        service.new_owner(epoch)
        assert service.living() == [3]
        service.later((TTL_S + GRACE_S) / 6)
    service.new_owner(8)
    assert service.living() == []


def test_without_times_of_storage_the_expiry_counts_and_a_day() -> None:
    service = Service({})
    service.time_s = 0.0
    service.storage.inner.create("system/pins/1-a", [encode_pin(timed(3, behind_s=-600))])
    service.storage.inner.create("system/pins/1-b", [encode_pin(timed(5, behind_s=GRACE_S * 2))])
    assert service.living() == [3]


def test_a_claim_that_a_newer_owner_removed_leaves_the_time_of_this_machine() -> None:
    service = Service({"1-a": timed(3)})
    service.storage.inner.delete(claim_file(CONTAINER, 1))
    assert service.living() == [3]


def test_a_reader_shows_a_pin_until_its_time_is_over() -> None:
    service = Service({"1-a": timed(3)})
    for later_s, expected in ((0.0, [3]), (TTL_S - 1, [3]), (1.0, [])):
        service.later(later_s)
        watch = PinWatch(service.bridge, service.environment, CONTAINER, None)
        found = service.ask(lambda _, watch=watch: watch.living(LINEAGE))  # type: ignore[misc]
        assert [each.pin.version for each in found] == expected


@pytest.mark.parametrize("length", [1, 4, 11, 12, PIN_BYTES - 1])
def test_a_pin_whose_create_has_not_ended_promises_nothing_yet(length: int) -> None:
    """A folder shows a file before its bytes; a process that dies then must not hold garbage."""
    service = Service({"1-a": pin(3)})
    service.storage.inner.create("system/pins/1-b", [encode_pin(timed(1))[:length]])
    assert service.living() == [3]


def test_a_pin_that_is_finished_after_the_listing_promises_what_it_says() -> None:
    service = Service({"1-a": pin(3)})
    name, data = "system/pins/1-b", encode_pin(pin(1))
    service.storage.inner.create(name, [data[:5]])

    def finished(operation: str, read: str) -> None:
        if operation == "read_into" and read == name:
            service.storage.inner.write(name, 5, [data[5:]])

    service.storage.before = finished
    assert service.living() == [3, 1]


@pytest.mark.parametrize("operation", ["list", "read_into"])
def test_without_an_answer_nothing_is_known(operation: str) -> None:
    service = Service({"1-a": pin(3)})
    service.storage.plan = lambda call: Fate.REFUSED if call.operation == operation else Fate.DONE
    with pytest.raises(ChunkError, match="injected"):
        service.oldest()
