"""Checks of the callers' memory: nothing is changed, kept or written beyond."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import mmap
from array import array
from typing import Any

import pytest

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import ChunkNotFoundError, ChunkOffsetError
from siltstone.testing.chunk_checks.subject import (
    NO_BUFFERS,
    ChunkService,
    ChunkSubject,
    need,
    read,
)

GAPS = memoryview(bytes(10))[::2]
NUMBERS = memoryview(array("I", [1, 2, 3]))


class BufferChecks(ChunkSubject):
    """What callers hand in stays theirs."""

    def test_create_changes_no_buffer(self, storage: ChunkStorage) -> None:
        buffers: list[Buffer] = [bytearray(b"abc"), b"", memoryview(bytearray(b"def"))]
        kept = list(buffers)
        storage.create("a", buffers)
        assert [bytes(buffer) for buffer in buffers] == [b"abc", b"", b"def"]
        assert all(one is other for one, other in zip(buffers, kept, strict=True))

    def test_write_changes_no_buffer(self, storage: ChunkStorage) -> None:
        need(storage, "append")
        storage.create("a", [b"x"])
        buffers: list[Buffer] = [bytearray(b"abc"), b"", memoryview(bytearray(b"def"))]
        kept = list(buffers)
        storage.write("a", 1, buffers)
        assert [bytes(buffer) for buffer in buffers] == [b"abc", b"", b"def"]
        assert all(one is other for one, other in zip(buffers, kept, strict=True))

    def test_create_lets_views_be_released(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        with mmap.mmap(-1, 4_096) as memory:
            memory[:3] = b"abc"
            view = memoryview(memory)
            part = view[:3]
            storage.create("a", [part])
            part.release()
            view.release()
        assert service.outside_read("a") == b"abc"

    @pytest.mark.parametrize("view", [GAPS, NUMBERS], ids=["gaps", "numbers"])
    def test_create_refuses_views_that_are_no_plain_bytes(
        self, storage: ChunkStorage, service: ChunkService, view: memoryview
    ) -> None:
        with pytest.raises(ValueError, match="buffer"):
            storage.create("a", [view])
        assert not service.outside_names()

    @pytest.mark.parametrize("buffers", NO_BUFFERS)
    def test_write_refuses_what_is_no_sequence_of_buffers(
        self, storage: ChunkStorage, service: ChunkService, buffers: Any
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        with pytest.raises(TypeError):
            storage.write("a", 3, buffers)
        assert service.outside_read("a") == b"abc"

    @pytest.mark.parametrize("buffer", [b"abc", memoryview(b"abc"), None, [0, 0], "text"])
    def test_read_refuses_what_can_not_be_filled(self, storage: ChunkStorage, buffer: Any) -> None:
        storage.create("a", [b"abc"])
        with pytest.raises(TypeError):
            storage.read_into("a", 0, buffer)

    @pytest.mark.parametrize("view", ["gaps", "numbers"])
    def test_read_refuses_views_that_are_no_plain_bytes(
        self, storage: ChunkStorage, view: str
    ) -> None:
        storage.create("a", [b"abcdefgh"])
        wanted = memoryview(bytearray(8))[::2] if view == "gaps" else memoryview(array("I", [1, 2]))
        with pytest.raises(ValueError, match="buffer"):
            storage.read_into("a", 0, wanted)

    def test_read_fills_memory_of_other_kinds(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"0123456789"])
        numbers = array("B", bytes(4))
        assert storage.read_into("a", 2, memoryview(numbers)) == 4
        assert numbers.tobytes() == b"2345"
        with mmap.mmap(-1, 4_096) as memory, memoryview(memory) as view:
            with view[1:4] as part:
                assert storage.read_into("a", 7, part) == 3
            assert bytes(view[:5]) == b"\x00789\x00"

    def test_read_keeps_no_buffer(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        buffer = bytearray(3)
        storage.read_into("a", 0, buffer)
        buffer.extend(b"a buffer that is still exported cannot grow")
        storage.delete("a")
        assert buffer.startswith(b"abca")

    def test_a_refused_read_leaves_the_buffer(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        buffer = bytearray(b"....")
        with pytest.raises(ChunkOffsetError):
            storage.read_into("a", 4, buffer)
        with pytest.raises(ChunkNotFoundError):
            storage.read_into("b", 0, buffer)
        assert buffer == b"...."

    def test_what_was_read_stays_what_it_is(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"first"])
        storage.create("b", [b"other"])
        buffer = bytearray(5)
        storage.read_into("a", 0, buffer)
        read(storage, "b")
        storage.delete("a")
        assert buffer == b"first"
