"""Legacy layouts in and out, as a user sees it: files and segments before and after."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.errors import ChunkStorageFullError
from siltstone.core.hooks import load_chunk_storage
from siltstone.migration.legacy import copy_plan, folder_writer, rollback
from siltstone.migration.source.places import FolderPlace
from siltstone.store.blocking.segment import Segment
from siltstone.store.handles.import_writer import ImportWriter
from siltstone.store.store import Store
from tests.support.command import Command, Ran
from tests.support.migration.migrated_layout import (
    MANY,
    MANY_SHOWN,
    TWO,
    WAYS,
    dying,
    fingerprint,
    rolling,
    shown,
    written,
)
from tests.support.migration.migrated_layout import small as small
from tests.support.migration.places_of_tests import GOLDEN, golden_tree, manifest
from tests.support.migration.random_lives import random_life
from tests.support.migration.rolling_model import AbsentError, RollingModel

SEGMENTS: dict[str, dict[str, Any]] = {
    one["name"]: one for one in manifest()["segments"] if one["kind"] == "ok"
}


@pytest.fixture
def old(folder: Path) -> Path:
    """The golden layout, in the store's long-term storage."""
    return golden_tree(folder / "chunks" / "old")


@pytest.fixture
def several(folder: Path) -> Path:
    """Five segments, some of them unusual."""
    place = written(folder / "chunks" / "several", MANY)
    (place / "b$header").chmod(0o444)
    return place


def written_below(place: Path, files: Mapping[str, str], open_keys: Iterable[str]) -> None:
    """Write files that are sealed, except those of ``open_keys``."""
    for key, text in files.items():
        path = place / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600 if key in open_keys else 0o444)


def check_golden(found: Mapping[str, tuple[int, int, bool, bytes]]) -> None:
    assert found.keys() == SEGMENTS.keys()
    for name, (start, length, sealed, data) in found.items():
        expected = SEGMENTS[name]
        assert (start, length, sealed) == (
            expected["first_readable_offset"],
            expected["length"],
            expected["sealed"],
        ), name
        assert hashlib.sha256(data).hexdigest() == expected["readable_sha256"], name


# --- in -------------------------------------------------------------------------------------------


@pytest.mark.slow
@WAYS
def test_real_data_comes_in_exactly(
    command: Command, folder: Path, old: Path, way: tuple[str, ...]
) -> None:
    before = fingerprint(old)
    ran = command("migrate", "legacy", str(old), *way)
    assert ran.code == 6
    assert "refused: sc/st/nest-a: nested-concat" in ran.out
    assert "refused: sc/st/fsrc5: missing-last-chunk" in ran.out
    assert "absent: sc/st/create-died" in ran.out
    assert "45 ok" in ran.err
    check_golden(shown(folder))
    assert fingerprint(old) == before
    again = command("migrate", "legacy", str(old), *way)
    assert "45 same" in again.err
    ran = command("migrate", "verify", str(old))
    assert (ran.code, ran.out) == (0, "")
    assert "45 ok" in ran.err
    assert command("check", "--deep").code == 0
    other = () if way else ("--in-place",)
    assert command("migrate", "legacy", str(old), *other).code == 6
    assert fingerprint(old) == before


