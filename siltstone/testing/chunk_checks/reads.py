"""Checks of ``read_into`` and ``stat``."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from typing import Any

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNotFoundError, ChunkOffsetError
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, need, read

MUCH = 8 * MIB + 1
"""More than Siltstone asks for at a time."""
REPLACED_MAX = 200
"""A clock by which a service makes versions may pause for some changes, not for this many."""


class ReadChecks(ChunkSubject):
    """Reading returns the bytes that are there, at once and to every client."""

    def test_read_returns_the_whole(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"content"])
        buffer = bytearray(7)
        assert storage.read_into("a", 0, buffer) == 7
        assert buffer == b"content"

    def test_read_returns_a_part(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"0123456789"])
        assert read(storage, "a", 3, 4) == b"3456"

    def test_read_fills_a_slice_and_nothing_else(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"0123456789"])
        buffer = bytearray(b"........")
        assert storage.read_into("a", 1, memoryview(buffer)[2:5]) == 3
        assert buffer == b"..123..."

    def test_read_is_short_at_the_end(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"0123456789"])
        buffer = bytearray(b"......")
        assert storage.read_into("a", 8, buffer) == 2
        assert buffer == b"89...."

    def test_read_at_the_end_is_empty(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        assert read(storage, "a", 3, 5) == b""

    def test_read_beyond_the_end_is_refused(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            storage.read_into("a", 4, bytearray(1))
        assert (caught.value.expected, caught.value.actual) == (3, 4)

    @pytest.mark.parametrize("offset", [0, 1, 3])
    def test_read_into_an_empty_buffer(self, storage: ChunkStorage, offset: int) -> None:
        storage.create("a", [b"abc"])
        assert storage.read_into("a", offset, bytearray()) == 0

    def test_read_refuses_an_offset_below_0(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        with pytest.raises(ValueError, match="offset"):
            storage.read_into("a", -1, bytearray(1))

    def test_read_of_no_chunk_is_refused(self, storage: ChunkStorage) -> None:
        with pytest.raises(ChunkNotFoundError) as caught:
            storage.read_into("a/b", 0, bytearray(1))
        assert (caught.value.chunk, caught.value.operation) == ("a/b", "read_into")

    def test_read_of_a_folder_is_refused(self, storage: ChunkStorage) -> None:
        storage.create("d/a", [b"abc"])
        with pytest.raises(ChunkNotFoundError):
            storage.read_into("d", 0, bytearray(1))

    def test_read_returns_what_another_program_wrote(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        content = bytes(range(256)) * 5_000
        service.outside_write("d/a", content)
        assert read(storage, "d/a", 0, len(content) + 1) == content

    def test_read_sees_what_another_client_appended(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        assert read(storage, "a") == b"abc"
        other = service.open()
        other.write("a", 3, [b"def"])
        other.close()
        assert read(storage, "a") == b"abcdef"
        assert storage.stat("a").length == 6

    def test_every_range_of_a_chunk(self, storage: ChunkStorage) -> None:
        length = min(150_000, storage.capabilities.chunk_bytes_max)
        content = bytes(number * 7 % 251 for number in range(length))
        storage.create("a", [content])
        places = sorted({0, 1, 4_095, 4_096, length // 2, max(0, length - 4_097), length - 1})
        for offset in places:
            for count in (1, 2, 4_096, 65_537, length):
                wanted = content[offset : offset + count]
                assert read(storage, "a", offset, count) == wanted, (offset, count)

    def test_read_of_much_at_once(self, storage: ChunkStorage) -> None:
        length = min(MUCH, storage.capabilities.chunk_bytes_max)
        content = (bytes(range(251)) * (length // 251 + 1))[:length]
        storage.create("a", [content])
        # Two long buffers would take minutes to be told apart.
        whole = read(storage, "a", 0, length) == content
        assert whole
        rest = read(storage, "a", 1_000, length) == content[1_000:]
        assert rest

    @pytest.mark.parametrize("offset", [1_000, 2**31, 2**40, 2**62])
    def test_read_far_beyond_the_end_is_refused(self, storage: ChunkStorage, offset: int) -> None:
        storage.create("a", [b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            storage.read_into("a", offset, bytearray(10))
        assert (caught.value.expected, caught.value.actual) == (3, offset)

    def test_read_again_returns_the_same(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"0123456789"])
        for _ in range(3):
            assert read(storage, "a", 2, 5) == b"23456"
            assert read(storage, "a", 9, 5) == b"9"
            assert read(storage, "a") == b"0123456789"

    def test_read_of_a_deleted_chunk_is_refused(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        assert read(storage, "a") == b"abc"
        storage.delete("a")
        with pytest.raises(ChunkNotFoundError):
            storage.read_into("a", 0, bytearray(3))

    def test_read_refuses_an_offset_that_is_no_number(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        wrong: Any
        for wrong in ("0", None, b"0"):
            with pytest.raises(TypeError):
                storage.read_into("a", wrong, bytearray(1))


class StatChecks(ChunkSubject):
    """``stat`` tells of exactly one name."""

    def test_stat_tells_name_and_length(self, storage: ChunkStorage) -> None:
        storage.create("d/a", [b"abc", b"de"])
        found = storage.stat("d/a")
        assert (found.name, found.length) == ("d/a", 5)
        assert found.modified_s >= 0

    def test_stat_of_no_chunk_is_refused(self, storage: ChunkStorage) -> None:
        with pytest.raises(ChunkNotFoundError) as caught:
            storage.stat("a")
        assert (caught.value.chunk, caught.value.operation) == ("a", "stat")

    def test_stat_is_exact(self, storage: ChunkStorage) -> None:
        storage.create("d/ab", [b"x"])
        for name in ("d", "d/a", "d/abc", "d/ab/c", "ab", "D/ab"):
            with pytest.raises(ChunkNotFoundError):
                storage.stat(name)

    def test_stat_sees_what_another_program_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        service.outside_write("a", b"abcd")
        assert storage.stat("a").length == 4

    def test_version_stays_while_nothing_changes(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        read(storage, "a")
        assert storage.stat("a").version == version
        assert [chunk.version for chunk in storage.list()] == [version]

    def test_version_changes_with_the_content(self, storage: ChunkStorage) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        storage.write("a", 3, [b"d"])
        assert storage.stat("a").version != version

    def test_version_changes_when_another_chunk_takes_the_name(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        storage.delete("a")
        storage.create("a", [b"other bytes"])
        assert storage.stat("a").version != version

    def test_version_changes_when_another_program_replaces_the_chunk(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        service.outside_write("a", b"other bytes")
        assert storage.stat("a").version != version

    def test_version_changes_when_bytes_of_the_same_length_take_the_name(
        self, storage: ChunkStorage
    ) -> None:
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        for number in range(REPLACED_MAX):
            storage.delete("a")
            storage.create("a", [b"%03d" % number])
            if storage.stat("a").version != version:
                return
        pytest.fail("the version stayed while the bytes changed")

    def test_version_is_the_same_for_every_client(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"abc"])
        other = service.open()
        assert other.stat("a") == storage.stat("a")
        other.close()

    def test_version_is_text(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        version = storage.stat("a").version
        assert isinstance(version, str)
        assert version

    def test_time_of_the_last_change_is_in_seconds(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"abc"])
        modified_s = storage.stat("a").modified_s
        # From 2001 to 2286; milliseconds would lie far above.
        assert modified_s == 0 or 1e9 < modified_s < 1e10

    def test_stat_sees_that_another_client_deleted(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("a", [b"abc"])
        assert storage.stat("a").length == 3
        other = service.open()
        other.delete("a")
        other.close()
        with pytest.raises(ChunkNotFoundError):
            storage.stat("a")

    def test_stat_knows_the_length_of_a_large_chunk(self, storage: ChunkStorage) -> None:
        length = min(self.large_bytes + 1, storage.capabilities.chunk_bytes_max)
        storage.create("a", [bytes(length)])
        assert storage.stat("a").length == length
