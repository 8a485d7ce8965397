"""Bytes that are put at an offset of a chunk, again or for the first time."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkNotFoundError,
    ChunkOffsetError,
)
from siltstone.core.storage.optional_verbs import overwrite
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.testing.faults.power_cut import PowerCut


def test_bytes_lie_where_they_were_put_and_survive_a_power_cut(tmp_path: Path) -> None:
    disk = PowerCut(tmp_path)
    storage = WrappedChunkStorage(NfsChunkStorage(tmp_path / "far", calls=disk))
    assert storage.capabilities.overwrite
    storage.create("a", [b"abcdef"])
    storage.overwrite("a", 4, [b"XY", b"Z"])
    storage.overwrite("a", 7, [b"!"])
    storage.overwrite("a", 0, [b"abc"])
    disk.cut()
    assert (tmp_path / "far" / "a").read_bytes() == b"abcdXYZ!"


def test_a_chunk_is_never_left_with_a_hole(tmp_path: Path) -> None:
    storage = NfsChunkStorage(tmp_path)
    storage.create("a", [b"abc"])
    with pytest.raises(ChunkOffsetError):
        storage.overwrite("a", 4, [b"x"])
    with pytest.raises(ValueError, match="no byte"):
        storage.overwrite("a", 0, [])
    with pytest.raises(ChunkNotFoundError):
        storage.overwrite("b", 0, [b"x"])
    storage.seal("a")
    with pytest.raises(ChunkAccessDeniedError):
        storage.overwrite("a", 0, [b"x"])
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_a_service_that_cannot_says_so() -> None:
    storage = WrappedChunkStorage(MemoryChunkStorage())
    assert not storage.capabilities.overwrite
    storage.create("a", [b"abc"])
    with pytest.raises(CapabilityError):
        overwrite(storage, "a", 0, [b"x"])
