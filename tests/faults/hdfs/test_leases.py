"""Files that another writer has open: read, taken over, and sealed, on a real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from services.hdfs import COPIES, Hdfs
from services.server import Server
from siltstone.bindings.hdfs import writes
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.clients import Clients, FileWriter
from siltstone.bindings.hdfs.web import copies_told
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkOffsetError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.deadline import Deadline
from tests.support.services.hdfs_services import HdfsService

LOST = r"DataTransferError|[Ll]ease|open files|not UNDER_CONSTRUCTION"
"""What the SDK says to a client that no longer has the file open."""
FIRST, SECOND, NEXT = b"first" * 1_000, b"second" * 1_000, b"next" * 1_000


class Holder:
    """Another writer, who has appended and synced, and does not close."""

    def __init__(self, storage: HdfsChunkStorage, path: str) -> None:
        self._client = storage.service.client
        self._path = path
        self._writer: Any = None

    def open(self, content: bytes) -> None:
        self._writer = self._client.append(self._path)
        self.add(content)

    def add(self, content: bytes) -> None:
        self._writer.write(content)
        self._writer.hsync()

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
def service(hdfs: Hdfs) -> HdfsService:
    return HdfsService(server=hdfs, more={"unsafe_append": True})


def storage_of(service: HdfsService, **more: Any) -> HdfsChunkStorage:
    return HdfsChunkStorage(service.settings.model_copy(update=more))


@pytest.fixture
def holder(service: HdfsService) -> Iterator[Holder]:
    storage = storage_of(service)
    storage.create("a", [FIRST])
    wait_for_copies(service)
    holder = Holder(storage, f"{service.path}/a")
    holder.open(SECOND)
    yield holder
    storage.close()


def wait_for_copies(service: HdfsService) -> None:
    """The binding does so before each append."""
    while copies_told(service.settings, f"{service.path}/a", Deadline(30)) < COPIES:
        time.sleep(0.01)


def read(storage: HdfsChunkStorage, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    return bytes(buffer[: storage.read_into("a", offset, buffer)])


def test_what_was_synced_is_read_while_the_file_is_open(
    service: HdfsService, holder: Holder
) -> None:
    storage = storage_of(service, lease_wait_s=3_600)
    whole = FIRST + SECOND
    assert storage.stat("a").length == len(whole)
    assert [found.length for found in storage.list()] == [len(whole)]
    for offset, length in ((0, 10), (0, 10**6), (len(FIRST) - 5, 10), (len(whole) - 1, 99)):
        assert read(storage, offset, length) == whole[offset : offset + length]
    assert read(storage, len(whole), 10) == b""
    with pytest.raises(ChunkOffsetError) as caught:
        read(storage, len(whole) + 1, 10)
    assert caught.value.expected == len(whole)
    holder.add(b"more")
    assert read(storage, len(whole), 10) == b"more"
    holder.close()
    assert read(storage, 0, 10**6) == whole + b"more"
    storage.close()


def test_without_webhdfs_a_reader_waits_for_the_writer(
    service: HdfsService, holder: Holder
) -> None:
    storage = storage_of(service, webhdfs=(), lease_wait_s=3_600)
    timer = threading.Timer(0.1, holder.close)
    timer.start()
    assert read(storage, 0, 10**6) == FIRST + SECOND
    timer.join()
    storage.close()


def test_a_dead_writer_does_not_block_readers(service: HdfsService, holder: Holder) -> None:
    storage = storage_of(service, webhdfs=(), lease_wait_s=0.05)
    assert read(storage, 0, 10**6) == FIRST + SECOND
    with pytest.raises(Exception, match=LOST):
        holder.add(b"too late")
    assert read(storage, 0, 10**6) == FIRST + SECOND
    storage.close()


def test_a_chunk_is_taken_over_from_a_dead_writer(service: HdfsService, holder: Holder) -> None:
    storage = storage_of(service, lease_wait_s=0.05)
    length = len(FIRST + SECOND)
    storage.write("a", length, [b"mine"])
    with pytest.raises(Exception, match=LOST):
        holder.add(b"too late")
    assert service.outside_read("a") == FIRST + SECOND + b"mine"
    storage.close()


def test_a_seal_binds_the_writer_of_an_open_chunk(service: HdfsService, holder: Holder) -> None:
    storage = storage_of(service)
    storage.seal("a")
    with pytest.raises(Exception, match=LOST):
        holder.add(b"too late")
    with pytest.raises(ChunkAccessDeniedError):
        storage.write("a", len(FIRST + SECOND), [b"x"])
    assert service.outside_read("a") == FIRST + SECOND
    status = service.raw.status("a")
    assert status is not None
    assert status["permission"] == "444"
    storage.close()


def test_calls_to_silent_servers_end_in_time(service: HdfsService, hdfs: Hdfs) -> None:
    """What was sent to them comes late, but never after what was acknowledged since."""
    for silent in (hdfs.datanodes, (hdfs,)):
        storage = storage_of(service, lease_wait_s=0.1)
        storage.create("a", [FIRST])
        wait_for_copies(service)
        storage.service._deadline_s = 0.5
        with stopped(silent):
            check_that_calls_end(storage)
        storage.service._deadline_s = 60
        assert read(storage, 0, len(FIRST)) == FIRST
        acknowledged = write_next(storage, FIRST, (SECOND,))
        time.sleep(0.5)
        acknowledged = write_next(storage, acknowledged)
        assert service.outside_read("a") == acknowledged
        storage.create("c", [SECOND])
        for name in ("a", "c"):
            storage.delete(name)
        storage.close()


def check_that_calls_end(storage: HdfsChunkStorage) -> None:
    for call, outcome in (
        (lambda: storage.write("a", len(FIRST), [SECOND]), Outcome.UNKNOWN),
        (lambda: storage.create("b", [SECOND]), Outcome.UNKNOWN),
        (lambda: read(storage, 0, 10), Outcome.NOT_APPLIED),
    ):
        begun = time.monotonic()
        with pytest.raises(ChunkUnavailableError) as caught:
            call()
        assert caught.value.outcome is outcome
        assert time.monotonic() - begun < 50


def write_next(storage: HdfsChunkStorage, known: bytes, sent: Sequence[bytes] = ()) -> bytes:
    """Append to ``a``, wherever it ends by now; return all of it.

    Args:
        storage: which has the chunk.
        known: what it begins with.
        sent: what may follow then, whole or in part, because the outcome of its write is unknown.
    """
    until, tried = time.monotonic() + 90, [*sent]
    while True:
        length = storage.stat("a").length
        try:
            storage.write("a", length, [NEXT])
        except (ChunkOffsetError, ChunkUnavailableError) as error:
            if time.monotonic() > until:
                raise
            if error.outcome is Outcome.UNKNOWN:
                tried.append(NEXT)
            time.sleep(0.05)
        else:
            found = read(storage, 0, 10**6)
            assert found.startswith(known)
            assert found.endswith(NEXT)
            between = found[len(known) : -len(NEXT)]
            for content in tried:
                pairs = enumerate(zip(between, content, strict=False))
                shared = min(len(between), len(content))
                between = between[
                    next((at for at, (one, other) in pairs if one != other), shared) :
                ]
            assert not between
            return found


@contextmanager
def stopped(servers: Sequence[Server]) -> Iterator[None]:
    for server in servers:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            os.kill(server.pid, signal.SIGCONT)


def test_a_chunk_that_lacks_copies_is_not_appended_to(
    service: HdfsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is reported later would be shorter, and would count as a good one."""
    monkeypatch.setattr(writes, "COPIES_WAIT_S", 0.05)
    storage = storage_of(service, replication=COPIES + 1)
    storage.create("a", [FIRST])
    with pytest.raises(ChunkUnavailableError, match="copies of the chunk are missing") as caught:
        storage.write("a", len(FIRST), [SECOND])
    assert caught.value.outcome is Outcome.UNKNOWN, "so that the store continues elsewhere"
    assert service.outside_read("a") == FIRST
    storage.close()


