"""Index checkpoints on long-term storage: uploaded once, verified when restored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_names import index_file
from siltstone.core.chunk_storage import Buffer
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkUnavailableError,
    CorruptDataError,
    Outcome,
)
from siltstone.core.records.checkpoint import IndexFile
from siltstone.core.records.table_record import TableEntry
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata import checkpoint
from siltstone.metadata.checkpoint import (
    SMALL_BYTES,
    UPLOAD_ATTEMPTS,
    FileSums,
    UploadedIndex,
    restore_index,
    upload_index,
)
from siltstone.metadata.index import Index
from siltstone.metadata.tables import Tables
from tests.unit.metadata.conftest import LINEAGE


class FailingStorage(MemoryChunkStorage):
    """Raises the next of ``failures`` in each ``create``, after its effect if it is unknown."""

    def __init__(self) -> None:
        super().__init__(Bucket())
        self.failures: list[ChunkError] = []
        self.created: list[str] = []

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        self.created.append(name)
        failure = self.failures.pop(0) if self.failures else None
        if failure is None or failure.outcome is Outcome.UNKNOWN:
            super().create(name, buffers)
        if failure is not None:
            raise failure


class Desk:
    """An index, its tables, and a service to keep checkpoints."""

    def __init__(self, index: Index, folder: Path) -> None:
        self.index = index
        self.tables = Tables(index, LINEAGE)
        self.folder = folder
        self.environment = SystemEnvironment()
        self.storage = FailingStorage()
        self.sums: FileSums = {}

    def fill(self, count: int = 200) -> None:
        entries = [TableEntry(1, b"%06d" % n, b"v%d" % self.tables.version) for n in range(count)]
        self.tables.acknowledge([self.tables.assign(entries)], 0)

    def fill_much(self) -> None:
        """Enough for a file that is not small."""
        chance = Random(1)
        count = 3 * SMALL_BYTES // 1000
        entries = [TableEntry(1, b"m%06d" % n, chance.randbytes(1000)) for n in range(count)]
        self.tables.acknowledge([self.tables.assign(entries)], 0)

    def run(self, call: Callable[[AsyncChunkStorage], Awaitable[UploadedIndex | None]]) -> None:
        async def work() -> None:
            self.result = await call(AsyncChunkStorage(self.storage, self.environment, threads=2))

        asyncio.run(work())

    def upload(self, known: Sequence[IndexFile] = ()) -> UploadedIndex:
        scratch = self.folder / "scratch"
        self.run(
            lambda storage: upload_index(
                self.index, storage, self.environment, 3, 7, known, scratch, self.sums
            )
        )
        assert self.result is not None
        return self.result

    def restore(self, files: Sequence[IndexFile], name: str) -> Index:
        folder = self.folder / name
        self.run(lambda storage: restore_index(files, storage, folder, self.environment))
        return Index.open(folder)

    def damage(self, file: IndexFile, data: bytes) -> None:
        self.storage.delete(file.chunk_name)
        if data:
            MemoryChunkStorage.create(self.storage, file.chunk_name, [data])


@pytest.fixture
def desk(index: Index, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(index, tmp_path)
    yield desk
    desk.environment.close()


def unavailable(outcome: Outcome) -> ChunkError:
    return ChunkUnavailableError("gone", chunk="c", operation="create", outcome=outcome)


def test_what_was_uploaded_is_restored(desk: Desk) -> None:
    desk.fill()
    uploaded = desk.upload()
    assert uploaded.position == desk.index.position
    assert {file.chunk_name for file in uploaded.files} == set(desk.storage.created)
    for file in uploaded.files:
        nonce = file.chunk_name.rpartition("-")[2]
        assert file.chunk_name == index_file(3, 7, file.crc, file.length, nonce)
    expected = desk.index.scan(1, b"", None)
    desk.fill(1)
    restored = desk.restore(uploaded.files, "restored")
    assert restored.position == uploaded.position
    assert restored.scan(1, b"", None) == expected
    restored.close()


def test_nothing_is_uploaded_of_an_empty_index(desk: Desk) -> None:
    assert desk.upload() == UploadedIndex(files=(), position=None)
    assert desk.storage.created == []


def test_unchanged_large_files_are_named_again(desk: Desk) -> None:
    desk.fill_much()
    first = desk.upload()
    large = {file for file in first.files if file.length > SMALL_BYTES}
    assert large
    count = len(desk.storage.created)
    second = desk.upload(first.files)
    assert second.position == first.position
    assert set(first.files) & set(second.files) == large
    assert second.uploaded_bytes == 0
    assert len(desk.storage.created) == count + len(first.files) - len(large)
    desk.fill(3)
    third = desk.upload(second.files)
    assert large < set(third.files)
    assert third.position == desk.index.position != first.position
    restored = desk.restore(third.files, "restored")
    assert restored.scan(1, b"", None) == desk.index.scan(1, b"", None)
    restored.close()


def test_two_checkpoints_share_no_small_file(desk: Desk) -> None:
    desk.fill()
    first = desk.upload()
    assert all(file.length <= SMALL_BYTES for file in first.files)
    second = desk.upload(first.files)
    for file in first.files:
        desk.storage.delete(file.chunk_name)
    restored = desk.restore(second.files, "restored")
    assert restored.scan(1, b"", None) == desk.index.scan(1, b"", None)
    restored.close()


def test_what_is_the_same_in_every_index_is_made_again(desk: Desk) -> None:
    desk.fill()
    uploaded = desk.upload()
    # As older versions uploaded them, once for all checkpoints of an owner.
    constant = [
        IndexFile(file_name=name, chunk_name=f"gone/{name}", length=40, crc=1)
        for name in ("rocksdict-config.json", "OPTIONS-000007")
    ]
    assert not {file.file_name for file in constant} & {file.file_name for file in uploaded.files}
    (current,) = (file for file in uploaded.files if file.file_name == "CURRENT")
    desk.damage(current, b"rubbish")
    restored = desk.restore([*constant, *uploaded.files], "restored")
    assert restored.scan(1, b"", None) == desk.index.scan(1, b"", None)
    restored.close()


def test_a_known_file_of_other_content_is_uploaded(desk: Desk) -> None:
    desk.fill()
    first = desk.upload()
    lies = [
        IndexFile(file_name=file.file_name, chunk_name="lie", length=file.length, crc=file.crc ^ 1)
        for file in first.files
    ]
    assert "lie" not in {file.chunk_name for file in desk.upload(lies).files}


@pytest.mark.parametrize("crc", [0, 1, 2**32 - 1])
def test_a_file_that_was_not_read_yet_is_known_by_no_sum(desk: Desk, crc: int) -> None:
    desk.fill()
    first = desk.upload()
    lies = [
        IndexFile(file_name=file.file_name, chunk_name="lie", length=file.length, crc=crc)
        for file in first.files
    ]
    desk.sums.clear()
    assert "lie" not in {file.chunk_name for file in desk.upload(lies).files}


def test_a_write_ahead_log_is_no_part_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "000009.log").touch()
    (tmp_path / "CURRENT").write_bytes(b"m")
    assert checkpoint._needed(tmp_path) == [tmp_path / "CURRENT"]
    (tmp_path / "000009.log").write_bytes(b"rows")
    with pytest.raises(AssertionError, match="write-ahead log"):
        checkpoint._needed(tmp_path)


def test_doubtful_uploads_get_new_names(desk: Desk) -> None:
    desk.fill()
    desk.storage.failures = [unavailable(Outcome.UNKNOWN), unavailable(Outcome.NOT_APPLIED)]
    uploaded = desk.upload()
    assert len(desk.storage.created) == len(set(desk.storage.created)) == len(uploaded.files) + 2
    desk.restore(uploaded.files, "restored").close()


@pytest.mark.parametrize("outcome", Outcome)
def test_attempts_end(desk: Desk, outcome: Outcome) -> None:
    desk.fill()
    desk.storage.failures = [unavailable(outcome)] * 99
    with pytest.raises(ChunkUnavailableError):
        desk.upload()
    assert len(desk.storage.created) == UPLOAD_ATTEMPTS


def test_a_refusal_is_not_repeated(desk: Desk) -> None:
    desk.fill()
    desk.storage.failures = [ChunkAccessDeniedError("no", chunk="c", operation="create")]
    with pytest.raises(ChunkAccessDeniedError):
        desk.upload()
    assert len(desk.storage.created) == 1


@pytest.mark.parametrize("way", ["gone", "cut", "changed"])
def test_a_damaged_file_is_named(desk: Desk, way: str) -> None:
    desk.fill()
    uploaded = desk.upload()
    file = next(file for file in uploaded.files if file.file_name.endswith(".sst"))
    data = bytearray(file.length)
    desk.storage.read_into(file.chunk_name, 0, data)
    data[file.length // 2] ^= 1
    left = {"gone": b"", "cut": bytes(data[:-1]), "changed": bytes(data)}[way]
    desk.damage(file, left)
    with pytest.raises(CorruptDataError) as caught:
        desk.restore(uploaded.files, "restored")
    if way == "gone":
        assert str(caught.value) == f"index file is gone where={file.chunk_name}"
    else:
        assert str(caught.value) == (
            f"index file is damaged where={file.chunk_name} file={file.file_name}"
            f" length={len(left)} expected_length={file.length}"
            f" crc={crc32c(left)} expected_crc={file.crc}"
        )


def test_an_old_folder_does_not_shine_through(desk: Desk) -> None:
    desk.fill()
    uploaded = desk.upload()
    (desk.folder / "restored").mkdir()
    (desk.folder / "restored" / "CURRENT").write_text("old")
    (desk.folder / "restored" / "junk").write_text("old")
    restored = desk.restore(uploaded.files, "restored")
    desk.restore(uploaded.files, "not/there/restored").close()
    assert not (desk.folder / "restored" / "junk").exists()
    restored.close()


def test_a_file_that_is_longer_than_it_was_is_damaged(desk: Desk) -> None:
    desk.fill()
    file = next(file for file in desk.upload().files if file.file_name.endswith(".sst"))
    data = bytearray(file.length)
    desk.storage.read_into(file.chunk_name, 0, data)
    head = bytes(data[:-1])
    shorter = replace(file, length=len(head), crc=file.crc)
    with pytest.raises(CorruptDataError, match="index file is damaged"):
        desk.restore([shorter], "restored")
    restored = desk.folder / "whole"
    desk.run(
        lambda storage: restore_index(
            [replace(file, length=len(head), crc=crc32c(head))],
            storage,
            restored,
            desk.environment,
        )
    )
    assert (restored / file.file_name).read_bytes() == head


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/b", "..", ".", "", "a\0b"])
def test_file_names_do_not_leave_the_folder(desk: Desk, name: str) -> None:
    desk.fill()
    file = next(file for file in desk.upload().files if file.file_name.endswith(".sst"))
    evil = IndexFile(file_name=name, chunk_name=file.chunk_name, length=file.length, crc=file.crc)
    with pytest.raises(CorruptDataError) as caught:
        desk.restore([evil], "restored")
    assert str(caught.value) == f"impossible name of an index file where={file.chunk_name}"


def test_files_that_were_read_are_not_read_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.fill_much()
    first = desk.upload()
    assert first.uploaded_bytes == sum(file.length for file in first.files)
    read: list[str] = []
    plain = checkpoint._read

    def noting(path: Path) -> tuple[bytes, int]:
        read.append(path.suffix)
        return plain(path)

    monkeypatch.setattr(checkpoint, "_read", noting)
    desk.tables.acknowledge([desk.tables.assign([TableEntry(1, b"more", b"v")])], 1)
    second = desk.upload(first.files)
    assert read.count(".sst") == 1
    assert len(desk.sums) == 2
    before = {(file.file_name, file.crc) for file in first.files}
    new = [file for file in second.files if (file.file_name, file.crc) not in before]
    assert second.uploaded_bytes == sum(file.length for file in new)
    # Files that are known here but gone from storage are read and uploaded again.
    third = desk.upload()
    assert third.uploaded_bytes == sum(file.length for file in third.files)
    restored = desk.restore(third.files, "again")
    assert restored.position == desk.index.position
    restored.close()
