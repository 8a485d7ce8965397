"""Checks of ``create`` and ``write``, by one caller at a time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from typing import Any

import pytest

from siltstone.core.chunk_storage import UNLIMITED, ChunkStorage
from siltstone.core.errors import (
    CapabilityError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    Outcome,
)
from siltstone.testing.chunk_checks.subject import (
    NO_BUFFERS,
    ChunkService,
    ChunkSubject,
    need,
    need_missing,
    read,
)

NOTHING: list[list[Any]] = [[], [b""], [b"", bytearray(), memoryview(b"")]]
MANY = 3_000
"""More buffers than one vectored call takes (1,024 on Linux), and no multiple of that."""


class CreateChecks(ChunkSubject):
    """A chunk is made once, with all its first bytes."""

    def test_create_makes_the_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        storage.create("a/b", [b"first"])
        assert service.outside_read("a/b") == b"first"
        assert list(service.outside_names()) == ["a/b"]

    def test_create_joins_all_kinds_of_buffers(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        whole = bytearray(b"__cd__")
        storage.create("a", [b"ab", memoryview(whole)[2:4], b"", bytearray(b"ef"), whole[:0]])
        assert service.outside_read("a") == b"abcdef"

    def test_create_takes_a_tuple(self, storage: ChunkStorage, service: ChunkService) -> None:
        storage.create("a", (b"a", b"b"))
        assert service.outside_read("a") == b"ab"

    def test_create_takes_very_many_buffers(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        parts = [b"%d," % number for number in range(MANY)]
        storage.create("a", parts)
        assert service.outside_read("a") == b"".join(parts)

    def test_create_of_a_large_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        content = bytes(range(256)) * (
            min(self.large_bytes, storage.capabilities.chunk_bytes_max) // 256
        )
        if not content:
            pytest.skip("missing capability: chunk_bytes_max")
        storage.create("a", [content[:1_000], memoryview(content)[1_000:]])
        assert service.outside_read("a") == content

    def test_create_refuses_a_taken_name(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"first"])
        with pytest.raises(ChunkExistsError) as caught:
            storage.create("a", [b"second"])
        assert (caught.value.chunk, caught.value.operation) == ("a", "create")
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert service.outside_read("a") == b"first"

    def test_create_refuses_the_same_content_too(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"same"])
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"same"])

    def test_create_refuses_what_another_program_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        service.outside_write("a", b"theirs")
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"ours"])
        assert service.outside_read("a") == b"theirs"

    def test_create_refuses_what_another_client_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        other.create("a", [b"theirs"])
        other.close()
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"ours"])

    @pytest.mark.parametrize("buffers", NOTHING)
    def test_create_refuses_no_bytes(
        self, storage: ChunkStorage, service: ChunkService, buffers: list[Any]
    ) -> None:
        with pytest.raises(ValueError, match="byte"):
            storage.create("a", buffers)
        assert not service.outside_names()

    @pytest.mark.parametrize(
        "buffers",
        NO_BUFFERS,
    )
    def test_create_refuses_what_is_no_sequence_of_buffers(
        self, storage: ChunkStorage, service: ChunkService, buffers: Any
    ) -> None:
        with pytest.raises(TypeError):
            storage.create("a", buffers)
        assert not service.outside_names()

    def test_create_keeps_no_buffer(self, storage: ChunkStorage, service: ChunkService) -> None:
        buffer = bytearray(b"content")
        storage.create("a", [buffer, memoryview(buffer)[:3]])
        buffer[:] = b"changed"
        buffer.extend(b"a buffer that is still exported cannot grow")
        assert service.outside_read("a") == b"contentcon"
        assert read(storage, "a") == b"contentcon"

    def test_create_refuses_too_large_a_chunk(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        most = storage.capabilities.chunk_bytes_max
        if most == UNLIMITED or most > 1 << 24:
            pytest.skip("missing capability: chunk_bytes_max")
        storage.create("fits", [bytes(most)])
        with pytest.raises(ValueError, match="large"):
            storage.create("a", [bytes(most), b"x"])
        assert list(service.outside_names()) == ["fits"]

    def test_a_deleted_name_is_free_again(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"first"])
        storage.delete("d/a")
        storage.create("d/a", [b"second"])
        assert service.outside_read("d/a") == b"second"
        assert read(storage, "d/a") == b"second"

    def test_create_shows_at_once_to_another_client(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        with pytest.raises(ChunkNotFoundError):
            other.stat("d/a")
        storage.create("d/a", [b"abc"])
        assert other.stat("d/a").length == 3
        assert read(other, "d/a") == b"abc"
        other.close()

    def test_create_of_one_byte(self, storage: ChunkStorage, service: ChunkService) -> None:
        storage.create("a", [b"\0"])
        assert service.outside_read("a") == b"\0"

    @pytest.mark.parametrize("edge", [b"\r\n", b"\0\0", b" \t", b"\xff\xfe"])
    def test_create_keeps_every_byte(
        self, storage: ChunkStorage, service: ChunkService, edge: bytes
    ) -> None:
        content = edge + b"\r\n\0\xff\x1a" + bytes(range(256)) + edge
        storage.create("a", [content])
        assert service.outside_read("a") == content
        assert read(storage, "a") == content


class WriteChecks(ChunkSubject):
    """Bytes are added at the end and nowhere else."""

    def test_write_appends(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "append")
        storage.create("a", [b"one"])
        storage.write("a", 3, [b"t", b"wo"])
        storage.write("a", 6, [b"three"])
        assert service.outside_read("a") == b"onetwothree"

    @pytest.mark.parametrize("offset", [0, 2, 4, 1_000])
    def test_write_refuses_a_wrong_offset(
        self, storage: ChunkStorage, service: ChunkService, offset: int
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            storage.write("a", offset, [b"x"])
        assert (caught.value.expected, caught.value.actual) == (3, offset)
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert service.outside_read("a") == b"abc"

    def test_write_again_at_the_same_offset_is_refused(self, storage: ChunkStorage) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        storage.write("a", 3, [b"def"])
        with pytest.raises(ChunkOffsetError):
            storage.write("a", 3, [b"def"])

    def test_write_goes_to_the_end_that_the_service_knows(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        other = service.open()
        other.write("a", 3, [b"def"])
        other.close()
        with pytest.raises(ChunkOffsetError):
            storage.write("a", 3, [b"xyz"])
        storage.write("a", 6, [b"ghi"])
        assert service.outside_read("a") == b"abcdefghi"

    def test_write_makes_no_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "append")
        with pytest.raises(ChunkNotFoundError):
            storage.write("a", 0, [b"x"])
        assert not service.outside_names()

    @pytest.mark.parametrize("buffers", NOTHING)
    def test_write_refuses_no_bytes(self, storage: ChunkStorage, buffers: list[Any]) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        with pytest.raises(ValueError, match="byte"):
            storage.write("a", 3, buffers)

    def test_write_refuses_an_offset_below_0(self, storage: ChunkStorage) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        with pytest.raises(ValueError, match="offset"):
            storage.write("a", -1, [b"x"])

    def test_write_takes_very_many_buffers(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        parts = [b"%d," % number for number in range(MANY)]
        storage.create("a", [b"x"])
        storage.write("a", 1, parts)
        assert service.outside_read("a") == b"x" + b"".join(parts)

    def test_write_keeps_no_buffer(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "append")
        buffer = bytearray(b"content")
        storage.create("a", [b"_"])
        storage.write("a", 1, [buffer, memoryview(buffer)[:3]])
        buffer[:] = b"changed"
        buffer.extend(b"a buffer that is still exported cannot grow")
        assert service.outside_read("a") == b"_contentcon"

    def test_write_refuses_too_long_a_chunk(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        most = storage.capabilities.chunk_bytes_max
        if most == UNLIMITED or most > 1 << 24:
            pytest.skip("missing capability: chunk_bytes_max")
        storage.create("a", [bytes(most)])
        with pytest.raises(ValueError, match="large"):
            storage.write("a", most, [b"x"])
        assert service.outside_read("a") == bytes(most)

    def test_write_refuses_too_many_writes(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        most = storage.capabilities.appends_max
        if most > 100:
            pytest.skip("missing capability: appends_max")
        storage.create("a", [b"x"])
        for offset in range(1, most):
            storage.write("a", offset, [b"x"])
        with pytest.raises(ValueError, match="many"):
            storage.write("a", most, [b"x"])
        assert service.outside_read("a") == b"x" * most

    def test_write_goes_on_after_reopening(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        storage.write("a", 3, [b"def"])
        storage.close()
        again = service.open()
        with pytest.raises(ChunkOffsetError):
            again.write("a", 3, [b"x"])
        again.write("a", 6, [b"ghi"])
        again.close()
        assert service.outside_read("a") == b"abcdefghi"

    def test_write_to_a_deleted_chunk_makes_none(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        storage.write("a", 3, [b"def"])
        storage.delete("a")
        for offset in (0, 6):
            with pytest.raises(ChunkNotFoundError):
                storage.write("a", offset, [b"x"])
        assert not service.outside_names()

    def test_write_of_much_at_once(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "append")
        length = min(self.large_bytes // 4, storage.capabilities.chunk_bytes_max - 3)
        content = bytes(number * 7 % 251 for number in range(length))
        storage.create("a", [b"abc"])
        storage.write("a", 3, [content[:1_000], memoryview(content)[1_000:]])
        assert service.outside_read("a") == b"abc" + content

    def test_write_leaves_the_neighbours(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        for name in ("d/a", "d/ab", "d/a-", "e"):
            storage.create(name, [b"x"])
        storage.write("d/a", 1, [b"y"])
        found = {name: service.outside_read(name) for name in service.outside_names()}
        assert found == {"d/a": b"xy", "d/ab": b"x", "d/a-": b"x", "e": b"x"}

    def test_write_to_what_another_program_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        service.outside_write("a", b"abc")
        with pytest.raises(ChunkOffsetError):
            storage.write("a", 0, [b"x"])
        assert service.outside_read("a") == b"abc"

    def test_write_once_service_says_so(self, storage: ChunkStorage, service: ChunkService) -> None:
        need_missing(storage, "append")
        storage.create("a", [b"abc"])
        with pytest.raises(CapabilityError):
            storage.write("a", 3, [b"x"])
        assert service.outside_read("a") == b"abc"
