"""A range comes in packets, and is accepted only when they are exactly what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkUnavailableError, Outcome

UNIT = 4 * KIB
CONTENT = bytes(range(100)) * UNIT
"""A hundred units; half of them are too many for one call."""


class Reader:
    """A file that is sent in the given packets.

    Attributes:
        asked: the ranges that were asked for.
        calls: the calls that asked for them.
        is_ended: whether the end of the last answer was asked for.
    """

    def __init__(self, packets: Sequence[bytes], error: Exception | None = None) -> None:
        self.asked: list[tuple[int, int]] = []
        self.calls: set[str] = set()
        self.is_ended = False
        self._packets = packets
        self._error = error

    def reader(self) -> Reader:
        return self

    def read(self, path: str) -> Reader:
        return self

    def file_length(self) -> int:
        return len(CONTENT)

    def read_range(self, offset: int, length: int) -> bytes:
        self.calls.add("read_range")
        return b"".join(self._sent(offset, length))

    def read_range_stream(self, offset: int, length: int) -> Iterator[bytes]:
        self.calls.add("read_range_stream")
        return self._sent(offset, length)

    def _sent(self, offset: int, length: int) -> Iterator[bytes]:
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
def test_packets_of_any_size_are_put_one_after_the_other(size: int) -> None:
    wanted = CONTENT[20 * UNIT : 70 * UNIT]
    reader = Reader([wanted[at : at + size * UNIT] for at in range(0, len(wanted), size * UNIT)])
    assert read(reader, 20 * UNIT, 50 * UNIT) == wanted
    assert reader.asked == [(20 * UNIT, 50 * UNIT)]
    assert reader.calls == {"read_range_stream"}
    # Before that the client does not use the connection again.
    assert reader.is_ended


def test_few_bytes_come_by_one_call() -> None:
    reader = Reader([CONTENT[20:90], CONTENT[90:120]])
    assert read(reader, 20, 100) == CONTENT[20:120]
    assert reader.asked == [(20, 100)]
    assert reader.calls == {"read_range"}


def test_nothing_is_asked_for_at_the_end() -> None:
    # The client panics there.
    class Status:
        isdir, length = False, len(CONTENT)

    reader = Reader([])
    reader.get_file_info = lambda path: Status  # type: ignore[attr-defined]
    assert read(reader, len(CONTENT), 10) == b""
    assert reader.asked == []


@pytest.mark.parametrize("unit", [1, UNIT])
@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ([30], "broke off"),
        ([], "broke off"),
        ([100, 1], "more came"),
        ([30, 100], "more came"),
    ],
)
def test_an_answer_that_is_not_the_range_is_none(
    lengths: list[int], reason: str, unit: int
) -> None:
    with pytest.raises(ChunkUnavailableError, match=reason) as caught:
        read(Reader([CONTENT[: length * unit] for length in lengths]), 0, 100 * unit)
    assert caught.value.outcome is Outcome.NOT_APPLIED


def test_an_empty_packet_ends_an_answer() -> None:
    with pytest.raises(ChunkUnavailableError, match="broke off"):
        read(Reader([CONTENT[:UNIT], b"", CONTENT[UNIT:]]), 0, len(CONTENT))


@pytest.mark.parametrize("unit", [1, UNIT])
def test_an_error_between_packets_is_translated(unit: int) -> None:
    with pytest.raises(ChunkUnavailableError, match="no whole answer"):
        read(Reader([CONTENT[: 30 * unit]], RuntimeError("broken pipe")), 0, 100 * unit)
