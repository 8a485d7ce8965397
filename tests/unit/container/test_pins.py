"""Pins as an owner reads them: which promise something, and which version is the oldest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.pins import FoundPin, list_pins, living_pins, oldest_pin
from siltstone.core.errors import ChunkError, CorruptDataError
from siltstone.core.records.pin import PIN_BYTES, Pin, encode_pin
from siltstone.core.threads import AsyncChunkStorage
from siltstone.testing.faulty_chunk_storage import Fate, FaultyChunkStorage
from siltstone.testing.virtual_time import START_S, VirtualEnvironment

T = TypeVar("T")

LINEAGE, OTHER = bytes(16), bytes([1] * 16)
NOW_MS = int(START_S * 1000)
CONTAINER = 1


def pin(version: int, *, expires_ms: int = NOW_MS + 1, lineage: bytes = LINEAGE) -> Pin:
    return Pin(lineage=lineage, version=version, expires_ms=expires_ms)


class Service:
    """Long-term storage with pins on it."""

    def __init__(self, pins: dict[str, Pin]) -> None:
        self.environment = VirtualEnvironment()
        self.storage = FaultyChunkStorage(MemoryChunkStorage(Bucket()))
        for name, found in pins.items():
            self.storage.inner.create(f"system/pins/{name}", [encode_pin(found)])

    def ask(self, question: Callable[[AsyncChunkStorage], Awaitable[T]]) -> T:
        bridge = AsyncChunkStorage(self.storage, self.environment, threads=1)

        async def asked() -> T:
            return await question(bridge)

        with self.environment.runner() as runner:
            return runner.run(asked())

    def all(self) -> list[FoundPin]:
        return self.ask(lambda storage: list_pins(storage, CONTAINER))

    def living(self) -> list[int]:
        found = self.ask(lambda s: living_pins(s, self.environment, CONTAINER, LINEAGE))
        return [each.pin.version for each in found]

    def oldest(self) -> int | None:
        return self.ask(lambda s: oldest_pin(s, self.environment, CONTAINER, LINEAGE))


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
        FoundPin(name=f"system/pins/{name}", length=len(encode_pin(pins[name])), pin=pins[name])
        for name in ("1-a", "1-b", "1-c")
    ]


@pytest.mark.parametrize(("expires_ms", "lives"), [(NOW_MS, False), (NOW_MS + 1, True)])
def test_a_pin_promises_until_it_expires(expires_ms: int, lives: bool) -> None:
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


def test_a_pin_that_goes_while_it_is_read_hides_none_behind_it() -> None:
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


@pytest.mark.parametrize("length", [1, 4, 11, 12, PIN_BYTES - 1])
def test_a_pin_whose_create_has_not_ended_promises_nothing_yet(length: int) -> None:
    """A folder shows a file before its bytes; who died meanwhile must not hold all garbage."""
    service = Service({"1-a": pin(3)})
    service.storage.inner.create("system/pins/1-b", [encode_pin(pin(1))[:length]])
    assert service.living() == [3]


def test_a_pin_that_is_finished_behind_the_listing_promises_what_it_says() -> None:
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