class Overtaken:
    """The clients of a process, where another writer appends just before each append."""

    def __init__(self, real: Clients, act: Callable[[], None]) -> None:
        self._real = real
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def writer(self, path: str) -> FileWriter:
        found = self._real.writer(path)
        client: Any = SimpleNamespace(
            append=lambda path: (self._act(), found.client.append(path))[1]
        )
        return FileWriter(found.number, client)


def test_an_overtaken_writer_writes_nothing(service: HdfsService) -> None:
    storage = storage_of(service)
    storage.create("a", [FIRST])
    wait_for_copies(service)
    clients: Any = Overtaken(storage.service.clients, lambda: service.raw.append("a", NEXT))
    storage.service.clients = clients
    with pytest.raises(ChunkOffsetError) as caught:
        storage.write("a", len(FIRST), [SECOND])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert caught.value.expected == len(FIRST + NEXT)
    assert service.outside_read("a") == FIRST + NEXT
    assert storage_of(service).stat("a").length == len(FIRST + NEXT)
    storage.close()


def test_a_late_close_does_not_end_the_file_of_another_writer(service: HdfsService) -> None:
    """With one copy, the client closes a new file again after half a second."""
    storage = storage_of(service, replication=1)
    for number in range(20):
        path = f"{service.path}/{number}"
        storage.service._deadline_s = 0.3
        is_given_up = not is_made(storage, str(number))
        begun = time.monotonic()
        storage.service._deadline_s = 60
        while path in storage.service.unclosed:
            time.sleep(0.001)
        # Not if it was given up before it was synced: that happens while the server is new.
        if is_given_up and service.outside_read(str(number)) == FIRST:
            break
    name = path.rpartition("/")[2]
    # As the next write does, but slowly.
    writer = storage.service.clients.writer(path).client.append(path)
    writer.write(SECOND)
    time.sleep(max(0, begun + 1 - time.monotonic()))
    writer.hsync()
    writer.close()
    assert service.outside_read(name) == FIRST + SECOND
    storage.write(name, len(FIRST + SECOND), [NEXT])
    assert service.outside_read(name) == FIRST + SECOND + NEXT
    storage.close()


def is_made(storage: HdfsChunkStorage, name: str) -> bool:
    try:
        storage.create(name, [FIRST])
    except ChunkUnavailableError:
        return False
    return True