@pytest.mark.slow
def test_in_place_moves_and_reads_no_byte(
    command: Command, folder: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = FolderPlace.read_into

    def noted(place: FolderPlace, key: str, offset: int, buffer: memoryview) -> int:
        read.append(key)
        return real(place, key, offset, buffer)

    monkeypatch.setattr(FolderPlace, "read_into", noted)
    command("migrate", "legacy", str(old), "--in-place")
    assert {key.endswith("$header") for key in read} == {True}
    with siltstone.open(folder, read_only=True) as store:
        chunks = {chunk.chunk for chunk in store.segment("sc/st/many").chunks()}
    assert chunks == {f"old/sc/st/many$offset.{start}" for start in range(0, 7400, 64)}
    assert not list((folder / "chunks").glob("import/**/*-*"))


@pytest.mark.slow
def test_names_that_are_no_text_are_left_alone(command: Command, folder: Path, small: Path) -> None:
    (small / os.fsdecode(b"\xff$header")).write_text("maxsize=5&")
    ran = command("migrate", "legacy", str(small))
    assert ran.code == 0
    assert "left alone: " in ran.err
    assert set(shown(folder)) == {"a", "b"}


@pytest.mark.slow
def test_what_is_odd_about_a_file_lets_that_one_be_copied(command: Command, folder: Path) -> None:
    place = written(folder / "chunks" / "old", {**TWO, "a$offset.0": "abcGARBAGE"})
    assert command("migrate", "legacy", str(place), "--in-place").code == 0
    assert shown(folder)["a"] == (0, 5, False, b"abcde")
    assert command("migrate", "verify", str(place)).code == 0


@pytest.mark.slow
def test_a_dry_run_writes_nothing(command: Command, folder: Path, old: Path) -> None:
    before = fingerprint(folder)
    ran = command("migrate", "legacy", str(old), "--dry-run", "--json", "--in-place")
    assert ran.code == 6
    by_name = {value["segment"]: value for value in ran.values}
    assert {name for name, value in by_name.items() if value["action"] == "import"} == set(SEGMENTS)
    assert by_name["sc/st/nest-a"]["reason"] == "nested-concat"
    assert by_name["sc/st/trunc-inside"]["start"] == 2000
    assert by_name["sc/st/trunc-inside"]["notes"][0]["oddity"] == "truncated"
    assert command("migrate", "legacy", str(old), "--dry-run").out.startswith("action")
    assert {key: one for key, one in fingerprint(folder).items() if key in before} == before
    assert not (folder / "chunks" / "data").exists()


@pytest.mark.slow
def test_names_may_begin_otherwise(command: Command, folder: Path, small: Path) -> None:
    assert command("migrate", "legacy", str(small), "--under", "from/").code == 0
    assert shown(folder) == {"from/a": (0, 5, False, b"abcde"), "from/b": (0, 3, False, b"xyz")}
    assert command("migrate", "legacy", str(small), "--under", "_system/").code == 6
    assert command("migrate", "verify", str(small)).code == 0


@pytest.mark.slow
@WAYS
def test_random_layouts_come_in_and_go_out_as_the_original_reads_them(
    command: Command, folder: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    """Forty lives with deaths, half of them of a service that can replace headers."""
    place = folder / "chunks" / "lives"
    model = RollingModel()
    for seed in range(40):
        life = random_life(seed, f"s{seed}")
        model.files |= life.files
    for name, file in model.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(0o444 if file.sealed else 0o644)
    command("migrate", "legacy", str(place), *way)
    found = shown(folder)
    assert len(found) > 60
    assert {name: model.read(name) for name in found} == found
    assert command("migrate", "verify", str(place)).code == 0
    assert command("migrate", "export", str(tmp_path / "out")).code == 0
    written_out = rolling(tmp_path / "out")
    assert {name: written_out.read(name) for name in found} == found


# --- interrupted ----------------------------------------------------------------------------------


@pytest.mark.slow
@WAYS
def test_a_migration_that_is_killed_continues(
    command: Command,
    folder: Path,
    several: Path,
    way: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed before and after every commit; sessions are small and cut segments."""
    monkeypatch.setattr(copy_plan, "SESSION_SEGMENTS", 2)
    monkeypatch.setattr(copy_plan, "SESSION_BYTES", 4)
    steps = [(Store, "open_import"), (Store, "commit_import"), (ImportWriter, "_made")]
    for number in range(1, 4):
        owner, name = steps[number % 3]
        with monkeypatch.context() as patch:
            call = dying(getattr(owner, name), 1 + number // 3, before=number % 2 == 0)
            patch.setattr(owner, name, call)
            patch.setattr(Store, "abort_import", lambda *_: True)  # a killed process aborts none
            assert command("migrate", "legacy", str(several), "--threads", "1", *way).code in (0, 1)
    assert command("migrate", "legacy", str(several), *way).code == 0
    assert shown(folder) == MANY_SHOWN
    assert command("check", "--deep").code == 0


@pytest.mark.slow
def test_a_full_disk_half_way(
    command: Command, folder: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(small)
    with monkeypatch.context() as patch:

        def full(*_: Any) -> Any:
            raise ChunkStorageFullError("no space left", chunk="x", operation="create")

        patch.setattr(ImportWriter, "_made", full)
        ran = command("migrate", "legacy", str(small))
    assert ran.code == 1
    assert "no room" in ran.out
    assert shown(folder) == {}
    assert command("migrate", "legacy", str(small)).code == 0
    assert fingerprint(small) == before


@pytest.mark.slow
@WAYS
def test_a_layout_that_is_being_written_to(
    command: Command,
    folder: Path,
    small: Path,
    way: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Store.open_import

    def writing(store: Store, *arguments: Any, **named: Any) -> Any:
        with (small / "a$offset.3").open("a") as file:
            file.write("f")
        return real(store, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "open_import", writing)
        ran = command("migrate", "legacy", str(small), *way)
    assert ran.code == 1
    assert "failed: a: " in ran.out
    assert "a" not in shown(folder)
    assert command("migrate", "legacy", str(small), *way).code == 0
    assert shown(folder)["a"][1] > 5


@pytest.mark.slow
def test_a_file_that_cannot_be_read(
    command: Command, folder: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FolderPlace.read_into

    def failing(place: FolderPlace, key: str, offset: int, buffer: memoryview) -> int:
        if key == "a$offset.3":
            raise OSError(5, "Input/output error", key)
        return real(place, key, offset, buffer)

    monkeypatch.setattr(FolderPlace, "read_into", failing)
    ran = command("migrate", "legacy", str(small))
    assert ran.code == 1
    assert "failed: a: a$offset.3: Input/output error" in ran.out
    assert shown(folder) == {"b": (0, 3, False, b"xyz")}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [["--in-place"], [], ["--mode", "code_only"]])
def test_a_header_that_cannot_be_read_for_a_while_is_not_called_gone(
    command: Command, folder: Path, small: Path, monkeypatch: pytest.MonkeyPatch, mode: list[str]
) -> None:
    """A user who believed it and deleted the segment would lose what was appended since."""
    real = FolderPlace.read_into

    def failing(place: FolderPlace, key: str, offset: int, buffer: memoryview) -> int:
        if key == "a$header":
            raise OSError(5, "Input/output error", key)
        return real(place, key, offset, buffer)

    assert command("migrate", "legacy", str(small), *mode).code == 0
    monkeypatch.setattr(FolderPlace, "read_into", failing)
    for verb in ("verify", "rollback"):
        ran = command("migrate", verb, str(small))
        assert ran.code == 1
        assert "failed: a: " in ran.out
        assert "a$header: Input/output error" in ran.out
        assert "delete it" not in ran.out
    monkeypatch.undo()
    assert command("migrate", "rollback", str(small)).code == 0
    assert shown(folder) == {}


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_target_that_exists(command: Command, folder: Path, small: Path) -> None:
    assert command("create", "a").code == 0
    ran = command("migrate", "legacy", str(small))
    assert ran.code == 4
    assert "conflict: a: the store has another segment of this name" in ran.out
    assert shown(folder) == {"a": (0, 0, False, b""), "b": (0, 3, False, b"xyz")}
    ran = command("migrate", "legacy", str(small), "--dry-run")
    assert ran.code == 4


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"notes.txt": "x"}, "not a legacy layout"),
        ({}, "not a legacy layout"),
        ({**TWO, "b$header_3": "maxsize=1&"}, "mixed"),
    ],
)
def test_what_is_no_layout(
    command: Command, folder: Path, tmp_path: Path, files: dict[str, str], words: str
) -> None:
    place = written(tmp_path / "place", files)
    ran = command("migrate", "legacy", str(place))
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert command("migrate", "legacy", str(tmp_path / "nowhere")).code == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", [["--in-place"], [], ["--mode", "code_only"], ["--dry-run"]])
def test_a_layout_with_a_store_in_it(
    command: Command, folder: Path, small: Path, mode: list[str]
) -> None:
    """Its chunks would become chunks of this store, and be deleted with segments of this store."""
    inner = siltstone.init(small / "inner").parent
    with siltstone.open(inner):
        pass
    ran = command("migrate", "legacy", str(small), *mode)
    assert (ran.code, ran.out, shown(folder)) == (2, "", {})
    assert "a store lies there" in ran.err
    assert "inner/chunks/system/store" in ran.err


def test_in_place_needs_the_files_where_chunks_are(command: Command, tmp_path: Path) -> None:
    place = written(tmp_path / "place", TWO)
    ran = command("migrate", "legacy", str(place), "--in-place")
    assert ran.code == 2
    assert "not below the store's long-term storage" in ran.err


@pytest.mark.slow
def test_the_modes(command: Command, folder: Path, small: Path, tmp_path: Path) -> None:
    ran = command("migrate", "legacy", str(small), "--mode", "no_upgrade")
    assert ran.code == 4
    assert "nothing was done" in ran.err
    assert "a$offset" not in ran.err
    ran = command("migrate", "legacy", str(small), "--mode", "install_new")
    assert ran.code == 4
    assert "2 legacy segments" in ran.err
    empty = written(tmp_path / "empty", {})
    assert command("migrate", "legacy", str(empty), "--mode", "install_new").code == 0
    assert shown(folder) == {}


# --- compared -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["other bytes", "another layout", "not imported", "gone"])
def test_a_difference_is_found(command: Command, folder: Path, small: Path, harm: str) -> None:
    assert command("migrate", "legacy", str(small)).code == 0
    assert command("append", "b", str(small / "b$header")).code == 0
    assert command("migrate", "verify", str(small)).code == 0
    if harm == "other bytes":
        (small / "a$offset.0").write_text("abX")
    elif harm == "another layout":
        (small / "a$offset.3").write_text("def")
    elif harm == "not imported":
        (small / "c$header").write_text("maxsize=5&")
    else:
        (small / "a$offset.3").unlink()
    ran = command("migrate", "verify", str(small), "--json")
    assert ran.code == 6
    bad = {value["subject"] for value in ran.values if value["status"] != "ok"}
    assert bad == {"c" if harm == "not imported" else "a"}


@pytest.mark.slow
def test_sums_of_files_in_place_are_kept(command: Command, small: Path) -> None:
    assert command("migrate", "legacy", str(small), "--in-place").code == 0
    assert "in place without sums" in command("check", "--deep").out
    assert command("migrate", "verify", str(small), "--record-sums").code == 0
    assert "in place without sums" not in command("check", "--deep").out


# --- back -----------------------------------------------------------------------------------------


SEALED_SINCE = ("empty-noroll", "bare", "bare-empty")


def change(folder: Path) -> dict[str, bytes]:
    """Append, seal and truncate in a store; return what its segments then hold."""
    with siltstone.open(folder) as store:
        for name in ("many", "bare", "trunc-all", "cat-fail-tail", "empty", "rollover-died"):
            store.segment(f"sc/st/{name}").append(b"since " * 30)
        for name in SEALED_SINCE:
            store.segment(f"sc/st/{name}").seal()
        store.segment("sc/st/many").truncate(100)
        store.flush()
    return {name: data for name, (_, _, _, data) in shown(folder).items()}


@pytest.mark.slow
def test_a_rollback_gives_everything_back(command: Command, folder: Path, old: Path) -> None:
    before = fingerprint(old)
    command("migrate", "legacy", str(old), "--in-place")
    expected = change(folder)
    ran = command("migrate", "rollback", str(old))
    assert ran.code == 0
    assert "reappears: sc/st/many: bytes from 0 to 100 can be read again" in ran.out
    assert shown(folder) == {}
    model = rolling(old)
    for name, data in expected.items():
        found = model.read(name)
        assert found[3].endswith(data), name
        sealed = SEGMENTS[name]["sealed"] or name.removeprefix("sc/st/") in SEALED_SINCE
        assert found[2] is sealed, name
    after = fingerprint(old)
    kept = [key for key in before if not key.endswith("$header")]
    changed = {key for key in kept if after[key][:2] != before[key][:2]}
    assert changed == {
        "sc/st/bare-empty",  # its mode
        "sc/st/rollover-died$offset.100",
        "sc/st/trunc-all$offset.3500",
    }
    assert command("migrate", "rollback", str(old)).code == 4
    assert command("migrate", "legacy", str(old), "--in-place").code == 6
    assert shown(folder)["sc/st/bare"][3] == expected["sc/st/bare"]
    command("gc", "run")
    assert command("check", "--deep").code == 0


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("way_on", ["open", "sealed", "empty", "empty and sealed"])
def test_a_segment_that_begins_after_the_end_of_the_layout_goes_back(
    command: Command, folder: Path, small: Path, way: tuple[str, ...], way_on: str
) -> None:
    """The bytes before are gone from the store, so no header lists the old files any more."""
    (small / "c").write_text("bare")
    assert command("migrate", "legacy", str(small), *way).code == 0
    before = fingerprint(small)
    start, data = (9, b"") if way_on.startswith("empty") else (7, b"hi")
    with siltstone.open(folder) as store:
        for name, rest in (("a", b"fghi"), ("c", b"efghi")):
            segment = store.segment(name)
            segment.append(rest)
            segment.truncate(start)
            if way_on.endswith("sealed"):
                segment.seal()
        store.flush()
    ran = command("migrate", "rollback", str(small))
    assert (ran.code, ran.out) == (0, "")
    assert shown(folder) == {}
    after = fingerprint(small)
    assert {key for key in before if after[key] != before[key]} == {"a$header"}
    expected = (start, 9, way_on.endswith("sealed"), data)
    assert [rolling(small).read(name) for name in "ac"] == [expected, expected]
    assert command("migrate", "legacy", str(small), *way).code == 0
    assert [shown(folder)[name] for name in "ac"] == [expected, expected]


@pytest.mark.slow
@WAYS
def test_a_seal_alone_goes_back(
    command: Command, folder: Path, small: Path, way: tuple[str, ...]
) -> None:
    assert command("migrate", "legacy", str(small), *way).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").seal()
    ran = command("migrate", "rollback", str(small))
    assert (ran.code, ran.out) == (0, "")
    assert rolling(small).read("a") == (0, 5, True, b"abcde")


@pytest.mark.slow
@WAYS
def test_a_rollback_that_is_killed_continues(
    command: Command,
    folder: Path,
    small: Path,
    way: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command("migrate", "legacy", str(small), *way).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more than three")
    for owner, name in ((folder_writer, "write_header"), (Segment, "delete")):
        for before in (True, False):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, dying(getattr(owner, name), 1, before=before))
                assert command("migrate", "rollback", str(small)).code == 1
            assert rolling(small).read("b")[3] == b"xyz"
    assert command("migrate", "rollback", str(small)).code in (0, 4)
    assert shown(folder) == {}
    assert rolling(small).read("a") == (0, 20, False, b"abcdemore than three")


@pytest.mark.slow
def test_a_rollback_overwrites_nothing(command: Command, folder: Path, small: Path) -> None:
    assert command("migrate", "legacy", str(small), "--in-place").code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more")
    (small / "a$offset.5").write_text("whose?")
    ran = command("migrate", "rollback", str(small))
    assert ran.code == 1
    assert "is in the way" in ran.out
    assert shown(folder)["a"] == (0, 9, False, b"abcdemore")
    assert (small / "a$offset.5").read_text() == "whose?"


@pytest.mark.slow
@WAYS
def test_a_finalised_migration_is_for_good(
    command: Command, folder: Path, small: Path, way: tuple[str, ...]
) -> None:
    with (folder / "siltstone.yaml").open("a") as settings:
        settings.write("\ngarbage:\n  delay: 0s\n")
    assert command("migrate", "finalise", str(small)).code == 4
    assert command("migrate", "legacy", str(small), *way).code == 0
    assert command("migrate", "finalise", str(small)).code == 0
    assert command("migrate", "rollback", str(small)).code == 4
    assert shown(folder)["a"] == (0, 5, False, b"abcde")
    left = {path.name for path in small.iterdir()}
    chunks = {"a$offset.0", "a$offset.3", "b$offset.0"}
    assert left == (chunks if way else chunks | {"a$header", "b$header"})
    with siltstone.open(folder) as store:
        assert store.segment("a").info().attributes == {}
        store.segment("a").delete()
        store.collect()
        store.collect()
    left = {path.name for path in small.iterdir()}
    assert ("a$offset.0" in left) is not bool(way)


@pytest.mark.slow
def test_until_then_nothing_is_deleted(command: Command, folder: Path, small: Path) -> None:
    before = fingerprint(small)
    assert command("migrate", "legacy", str(small), "--in-place").code == 0
    with siltstone.open(folder) as store:
        store.segment("a").truncate(4)
        store.segment("b").delete()
        store.flush()
        store.collect()
        store.collect()
    assert fingerprint(small) == before
    assert command("migrate", "rollback", str(small)).code == 0
    assert fingerprint(small) == before


# --- out ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_export_is_read_by_the_original_and_comes_back_equal(
    command: Command, folder: Path, old: Path, tmp_path: Path
) -> None:
    command("migrate", "legacy", str(old))
    out = tmp_path / "out"
    assert command("migrate", "export", str(out)).code == 0
    model = rolling(out)
    expected = shown(folder)
    assert {name: model.read(name) for name in expected} == expected
    before = fingerprint(out)
    assert "45 same" in command("migrate", "export", str(out)).err
    assert fingerprint(out) == before
    again = siltstone.init(tmp_path / "again").parent
    assert command("migrate", "legacy", str(out), store=str(again)).code == 0
    assert shown(again) == expected
    second = tmp_path / "second"
    assert command("migrate", "export", str(second), store=str(again)).code == 0
    assert {key: one[:2] for key, one in fingerprint(second).items()} == {
        key: one[:2] for key, one in before.items()
    }
    for name in ("many", "trunc-boundary", "one", "empty-sealed", "0.#epoch.0"):
        header = f"sc/st/{name}$header"
        real = (GOLDEN / "tree" / header).read_bytes()
        if "trunc" not in name:
            assert (out / header).read_bytes() == real


@pytest.mark.slow
def test_what_was_written_here_goes_out(command: Command, folder: Path, tmp_path: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("plain").append(b"0123456789")
        store.flush()
        store.segment("plain").append(b"in tier 1 only")
        store.segment("plain").truncate(4)
        store.create("x&y").append(b"z")
        store.create("a//b").append(b"z")
    ran = command("migrate", "export", str(tmp_path / "out"))
    assert ran.code == 2
    assert "refused: x&y" in ran.out
    assert "refused: a//b" in ran.out
    model = rolling(tmp_path / "out")
    assert model.read("plain") == (4, 24, False, b"456789in tier 1 only")
    with pytest.raises(AbsentError):
        model.read("x&y")


# --- elsewhere ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_layout_in_a_bucket(command: Command, tmp_path: Path) -> None:
    name = f"bucket-{tmp_path}"
    storage = load_chunk_storage("memory", {"name": name})
    store = siltstone.init(tmp_path / "far", binding="memory", options={"name": name}).parent
    files = {**TWO, "b$header": "maxsize=9&0=b$offset.0&", "b$offset.0": "xyz", "c$header": ""}
    for key, text in files.items():
        if text:
            storage.create(f"old/{key}", [text.encode()])

    def call(*arguments: str) -> Ran:
        return command(*arguments, store=str(store))

    ran = call("migrate", "legacy", "storage:old")
    assert ran.code == 6
    assert "refused: a: sealed-unknown" in ran.out
    sealed = tmp_path / "sealed"
    sealed.write_text("b$header\nb$offset.0\n")
    told = ("storage:old/", "--sealed", str(sealed))
    assert call("migrate", "legacy", *told, "--in-place").code == 0
    assert shown(store) == {"a": (0, 5, False, b"abcde"), "b": (0, 3, True, b"xyz")}
    assert call("migrate", "verify", *told, "--record-sums").code == 0
    assert call("migrate", "finalise", *told).code == 0
    left = {found.name for found in storage.list("old/")}
    assert left == {f"old/{key}" for key in ("a$offset.0", "a$offset.3", "b$offset.0")}
    assert shown(store)["b"] == (0, 3, True, b"xyz")


@pytest.mark.slow
def test_a_layout_of_hdfs_and_back(command: Command, folder: Path) -> None:
    files = {f"{key}_{'7' if key == 'a$header' else 'sealed'}": text for key, text in TWO.items()}
    files |= {"b$header_sealed": "maxsize=9&0=b$offset.0&", "b$offset.0_sealed": "xyz"}
    files |= {"c_3": "bare", "d$header_9": "maxsize=9&"}
    place = written(folder / "chunks" / "old", files)
    assert command("migrate", "legacy", str(place), "--in-place").code == 0
    assert shown(folder) == {
        "a": (0, 5, False, b"abcde"),
        "b": (0, 3, True, b"xyz"),
        "c": (0, 4, False, b"bare"),
        "d": (0, 0, False, b""),
    }
    with siltstone.open(folder) as store:
        for name in ("a", "c", "d"):
            store.segment(name).append(b"since")
        store.segment("a").seal()
        store.segment("c").seal()
    expected = shown(folder)
    ran = command("migrate", "rollback", str(place))
    assert (ran.code, ran.out) == (0, "")
    kept = [key for key in files if "header" not in key]
    assert {key: (place / key).read_text() for key in kept} == {key: files[key] for key in kept}
    assert command("migrate", "legacy", str(place)).code == 0
    assert shown(folder) == expected


CHAINS = {
    "s/a$header_0_1": TWO["a$header"].replace("=a", "=s/a")[:20],
    "s/a$header_20_4": TWO["a$header"].replace("=a", "=s/a")[20:],
    "s/a$offset.0_0_1": "ab",
    "s/a$offset.0_2_4": "c",
    "s/a$offset.3_0_4": "de",
    "s/b$header_0_4": "maxsize=9&0=s/b$offset.0&",
    "s/b$offset.0_0_3": "",
    "s/b$offset.0_0_4": "xyz",
    "s/c_0_1": "ba",
    "s/c_2_4": "re",
    "s/c$state_0_1": "state",
}


@pytest.mark.slow
@WAYS
def test_a_layout_of_hdfs_before_0_3_and_back(
    way: tuple[str, ...], command: Command, folder: Path
) -> None:
    place = folder / "chunks" / "old"
    written_below(place, CHAINS, open_keys=("s/a$header_20_4", "s/a$offset.3_0_4", "s/c_2_4"))
    before = fingerprint(place)
    expected = {
        "s/a": (0, 5, False, b"abcde"),
        "s/b": (0, 3, True, b"xyz"),
        "s/c": (0, 4, False, b"bare"),
        "s/c$state": (0, 5, True, b"state"),
    }
    assert command("migrate", "legacy", str(place), "--dry-run").code == 0
    assert command("migrate", "legacy", str(place), *way).code == 0
    assert shown(folder) == expected
    assert command("migrate", "verify", str(place)).code == 0
    assert command("migrate", "rollback", str(place)).code == 0
    assert shown(folder) == {}
    assert command("migrate", "legacy", str(place), *way).code == 0
    with siltstone.open(folder) as store:
        store.segment("s/c").append(b"since")
    ran = command("migrate", "rollback", str(place))
    assert (ran.code, "s/c: its files are named as on HDFS before 0.3" in ran.err) == (4, True)
    assert fingerprint(place) == before
    assert command("migrate", "finalise", str(place)).code == 0
    assert shown(folder) == {**expected, "s/c": (0, 9, False, b"baresince")}
    kept = {key for key in CHAINS if "header" not in key and CHAINS[key]} if way else set(CHAINS)
    assert {path.relative_to(place).as_posix() for path in place.rglob("*_*")} == kept


@pytest.mark.slow
def test_the_store_does_not_continue_in_files_of_hdfs_before_0_3(
    command: Command, folder: Path
) -> None:
    place = folder / "chunks" / "old"
    written_below(place, CHAINS, open_keys=("s/a$header_20_4", "s/a$offset.3_0_4"))
    before = fingerprint(place)
    ran = command("migrate", "legacy", str(place), "--mode", "code_only")
    assert (ran.code, ran.out.count("not-writable")) == (6, 4)
    assert fingerprint(place) == before
    assert shown(folder) == {}


# --- every step -----------------------------------------------------------------------------------

STEPS = (
    (Store, "open_import"),
    (Store, "commit_import"),
    (Store, "release_adoption"),
    (Store, "finalise_adoption"),
    (ImportWriter, "_made"),
    (Segment, "seal"),
    (Segment, "delete"),
    (Segment, "set_attributes"),
    (folder_writer, "write_chunks"),
    (folder_writer, "write_header"),
    (folder_writer, "set_sealed"),
    (rollback, "_remove"),
)


@pytest.mark.soak
@WAYS
@pytest.mark.parametrize("end", ["rollback", "finalise"])
@pytest.mark.parametrize(
    ("owner", "name"), STEPS, ids=lambda one: str(getattr(one, "__name__", one))
)
def test_every_step_may_be_the_last_one(
    command: Command,
    folder: Path,
    several: Path,
    way: tuple[str, ...],
    end: str,
    owner: Any,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed before and after the n-th call of a step, for every n."""
    monkeypatch.setattr(copy_plan, "SESSION_SEGMENTS", 2)
    monkeypatch.setattr(copy_plan, "SESSION_BYTES", 4)

    def killed(*arguments: str) -> None:
        for number in range(1, 12):
            calls: list[str] = []
            for before in (True, False):
                with monkeypatch.context() as patch:
                    real = getattr(owner, name)
                    counted = dying(noting(real, calls), number, before=before)
                    patch.setattr(owner, name, counted)
                    patch.setattr(Store, "abort_import", lambda *_: True)
                    command(*arguments)
            if len(calls) < number:
                return

    killed("migrate", "legacy", str(several), "--threads", "1", *way)
    command("migrate", "legacy", str(several), *way)
    assert shown(folder) == MANY_SHOWN
    with siltstone.open(folder) as store:
        for segment in "acf":
            store.segment(segment).append(b"since")
        store.segment("a").seal()
    expected = shown(folder)
    killed("migrate", end, str(several))
    if end == "finalise":
        assert command("migrate", end, str(several)).code in (0, 4)
        assert shown(folder) == expected
        with siltstone.open(folder, read_only=True) as store:
            assert all(not info.attributes for info in store.list())
    else:
        assert command("migrate", end, str(several)).code in (0, 4)
        assert shown(folder) == {}
        model = rolling(several)
        assert {segment: model.read(segment) for segment in expected} == expected
        assert command("migrate", "legacy", str(several), *way).code == 0
        assert shown(folder) == expected
    assert command("check", "--deep").code == 0


def noting(real: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        calls.append("")
        return real(*arguments, **named)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [True, False])
def test_an_end_is_shown_first(
    command: Command, folder: Path, small: Path, *, in_place: bool
) -> None:
    for verb in ("rollback", "finalise"):
        assert command("migrate", verb, str(small), "--dry-run").code == 4, "nothing written yet"
    flags = ("--in-place",) if in_place else ()
    assert command("migrate", "legacy", str(small), *flags).code == 0
    before, held = fingerprint(small), shown(folder)
    with siltstone.open(folder):
        for verb in ("rollback", "finalise"):
            ran = command("migrate", verb, str(small), "--dry-run", "--json")
            assert (ran.code, {one["status"] for one in ran.values}) == (0, {"ok"})
            assert {one["subject"] for one in ran.values} == set(held)
    assert command("migrate", "rollback", str(small), "--dry-run", "--takeover").code == 2
    assert (fingerprint(small), shown(folder)) == (before, held)
    assert command("migrate", "rollback", str(small)).code == 0, "it is still possible"
