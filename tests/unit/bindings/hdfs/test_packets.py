"""A range comes in packets, and is taken only when they are exactly what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.errors import ChunkUnavailableError, Outcome

CONTENT = bytes(range(100))


class Reader:
    """A file of 100 bytes that is sent in given packets.

    Attributes:
        asked: the ranges that were asked for.
        is_ended: the end of the last answer was asked for.
    """

    def __init__(self, packets: Sequence[bytes], error: Exception | None = None) -> None:
        self.asked: list[tuple[int, int]] = []
        self.is_ended = False
        self._packets = packets
        self._error = error

    def reader(self) -> Reader:
        return self

    def read(self, path: str) -> Reader:
        return self

    def file_length(self) -> int:
        return len(CONTENT)

    def read_range_stream(self, offset: int, length: int) -> Iterator[bytes]:
        self.asked.append((offset, length))
        yield from self._packets
        if self._error is not None:
            raise self._error
        self.is_ended = True


def read(reader: Any, offset: int, length: int) -> bytes:
    storage = HdfsChunkStorage(HdfsSettings(namenode="hdfs://127.0.0.1:1", path="/a"))
    storage.service.clients = reader
    buffer = bytearray(length)
    try:
        return bytes(buffer[: storage.read_into("b", offset, buffer)])
    finally:
        storage.close()


@pytest.mark.parametrize("size", [1, 7, 50, 64])
def test_packets_of_any_size_are_put_one_behind_the_other(size: int) -> None:
    wanted = CONTENT[20:70]
    reader = Reader([wanted[at : at + size] for at in range(0, 50, size)])
    assert read(reader, 20, 50) == wanted
    assert reader.asked == [(20, 50)]
    # Before that the client does not use the connection again.
    assert reader.is_ended


def test_nothing_is_asked_for_at_the_end() -> None:
    # The client panics there.
    class Status:
        isdir, length = False, len(CONTENT)

    reader = Reader([])
    reader.get_file_info = lambda path: Status  # type: ignore[attr-defined]
    assert read(reader, 100, 10) == b""
    assert reader.asked == []


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        ([CONTENT[:30]], "broke off"),
        ([], "broke off"),
        ([CONTENT[:30], b"", CONTENT[30:]], "broke off"),
        ([CONTENT, b"x"], "more came"),
        ([CONTENT[:30], CONTENT], "more came"),
    ],
)
def test_an_answer_that_is_not_the_range_is_none(packets: list[bytes], reason: str) -> None:
    with pytest.raises(ChunkUnavailableError, match=reason) as caught:
        read(Reader(packets), 0, 100)
    assert caught.value.outcome is Outcome.NOT_APPLIED


def test_an_error_between_packets_is_translated() -> None:
    with pytest.raises(ChunkUnavailableError, match="no whole answer"):
        read(Reader([CONTENT[:30]], RuntimeError("broken pipe")), 0, 100)
