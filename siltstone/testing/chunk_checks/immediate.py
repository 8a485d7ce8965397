"""Checks of reads that need no waiting, which a storage may have besides the contract."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.storage.optional_verbs import ReadNow, immediate_reads
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, need, read

LENGTH = 300_000


class ImmediateChecks(ChunkSubject):
    """Such a read gives what ``read_into`` would, with the version it belongs to, or nothing."""

    def test_reads_without_waiting_give_what_is_there_or_nothing(
        self, storage: ChunkStorage
    ) -> None:
        read_now = _read_now(storage)
        length = min(LENGTH, storage.capabilities.chunk_bytes_max)
        content = bytes(number * 7 % 251 for number in range(length))
        storage.create("a", [content])
        version = storage.stat("a").version
        for offset in (0, 1, length // 2, length - 1, length):
            for count in (0, 1, 1_000, length // 2, length):
                wanted = read(storage, "a", offset, count)
                buffer = bytearray(count)
                found = read_now("a", offset, buffer)
                assert found in (None, version), (offset, count)
                right = buffer == wanted  # Two long buffers would take minutes to be told apart.
                assert found is None or right, (offset, count)

    def test_reads_without_waiting_of_what_is_not_there_give_nothing(
        self, storage: ChunkStorage
    ) -> None:
        read_now = _read_now(storage)
        storage.create("d/a", [b"abc"])
        for name in ("a", "d", "d/ab", "", "/", "a\0b", "\ud800"):
            assert read_now(name, 0, bytearray(1)) is None
        assert read(storage, "d/a") == b"abc"
        assert read_now("d/a", 4, bytearray(1)) is None
        storage.delete("d/a")
        assert read_now("d/a", 0, bytearray(3)) is None
        storage.close()
        assert read_now("d/a", 0, bytearray(3)) is None

    def test_reads_without_waiting_tell_old_bytes_from_new_ones(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        read_now = _read_now(storage)
        storage.create("a", [b"abc"])
        assert read(storage, "a") == b"abc"
        service.outside_write("a", b"xyz")
        buffer = bytearray(3)
        found = read_now("a", 0, buffer)
        assert found != storage.stat("a").version or buffer == b"xyz"

    def test_reads_without_waiting_see_what_was_appended(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        read_now = _read_now(storage)
        storage.create("a", [b"abc"])
        assert read(storage, "a") == b"abc"
        other = service.open()
        other.write("a", 3, [b"def"])
        other.close()
        buffer = bytearray(6)
        found = read_now("a", 0, buffer)
        assert found in (None, storage.stat("a").version)
        assert found is None or buffer == b"abcdef"


def _read_now(storage: ChunkStorage) -> ReadNow:
    found = immediate_reads(storage)
    if found is None:
        pytest.skip("missing capability: immediate_reads")
    return found
