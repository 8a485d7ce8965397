"""A backup has everything that was acknowledged before it began; a restore has all its bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import KIB, MIB, container_of
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkStorageFullError,
    CorruptDataError,
    LogLostError,
    LostDataError,
    SettingsError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.migration.backup.admin import collect_backups, list_backups, remove_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.store.admin import place_settings
from siltstone.store.site import site_of
from tests.support.migration.backups import content, content_of, damage, files, noise, tmp_path
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with chunks of 64 KiB."""
    return make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.mark.slow
def test_a_restored_store_has_every_byte_and_continues(place: Path, tmp_path: Path) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=2)
    with siltstone.open(folder) as store:
        for number in range(6):
            segment = store.create(f"s{number}", attributes={"colour": f"{number}"})
            segment.append(noise(40 * KIB * number + 7))
        store.flush()
        store.segment("s2").truncate(50 * KIB)
        store.segment("s3").seal()
        store.segment("s4").delete()
        store.create("empty")
        store.segment("s1").append(b"not flushed")
        store.create("in tier 1 alone").append(noise(10_000))
        store.segment("s0").writer("w").append(b"once", sequence=7)
        store.create_table("t").put(b"key", b"value")
        store.set_retention("s0", bytes_max=MIB)
        expected = content(store)
        report = create_backup(folder, place)
        assert content(store) == expected
    assert report.backup.generation == 1
    assert verify_backups(place).findings == ()
    made = restore_backup(place, tmp_path / "new")
    assert made.settings == tmp_path / "new" / "siltstone.yaml"
    assert content_of(tmp_path / "new") == expected
    with siltstone.open(tmp_path / "new") as store:
        found = store.table("t").get(b"key")
        assert found is not None
        assert found.value == b"value"
        assert [rule.name for rule in store.retention()] == ["s0"]
        # A repeat of an append in the backup is recognised.
        again = store.segment("s0").writer("w").append(b"once", sequence=7)
        assert again == len(expected["s0"].data) - 4
        store.segment("s1").append(b"more")
        store.flush()
        store.collect()
    found_then = content_of(tmp_path / "new")
    assert found_then["s1"].data == expected["s1"].data + b"more"
    assert {**found_then, "s1": expected["s1"]} == expected


