"""What the checks are made on: one service, clients of it, and a view that bypasses them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import pytest

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import ClosedError
from siltstone.testing.deviations import Deviation, expect_deviation

T = TypeVar("T")

NO_BUFFERS = [b"bytes", bytearray(b"x"), memoryview(b"x"), "text", ["text"], [None], [1], None, 7]
"""What is no sequence of buffers."""

TURN_S = 1e-6
"""How long a thread continues while another one wants to run."""

START_S = 120.0
"""How long the threads of calls at the same time may take to be there."""


class ChunkService(Protocol):
    """One service with nothing in it, made again for each check.

    The ``outside`` methods must not go through the storage under test: they use the folder, the
    bucket or another client library. What they did is visible to every client on return.
    """

    def open(self) -> ChunkStorage:
        """Return another client of the same service."""
        ...

    def outside_read(self, name: str) -> bytes | None:
        """Return what the service holds under ``name``, or ``None`` if there is nothing."""
        ...

    def outside_names(self) -> Sequence[str]:
        """Return all names, in any order."""
        ...

    def outside_write(self, name: str, content: bytes) -> None:
        """Put a chunk there, as another program would."""
        ...


@runtime_checkable
class StoppableService(ChunkService, Protocol):
    """A service that a check may stop. Those that cannot be stopped skip what needs it."""

    def stop(self) -> None:
        """Let the service answer no request, or every one with a failure, until ``start``."""
        ...

    def start(self) -> None:
        """Let it answer again, with all that it had. Does nothing if it answers."""
        ...


@dataclass(frozen=True, slots=True)
class Raised:
    """What a call raised instead of returning."""

    error: BaseException


class ChunkSubject:
    """The fixtures and the few verbs that all checks share.

    Attributes:
        missing: the capabilities that this service lacks, by name; a check makes sure that exactly
            these are skipped.
        deviations: checks that are known not to hold for the service, and why; a check makes sure
            that they still do not.
        secrets: what must be shown nowhere, such as the password that the storage got.
        listed_count: how many chunks the check of a long listing makes; more than a page holds.
        large_bytes: the length of a large chunk, in bytes.
        name_bytes_max: the longest name that fits, 1,024 but below a prefix.
        is_alone: nothing else uses the service, so that its used space can be compared exactly.
        tries_after_stop: how many calls may be needed until one is answered when the service is
            back; more than one where a client can learn only from a call that its connection ended.
        model_runs: how many random runs are compared with the model, of up to 30 calls each.
    """

    missing: ClassVar[frozenset[str]] = frozenset()
    deviations: ClassVar[Sequence[Deviation]] = ()
    secrets: ClassVar[Sequence[str]] = ()
    listed_count: ClassVar[int] = 25
    large_bytes: ClassVar[int] = 4 << 20
    name_bytes_max: ClassVar[int] = 1_024
    is_alone: ClassVar[bool] = True
    tries_after_stop: ClassVar[int] = 1
    model_runs: ClassVar[int] = 20

    @pytest.fixture(autouse=True)
    def _deviation(self, request: pytest.FixtureRequest) -> None:
        """Expect a check to fail that is known to; one that holds again is an error."""
        expect_deviation(request, self.deviations)

    @pytest.fixture
    def service(self) -> ChunkService:
        """Make the service. A subclass overrides this."""
        raise NotImplementedError("a subclass of the contract gives the fixture 'service'")

    @pytest.fixture
    def storage(self, service: ChunkService) -> Iterator[ChunkStorage]:
        """One client; whatever a check did, it lists in the end what the service holds."""
        storage = service.open()
        yield storage
        try:
            listed = {chunk.name: chunk.length for chunk in storage.list()}
        except ClosedError:
            return
        assert sorted(listed) == sorted(service.outside_names())
        for name, length in listed.items():
            assert length == len(service.outside_read(name) or b""), name
        storage.close()


def need(storage: ChunkStorage, capability: str) -> None:
    """Skip the check, naming what the service lacks."""
    if not getattr(storage.capabilities, capability):
        pytest.skip(f"missing capability: {capability}")


def need_missing(storage: ChunkStorage, capability: str) -> None:
    """Skip the check that is for services without a capability."""
    if getattr(storage.capabilities, capability):
        pytest.skip(f"has the capability: {capability}")


def read(storage: ChunkStorage, name: str, offset: int = 0, length: int = 1 << 20) -> bytes:
    """Read up to ``length`` bytes."""
    buffer = bytearray(length)
    return bytes(buffer[: storage.read_into(name, offset, buffer)])


def names(storage: ChunkStorage, prefix: str = "", start_after: str = "") -> list[str]:
    """List the names."""
    return [chunk.name for chunk in storage.list(prefix, start_after)]


def fill(storage: ChunkStorage, *keys: str, content: Sequence[Buffer] = (b"x",)) -> None:
    """Create chunks."""
    for key in keys:
        storage.create(key, content)


def at_once(calls: Sequence[Callable[[], T]]) -> list[T | Raised]:
    """Run each call on a thread of its own; return results and errors in the order of the calls.

    No call is made before every thread is there, so that they meet on a busy machine, too. They
    take turns as often as Python lets them, so that they meet within calls that never wait.
    """
    start = Barrier(len(calls))

    def run(call: Callable[[], T]) -> T | Raised:
        start.wait(START_S)
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - handed to the check, which looks at it
            return Raised(error)

    with ThreadPoolExecutor(len(calls)) as pool, _short_turns():
        return list(pool.map(run, calls))


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let another thread of Python continue after some microseconds, and not only after 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
