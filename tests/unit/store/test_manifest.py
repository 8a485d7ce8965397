from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.errors import (
    ChunkUnavailableError,
    CorruptDataError,
    FormatError,
    Outcome,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.core.text import uuid_text
from siltstone.store.admin import prefilled_init
from siltstone.store.manifest import MANIFEST_NAME, check_uuid, create_manifest, read_manifest
from siltstone.store.settings.effective import load_settings

MANIFEST = StoreManifest(store_id=bytes(range(16)), container_count=3, created_ms=5)


class Taken(WrappedChunkStorage):
    """Lets a switch take the manifest away between two calls of one who opens the store."""

    def stat(self, name: str) -> ChunkStat:
        found = super().stat(name)
        self.inner.delete(name)
        return found


def test_a_manifest_that_is_taken_away_meanwhile_is_not_there() -> None:
    storage = MemoryChunkStorage()
    create_manifest(storage, MANIFEST)
    with pytest.raises(StoreNotFoundError, match="holds no store"):
        read_manifest(Taken(storage))


def test_what_was_written_is_read() -> None:
    storage = MemoryChunkStorage()
    create_manifest(storage, MANIFEST)
    assert read_manifest(storage) == MANIFEST


def test_a_store_is_made_once() -> None:
    storage = MemoryChunkStorage()
    create_manifest(storage, MANIFEST)
    with pytest.raises(StoreExistsError):
        create_manifest(storage, replace(MANIFEST, container_count=4))
    assert read_manifest(storage) == MANIFEST


def test_storage_without_a_store_is_told() -> None:
    with pytest.raises(StoreNotFoundError, match="system/store"):
        read_manifest(MemoryChunkStorage())


def test_a_newer_format_is_refused() -> None:
    storage = MemoryChunkStorage()
    create_manifest(storage, replace(MANIFEST, format_number=2))
    with pytest.raises(FormatError, match="found=2 known=1"):
        read_manifest(storage)


@pytest.mark.parametrize("damage", [b"", b"SLTR", b"x" * 40, b"x" * 100_000])
def test_damage_is_told(damage: bytes) -> None:
    storage = MemoryChunkStorage()
    storage.create(MANIFEST_NAME, [damage or b"\0"])
    with pytest.raises(CorruptDataError, match="system/store"):
        read_manifest(storage)


def test_one_changed_byte_is_damage() -> None:
    raw = bytearray(encode_store_manifest(MANIFEST))
    raw[20] ^= 1
    storage = MemoryChunkStorage()
    storage.create(MANIFEST_NAME, [raw])
    with pytest.raises(CorruptDataError):
        read_manifest(storage)


def test_another_store_is_refused() -> None:
    check_uuid(MANIFEST, None)
    check_uuid(MANIFEST, uuid_text(MANIFEST.store_id))
    with pytest.raises(StoreError, match="another store"):
        check_uuid(MANIFEST, uuid_text(bytes(16)))


def test_init_makes_a_whole_store(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path / "a" / "b", containers=3)
    assert settings == tmp_path / "a" / "b" / "siltstone.yaml"
    with siltstone.open(settings) as store:
        assert store.container_count == 3
        assert store.uuid in settings.read_text()


@pytest.mark.parametrize("used", ["siltstone.yaml", "chunks/x", "tier1/x", "index/x", "chunks"])
def test_a_used_folder_is_refused_and_left_alone(tmp_path: Path, used: str) -> None:
    (tmp_path / used).parent.mkdir(exist_ok=True)
    (tmp_path / used).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreExistsError):
        siltstone.init(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreExistsError):
        siltstone.init(tmp_path / "file")


@pytest.mark.parametrize(("count", "kind"), [(0, ValueError), (4097, ValueError), ("1", TypeError)])
def test_containers_are_counted(tmp_path: Path, count: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        siltstone.init(tmp_path / "x", containers=count)
    assert not (tmp_path / "x").exists()


def test_options_without_a_path_leave_the_folders_next_to_the_settings(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path, options={}, log_options={"file_bytes": "4MiB"})
    assert (tmp_path / "tier1" / "c0").is_dir()
    assert (tmp_path / "chunks" / "system" / "store").is_file()
    log = load_settings(settings).log_options
    assert log == {"path": str(tmp_path / "tier1"), "file_bytes": "4MiB"}


def test_a_failed_init_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(storage: object, manifest: object) -> None:
        raise ChunkUnavailableError("no", chunk="x", operation="create")

    monkeypatch.setattr(prefilled_init, "_state", fail)
    with pytest.raises(ChunkUnavailableError):
        siltstone.init(tmp_path / "new" / "store")
    assert list(tmp_path.iterdir()) == []


def test_after_an_unknown_outcome_nothing_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(storage: object, manifest: object) -> None:
        raise ChunkUnavailableError("?", chunk="x", operation="create", outcome=Outcome.UNKNOWN)

    monkeypatch.setattr(prefilled_init, "_state", fail)
    with pytest.raises(ChunkUnavailableError):
        siltstone.init(tmp_path / "store")
    assert not (tmp_path / "store" / "siltstone.yaml").exists()
    assert (tmp_path / "store" / "chunks").is_dir()


def test_a_store_that_does_not_open_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise StoreError("the log cannot be here")

    monkeypatch.setattr(prefilled_init, "open_store", fail)
    with pytest.raises(StoreError, match="cannot be here"):
        siltstone.init(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_new_store_can_be_read_at_once(tmp_path: Path) -> None:
    with siltstone.open(siltstone.init(tmp_path), read_only=True) as store:
        assert list(store.list()) == []


def test_of_two_makers_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stated = prefilled_init._state

    def other_first(storage: Any, manifest: StoreManifest) -> None:
        stated(storage, manifest)
        (tmp_path / "siltstone.yaml").write_text("other")

    monkeypatch.setattr(prefilled_init, "_state", other_first)
    with pytest.raises(StoreExistsError):
        siltstone.init(tmp_path)
    assert (tmp_path / "siltstone.yaml").read_text() == "other"
    assert not (tmp_path / "chunks" / "system" / "store").exists()