@pytest.mark.slow
def test_nothing_of_two_stores_is_mixed_up(folder: Path, place: Path, tmp_path: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(noise(100_000))
        store.flush()
        store.segment("a").append(b"tail")
    before = files(folder)
    create_backup(folder, place)
    assert files(folder) == before, "a backup leaves nothing in its store"
    old_log = {"path": str(folder / "tier1")}
    with pytest.raises(LogLostError, match="in use by another container"):
        restore_backup(place, site_of(tmp_path / "wrong", log_options=old_log))
    chunks = {"path": str(folder / "chunks")}
    with pytest.raises(StoreExistsError, match="not empty"):
        restore_backup(place, site_of(tmp_path / "wrong2", options=chunks))
    with pytest.raises(StoreExistsError, match="a store here already"):
        restore_backup(place, folder)
    assert files(folder) == before
    restore_backup(place, tmp_path / "new")
    old, new = folder / "siltstone.yaml", tmp_path / "new" / "siltstone.yaml"
    text = new.read_text(encoding="utf-8")
    # The new chunks with the old log, and with the old id.
    new.write_text(text.replace("path: ./tier1", f"path: {folder / 'tier1'}"), encoding="utf-8")
    with pytest.raises((LogLostError, CorruptDataError)):
        siltstone.open(new)
    uuid = old.read_text(encoding="utf-8").split('uuid: "')[1][:36]
    own = text.split('uuid: "')[1][:36]
    assert uuid != own
    new.write_text(text.replace(own, uuid), encoding="utf-8")
    with pytest.raises(StoreError, match="another store"):
        siltstone.open(new)
    new.write_text(text, encoding="utf-8")
    assert files(folder) == before
    assert content_of(new) == content_of(folder)


@pytest.mark.slow
def test_a_later_backup_moves_what_is_new_and_no_more(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    chunks = place / "siltstone-backup"

    def fragments() -> dict[str, bytes]:
        return {name: data for name, data in files(chunks).items() if "/chunks/" in name}

    with siltstone.open(folder) as store:
        for number in range(10):
            store.create(f"s{number}").append(noise(64 * KIB))
        store.flush()
        first = create_backup(folder, place)
        assert (first.copied_fragments, first.copied_bytes) == (10, 640 * KIB)
        then = fragments()
        assert len(then) == 10
        again = create_backup(folder, place)
        assert (again.copied_fragments, again.copied_bytes) == (0, 0)
        store.create("new").append(noise(100))
        store.segment("new").flush()
        third = create_backup(folder, place)
        assert (third.copied_fragments, third.copied_bytes) == (1, 100)
        # The same chunk has more now: the block that was not whole is copied again.
        store.segment("new").append(noise(200))
        store.segment("new").flush()
        fourth = create_backup(folder, place)
        assert (fourth.copied_fragments, fourth.copied_bytes) == (1, 300)
        expected = content(store)
    assert fragments().items() >= then.items()
    assert len(fragments()) == 12
    assert [found.number for found in list_backups(place)] == [1, 2, 3, 4]
    restore_backup(place, tmp_path / "new")
    assert content_of(tmp_path / "new") == expected
    restore_backup(place, tmp_path / "old", 3)
    assert len(content_of(tmp_path / "old")["new"].data) == 100


@pytest.mark.slow
def test_generations_go_and_what_they_alone_named_is_collected(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    kept = []
    with siltstone.open(folder) as store:
        for number in range(3):
            store.create(f"s{number}").append(noise(30_000))
            store.flush()
            if number:
                store.segment(f"s{number - 1}").delete()
            create_backup(folder, place)
            kept.append(content(store))
    all_of_it = files(place)
    assert collect_backups(place).count == 0
    with pytest.raises(StoreNotFoundError, match="no such backup"):
        remove_backups(place, [2, 9])
    assert len(list_backups(place)) == 3
    for _ in range(2):  # the second call says that it is done
        remove_backups(place, [1])
    planned = collect_backups(place, dry_run=True)
    assert len(files(place)) == len(all_of_it) - 2
    done = collect_backups(place)
    assert done == planned
    gone = {name for name in all_of_it if name not in files(place)}
    assert any("/s0/" in name for name in gone)
    assert not any("/s1/" in name or "/s2/" in name for name in gone)
    assert verify_backups(place).findings == ()
    for number in (2, 3):
        restore_backup(place, tmp_path / f"new{number}", number)
        assert content_of(tmp_path / f"new{number}") == kept[number - 1]
    remove_backups(place, [2, 3])
    collect_backups(place)
    assert files(place) == {}


@pytest.mark.slow
def test_the_owner_continues_while_a_backup_is_made(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    """Appends, truncations, deletes and garbage collection continue while backups are made.

    A backup has at least what was acknowledged before it began, at most what was acknowledged when
    it ended, and everything in it is of one moment for each container.
    """
    stop = threading.Event()
    bounds: list[tuple[int, int]] = []
    with siltstone.open(folder) as store:
        store.create("log")
        others, data = noise(300 * KIB), noise(16 * MIB)
        store.create("other").append(others)
        acknowledged = [0]

        def work() -> None:
            number, position = 0, 0
            while not stop.is_set() and position < len(data):
                length = min(7_919, len(data) - position)
                store.segment("log").append(data[position : position + length])
                position += length
                acknowledged[0] = position
                number += 1
                store.create(f"short{number}").append(noise(5_000))
                if number % 3 == 0:
                    store.flush()
                    store.segment(f"short{number - 1}").delete()
                    store.segment("other").truncate(min(300 * KIB, 4_096 * number))
                    store.collect()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            for number in range(4):
                while number == 3 and acknowledged[0] <= bounds[0][1] and worker.is_alive():
                    time.sleep(0.001)
                low = acknowledged[0]
                create_backup(folder, place)
                bounds.append((low, acknowledged[0]))
        finally:
            stop.set()
            worker.join()
    assert bounds[-1][0] > bounds[0][1], "there was something to do meanwhile"
    assert verify_backups(place).findings == ()
    for number, (low, high) in enumerate(bounds, 1):
        restore_backup(place, tmp_path / f"new{number}", number)
        found = content_of(tmp_path / f"new{number}")
        # One append may be durable before the thread has noted its acknowledgement.
        assert low <= len(found["log"].data) <= high + 7_919
        assert found["log"].data == data[: len(found["log"].data)]
        assert found["other"].data == others[found["other"].start :]
        for name, seen in found.items():
            if name.startswith("short"):
                assert len(seen.data) in (0, 5_000)


@pytest.mark.slow
def test_one_container_is_backed_up_alone(place: Path, tmp_path: Path) -> None:
    folder = make_store(tmp_path / "store", containers=2)
    with siltstone.open(folder) as store:
        for number in range(8):
            store.create(f"s{number}").append(noise(1_000))
        expected = content(store)
    create_backup(folder, place, containers=[1])
    with pytest.raises(ValueError, match="no container 2: the store has 2 containers, from 0 on"):
        create_backup(folder, place, containers=[2])
    restore_backup(place, tmp_path / "new")
    found = content_of(tmp_path / "new")
    assert found == {name: seen for name, seen in expected.items() if container_of(name, 2)}
    assert 0 < len(found) < 8


@pytest.mark.slow
def test_damage_in_the_store_is_told_and_makes_no_silent_hole(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open(folder) as store:
        for name in ("a", "b", "c"):
            store.create(name).append(noise(50_000))
        store.flush()
        expected = content(store)
    paths = {path.parent.name: path for path in (folder / "chunks" / "data").rglob("*.chunk")}
    damage(paths["a"], 40_000)
    paths["b"].unlink()
    with pytest.raises(CorruptDataError, match="2 chunks of the store cannot be read") as caught:
        create_backup(folder, place)
    assert "/a/" in str(caught.value)
    assert list_backups(place) == []
    report = create_backup(folder, place, allow_missing=True)
    assert {Path(name).parent.name for name in report.missing} == {"a", "b"}
    assert report.found_fragments == 1, "what was copied before is not copied again"
    findings = verify_backups(place).findings
    assert {(found.status, Path(found.subject).parent.name) for found in findings} == {
        ("absent", "a"),
        ("absent", "b"),
    }
    with pytest.raises(StoreError, match="made without chunks"):
        restore_backup(place, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    made = restore_backup(place, tmp_path / "new", allow_missing=True)
    assert len(made.missing) == 2
    with siltstone.open(tmp_path / "new") as store:
        assert store.segment("c").read(0, MIB) == expected["c"].data
        for name in ("a", "b"):
            with pytest.raises(LostDataError):
                store.segment(name).read(0, 100)
        assert {found.severity for found in store.check()} >= {"damage"}


@pytest.mark.slow
def test_whatever_of_a_backup_is_damaged_or_gone_is_named(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(noise(70_000))
        store.flush()
        store.segment("a").append(b"tail")
        store.create("b").append(b"small")
        expected = content(store)
    create_backup(folder, place)
    names = list(files(place))
    assert {name.split("/")[2] for name in names} == {"chunks", "files", "generations"}
    for number, name in enumerate(names):
        path = place / name
        whole = path.read_bytes()
        for kind in ("damaged", "gone"):
            if kind == "gone":
                path.unlink()
            else:
                damage(path, len(whole) // 2)
            found = verify_backups(place).findings
            assert [finding.subject for finding in found] == [name], (name, kind, found)
            assert found[0].generations == (1,)
            assert found[0].status == ("missing" if kind == "gone" else "damaged"), (name, kind)
            target = tmp_path / f"new{number}{kind}"
            if "/generations/" in name or whole.startswith(b"MANIFEST-"):
                # It exists twice; or it names the manifest, as its own name does.
                restore_backup(place, target)
                assert content_of(target) == expected
            else:
                with pytest.raises(CorruptDataError) as caught:
                    restore_backup(place, target)
                assert name in str(caught.value)
                assert not (target / "siltstone.yaml").exists()
            path.write_bytes(whole)
    assert verify_backups(place).findings == ()


def test_a_generation_that_is_not_there_is_not_called_sound(folder: Path, place: Path) -> None:
    create_backup(folder, place)
    with pytest.raises(StoreNotFoundError, match="there is no such backup"):
        verify_backups(place, [1, 2])
    assert verify_backups(place, [1]).generations == (1,)


def test_a_place_is_refused_that_cannot_be_one(folder: Path, place: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="folder of a store"):
        create_backup(folder, folder)
    with pytest.raises(StoreError, match="long-term storage of a store"):
        create_backup(folder, folder / "chunks")
    with pytest.raises(SettingsError, match="no such folder"):
        list_backups(place)
    place.mkdir()
    with pytest.raises(StoreNotFoundError, match="no backups are here"):
        list_backups(place)
    wrong = tmp_path / "place.yaml"
    wrong.write_text("long_term_storage: {binding: nfs, nfs: {path: ./x}}\nflush: {}\n")
    with pytest.raises(SettingsError, match="unknown key"):
        create_backup(folder, wrong)
    good = tmp_path / "good.yaml"
    good.write_text("long_term_storage: {binding: nfs, nfs: {path: ./backups}}\n")
    place.rmdir()
    place.mkdir()
    create_backup(folder, good)
    assert [found.number for found in list_backups(place)] == [1]


@pytest.mark.slow
def test_backups_of_several_stores_lie_in_one_place(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    other = make_store(tmp_path / "other")
    with siltstone.open(other) as store:
        store.create("o").append(b"o")
        uuid = store.uuid
    create_backup(folder, place)
    create_backup(other, place)
    with pytest.raises(SettingsError, match="several stores"):
        list_backups(place)
    assert [found.number for found in list_backups(place, uuid)] == [1]
    restore_backup(place, tmp_path / "new", store=uuid)
    assert list(content_of(tmp_path / "new")) == ["o"]
    with pytest.raises(StoreNotFoundError):
        list_backups(place, "12345678-1234-1234-1234-123456789abc")


class _Full(WrappedChunkStorage):
    """Has room for two objects."""

    room = 2

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        if "/turns/" not in name:
            if not self.room:
                raise ChunkStorageFullError("no room", chunk=name, operation="create")
            type(self).room -= 1
        super().create(name, buffers)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        self.create(name, [b"".join(bytes(piece) for piece in pieces)])


def test_a_full_place_is_told_and_the_store_is_untouched(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        for number in range(4):
            store.create(f"s{number}").append(noise(1_000))
        store.flush()
    before = files(folder)
    with monkeypatch.context() as patch:
        patch.setattr(
            place_settings, "load_chunk_storage", lambda *args: _Full(load_chunk_storage(*args))
        )
        with pytest.raises(ChunkStorageFullError, match="siltstone-backup/"):
            create_backup(folder, place)
    assert files(folder) == before
    assert list_backups(place) == []
    report = create_backup(folder, place)
    assert (report.found_fragments, report.copied_fragments) == (2, 2)


class _Still(SystemEnvironment):
    """A stopped clock, and waits that are only noted."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def monotonic(self) -> float:
        return 100.0

    def pause(self, seconds: float) -> None:
        self.waited.append(seconds)


def test_small_objects_wait_for_the_rate_as_well(place: Path) -> None:
    environment = _Still()
    storage = place_settings.open_place(
        place_settings.find_place(place), environment, rate=64 * KIB, make=True
    )
    for number in range(5):
        storage.create(f"o{number}", [bytes(64 * KIB)])
    storage.close()
    # The first second is free; each wait is for the objects before.
    assert environment.waited == [1.0, 2.0, 3.0]


def test_a_backup_keeps_to_the_rate_and_tells_how_far_it_is(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        for number in range(4):
            store.create(f"s{number}").append(noise(64 * KIB))
        store.flush()
    waited: list[float] = []
    monkeypatch.setattr(SystemEnvironment, "pause", lambda _, seconds: waited.append(seconds))
    told: list[tuple[int, int]] = []
    create_backup(folder, place, rate=KIB, progress=lambda done, total: told.append((done, total)))
    assert sum(waited) > 60
    assert told[-1] == (256 * KIB, 256 * KIB)
    assert len(told) == 4


@pytest.mark.slow
def test_objects_in_place_without_sums_are_backed_up_too(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    data = noise(600_000)
    old = folder / "chunks" / "old" / "object"
    old.parent.mkdir()
    old.write_bytes(data)
    with siltstone.open(folder) as store:
        ticket = store.open_import("old", "a", adoption="old")
        chunk = siltstone.ImportedChunk(name="old/object", length=len(data), sums=None)
        output = siltstone.ImportOutput(
            segment="a", chunks=(chunk,), mode=siltstone.ImportMode.CREATE, sealed=False
        )
        store.commit_import(ticket, [output])
        store.segment("a").append(b"more")
        expected = content(store)
    assert expected["a"].data == data + b"more"
    assert create_backup(folder, place).copied_bytes == len(data)
    assert create_backup(folder, place).copied_bytes == 0
    restore_backup(place, tmp_path / "new")
    assert (tmp_path / "new" / "chunks" / "old" / "object").read_bytes() == data
    with siltstone.open(tmp_path / "new") as store:
        assert content(store) == expected
        assert [found for found in store.check(deep=True) if found.severity == "damage"] == []
    # The place has its own sum.
    stored = next(place.rglob("object.*.0-600000"))
    damage(stored, 7)
    assert [found.status for found in verify_backups(place).findings] == ["damaged"]


@pytest.mark.slow
def test_the_next_backup_brings_again_what_the_place_has_lost(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    for _ in range(3):
        siltstone.open(folder).close()
    with siltstone.open(folder) as store:
        store.create("a").append(noise(50_000))
        store.create("b").append(noise(50_000))
        store.flush()
        expected, epoch = content(store), store.stats()[0].epoch
    create_backup(folder, place)
    next(place.rglob("*.0-50000")).unlink()
    for path in place.rglob("0-index-*"):
        path.unlink()
    assert len(verify_backups(place).findings) > 1
    report = create_backup(folder, place)
    assert (report.copied_fragments, report.copied_files) >= (1, 4)
    assert verify_backups(place, [2]).findings == ()
    # No owner ever writes into chunks of an epoch that the backup has.
    restore_backup(place, tmp_path / "new")
    with siltstone.open(tmp_path / "new") as store:
        store.segment("a").append(b"more")
        store.flush()
        names = [chunk.chunk for chunk in store.segment("a").chunks()]
        assert len(names) == 2
        assert names[0].split("/")[2] < names[1].split("/")[2]
        assert store.stats()[0].epoch > epoch
        assert store.segment("b").read(0, MIB) == expected["b"].data
