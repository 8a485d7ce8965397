"""Bytes that arrive after the caller has left are not put into a buffer that is used again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline


class LateReader:
    """A file whose bytes come only when the test releases them."""

    def __init__(self, length: int) -> None:
        self.proceed = threading.Event()
        self._length = length

    def file_length(self) -> int:
        return self._length

    def read_range(self, offset: int, length: int) -> bytes:
        return b"".join(self.read_range_stream(offset, length))

    def read_range_stream(self, offset: int, length: int) -> Iterator[bytes]:
        self.proceed.wait(120)
        yield b"x" * length


class LateClients:
    def __init__(self, reader: LateReader) -> None:
        self._reader = reader

    def reader(self) -> LateClients:
        return self

    def read(self, path: str) -> LateReader:
        return self._reader


@pytest.mark.parametrize("length", [10, 200 * KIB])
def test_a_late_answer_leaves_the_buffer_alone(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = HdfsSettings(namenode="hdfs://127.0.0.1:1", path="/a", deadline_s=0.2)
    storage, reader = HdfsChunkStorage(settings), LateReader(length)
    clients: Any = LateClients(reader)
    storage.service.clients = clients
    buffer = bytearray(length)
    with pytest.raises(ChunkUnavailableError):
        storage.read_into("b", 0, buffer)
    buffer[:] = used_again = b"used again" * (length // 10)
    calls = storage.service._calls
    assert len(calls._hanging) == 1, "the call continues by itself"
    reader.proceed.set()
    until = time.monotonic() + 120
    while calls._hanging and time.monotonic() < until:
        time.sleep(0.001)
    assert not calls._hanging
    assert buffer == used_again
    monkeypatch.setattr(storage.service, "deadline", lambda _: Deadline(120))
    assert storage.read_into("b", 0, buffer) == length
    assert buffer == b"x" * length
    storage.close()
