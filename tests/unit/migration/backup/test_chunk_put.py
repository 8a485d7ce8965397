"""A long chunk is made without all of it in memory; a failed one is never of full length."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import Capabilities, ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkError, ChunkExistsError, CorruptDataError
from siltstone.core.storage.optional_verbs import PieceError
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.migration.backup import chunk_put
from siltstone.migration.backup.chunk_put import (
    PART_BYTES,
    WHOLE_BYTES_MAX,
    delete_parts,
    put_chunk,
)
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    StorageCall,
    fail_number,
)

PATTERN: Final = os.urandom(MIB)


class _Joining(WrappedChunkStorage):
    """A service that neither appends nor streams, but joins natively."""

    def __init__(self, folder: Path) -> None:
        super().__init__(NfsChunkStorage(folder))
        self.folder = folder
        self.creates: list[str] = []

    @property
    def capabilities(self) -> Capabilities:
        able = self.inner.capabilities
        return replace(able, append=False, streams=False, concat=True)

    def create(self, name: str, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self.creates.append(name)
        super().create(name, buffers)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        if (self.folder / target).exists():
            raise ChunkExistsError("chunk exists", chunk=target, operation="concat")
        with (self.folder / target).open("xb", buffering=0) as file:
            for name, length in sources:
                with (self.folder / name).open("rb") as part:
                    assert os.sendfile(file.fileno(), part.fileno(), 0, length) == length


class _Appending(WrappedChunkStorage):
    """A service that appends but does not stream."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, streams=False)


def _pieces(length: int) -> Iterator[memoryview]:
    for begin in range(0, length, MIB):
        yield memoryview(PATTERN)[: min(MIB, length - begin)]


def _cut_off(length: int) -> Iterator[memoryview]:
    yield from _pieces(length - 1)
    raise CorruptDataError("damaged", where="there")


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture(params=["streams", "joins", "appends"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ChunkStorage:
    match request.param:
        case "streams":
            return NfsChunkStorage(tmp_path)
        case "joins":
            return _Joining(tmp_path)
        case _:
            return _Appending(NfsChunkStorage(tmp_path))


@pytest.mark.slow
def test_a_long_chunk_is_never_in_memory_as_a_whole(storage: ChunkStorage, tmp_path: Path) -> None:
    length = WHOLE_BYTES_MAX + 5 * MIB + 7
    tracemalloc.start()
    try:
        assert put_chunk(storage, "c", length, lambda: _pieces(length))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PART_BYTES + 8 * MIB
    assert [path.name for path in _files(tmp_path)] == ["c"]
    with (tmp_path / "c").open("rb") as file:
        for piece in _pieces(length):
            assert file.read(len(piece)) == piece
        assert not file.read(1)


class _Creating(_Joining):
    """A service that makes a chunk only by one call."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, concat=False)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the limits small; return the length of a chunk of several parts."""
    monkeypatch.setattr(chunk_put, "WHOLE_BYTES_MAX", 100)
    monkeypatch.setattr(chunk_put, "PART_BYTES", 64)
    return 300


def test_what_cannot_be_read_is_shorter_than_the_chunk(
    storage: ChunkStorage, tmp_path: Path, short: int
) -> None:
    with pytest.raises(PieceError) as caught:
        put_chunk(storage, "c", short, lambda: _cut_off(short))
    assert isinstance(caught.value.error, CorruptDataError)
    left = _files(tmp_path)
    assert not left or ([path.name for path in left] == ["c"] and left[0].stat().st_size < short)


@pytest.mark.parametrize("size", [1, 7, 50, 65, 299])
def test_pieces_of_any_size_become_the_chunk(
    storage: ChunkStorage, tmp_path: Path, short: int, size: int
) -> None:
    data = PATTERN[:short]

    def pieces() -> list[bytes]:
        return [data[begin : begin + size] for begin in range(0, short, size)]

    assert put_chunk(storage, "c", short, pieces)
    assert [(path.name, path.read_bytes()) for path in _files(tmp_path)] == [("c", data)]


def test_a_long_chunk_is_made_by_one_call_where_nothing_else_can(
    tmp_path: Path, short: int
) -> None:
    service = _Creating(tmp_path)
    assert put_chunk(service, "c", short, lambda: _pieces(short))
    assert service.creates == ["c"]


def test_a_taken_name_stays_as_it_is(storage: ChunkStorage, tmp_path: Path, short: int) -> None:
    storage.create("c", [b"theirs"])
    assert not put_chunk(storage, "c", short, lambda: _pieces(short))
    assert [path.read_bytes() for path in _files(tmp_path)] == [b"theirs"]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_part_without_an_answer_is_made_under_another_name(
    tmp_path: Path, short: int, number: int
) -> None:
    service = _Joining(tmp_path)
    failing = FaultyChunkStorage(service, fail_number(number, Fate.LOST_REPLY, "create"))
    assert put_chunk(failing, "c", short, lambda: _pieces(short))
    assert len(set(service.creates)) == 6
    assert [path.name for path in _files(tmp_path)] == ["c"]
    assert (tmp_path / "c").read_bytes() == PATTERN[:short]


@pytest.mark.parametrize(("fate", "tries"), [(Fate.LOST_REPLY, 3), (Fate.REFUSED, 1)])
def test_a_part_that_cannot_be_made_is_the_services_error(
    tmp_path: Path, short: int, fate: Fate, tries: int
) -> None:
    creates: list[str] = []

    def plan(call: StorageCall) -> Fate:
        if call.operation != "create":
            return Fate.DONE
        creates.append(call.name)
        return fate

    failing = FaultyChunkStorage(_Joining(tmp_path), plan)
    with pytest.raises(ChunkError):
        put_chunk(failing, "c", short, lambda: _pieces(short))
    assert len(creates) == tries
    assert not _files(tmp_path)


def test_parts_that_a_death_left_can_be_deleted(tmp_path: Path, short: int) -> None:
    service = _Joining(tmp_path)
    service.delete_many = lambda names: {}  # type: ignore[method-assign]
    assert put_chunk(service, "c", short, lambda: _pieces(short))
    assert len(_files(tmp_path)) == 6
    delete_parts(_Joining(tmp_path))
    assert [path.name for path in _files(tmp_path)] == ["c"]
