"""What the verbs of ``objects`` say when a disk is full, or a snapshot ends while they read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkStorageFullError
from siltstone.objects import async_keyspaces
from siltstone.testing.faults.file_layer import FullDisk
from siltstone.tier1.file import fenced_log
from tests.support.command import Command

VALUE = Random(1).randbytes(3_000_000)


@pytest.fixture
def photos(command: Command, folder: Path) -> Command:
    """The command, with a keyspace of one object."""
    with siltstone.open(folder) as store:
        objects.create(store, "photos").put("b", "k", b"as it was")
    return command


def test_a_put_on_a_full_disk_fails_and_changes_nothing(
    photos: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "value").write_bytes(VALUE)
    put = ("objects", "put", "photos", "b", "k", str(tmp_path / "value"))
    with monkeypatch.context() as patched:
        patched.setattr(fenced_log, "SystemFileCalls", lambda: FullDisk(room=1_000_000))
        ran = photos(*put)
    assert (ran.code, ran.out, "StorageFullError in docs/errors.md" in ran.err) == (1, "", True)
    assert photos("objects", "get", "photos", "b", "k").out == "as it was"
    assert photos("objects", "check", "--deep").code == 0
    assert photos(*put).code == 0


def test_a_backup_in_a_place_that_is_full_is_none_and_a_repeat_makes_it(
    photos: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "place")
    create = NfsChunkStorage.create

    def full(self: NfsChunkStorage, name: str, *rest: object) -> None:
        if "/values/" in name:
            raise ChunkStorageFullError("no room", chunk=name, operation="create")
        create(self, name, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(NfsChunkStorage, "create", full)
        ran = photos("objects", "backup", "photos", place)
    assert (ran.code, ran.out, "no room" in ran.err) == (1, "", True)
    assert photos("objects", "backups", place, "--json").values == []
    assert photos("objects", "backup", "photos", place).code == 0
    assert photos("objects", "verify-backups", place).code == 0


def test_a_check_whose_snapshot_ends_fails_and_finds_nothing_whole(
    photos: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(async_keyspaces, "FOLD_TTL_S", 1e-9)
        ran = photos("objects", "check", "--deep")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "snapshot" in ran.err
    assert photos("objects", "check", "--deep").code == 0
