"""A store that continues a legacy layout is recovered, backed up, copied, moved and read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.exit_codes import ExitCode
from siltstone.core.errors import CorruptDataError
from tests.support.command import Command
from tests.support.migration.code_only import begin, check_original, prepared_store, written_over
from tests.support.migration.migrated_layout import fingerprint, rolling, shown, written

FILES = {"a$header": "maxsize=9&0=a$offset.0&", "a$offset.0": "abc"}
KNOWN = b"abc12345"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store of one container."""
    return prepared_store(tmp_path / "store", 1).parent


@pytest.fixture
def place(command: Command, folder: Path) -> Path:
    """The layout that the store continues; ``a`` has old and new bytes, ``c`` has new ones."""
    found = written(folder / "chunks" / "small", FILES)
    assert begin(command, found).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(KNOWN[3:])
        store.create("c").append(b"xyz")
        store.flush()
    return found


# --- recovery -------------------------------------------------------------------------------------


@pytest.fixture
def lost(folder: Path, place: Path, tmp_path: Path) -> Path:
    """The same when tier 1 is lost and the layout has bytes that the newest state does not know."""
    with siltstone.open(folder) as store:
        shutil.copytree(folder / "chunks" / "system", tmp_path / "system")
        store.segment("a").append(b"67")
        store.segment("c").append(b"!")
        store.flush()
    for name in ("tier1", "index", "chunks/system"):
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.move(tmp_path / "system", folder / "chunks" / "system")
    return place


@pytest.mark.slow
def test_a_recovery_keeps_what_is_known_and_ends_the_writing(
    command: Command, folder: Path, lost: Path
) -> None:
    before = fingerprint(lost)
    told = command("recover", "--accept-loss")
    assert told.code == 0
    assert "are lost" not in told.out
    assert shown(folder) == {"a": (0, 8, False, KNOWN), "c": (0, 3, False, b"xyz")}
    with siltstone.open(folder) as store:
        store.segment("a").append(b"NEW")
        store.segment("c").seal()
        store.flush()
    assert fingerprint(lost) == before
    assert command("check", "--deep").code == 0
    again = begin(command, lost)
    assert again.code == ExitCode.CONFLICT
    assert "the store continued without the layout" in again.out
    assert fingerprint(lost) == before
    assert command("migrate", "finalise", str(lost)).code == 0
    assert shown(folder)["a"] == (0, 11, False, KNOWN + b"NEW")
    assert command("check", "--deep").code == 0


@pytest.mark.slow
def test_a_rollback_after_a_recovery_gives_no_segment_other_bytes(
    command: Command, folder: Path, lost: Path
) -> None:
    assert command("recover", "--accept-loss").code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"NEW")
    before = fingerprint(lost)
    back = command("migrate", "rollback", str(lost))
    assert back.code == ExitCode.FAILED
    assert "failed: a: the layout has other bytes" in back.out
    assert "failed: c: the layout ends at 4, and the store at 3" in back.out
    assert fingerprint(lost) == before
    assert shown(folder)["a"] == (0, 11, False, KNOWN + b"NEW")


@pytest.mark.slow
def test_a_rollback_after_a_recovery_that_lost_nothing_succeeds(
    command: Command, folder: Path, place: Path
) -> None:
    shutil.rmtree(folder / "tier1")
    assert command("recover", "--accept-loss").code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"NEW")
    expected = shown(folder)
    assert command("migrate", "rollback", str(place)).code == 0
    check_original(place, expected)
    assert shown(folder) == {}


# --- backups and copies ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_backup_restores_every_byte_into_an_ordinary_store(
    command: Command, folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open(folder) as store:
        store.segment("a").append(b"tail")
    backups, new = str(tmp_path / "backups"), tmp_path / "new"
    assert command("backup", "create", backups).code == 0
    assert command("backup", "verify", backups).code == 0
    expected = shown(folder)
    assert command("backup", "restore", backups, str(new)).code == 0
    assert shown(new) == expected
    with siltstone.open(new) as store:
        store.segment("a").append(b" and more")
        store.create("with&").append(b"anything")
        store.flush()
        assert store.segment("a").read(0, 99) == KNOWN + b"tail and more"
    assert list((new / "chunks" / "data").rglob("*.chunk"))
    assert command("check", "--deep", store=str(new)).code == 0
    restored = str(new / "chunks" / "small")
    assert command("migrate", "finalise", restored, store=str(new)).code == 0
    assert command("check", "--deep", store=str(new)).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"!")
        store.flush()
    check_original(place, shown(folder))


@pytest.mark.slow
def test_its_segments_are_copied_out_and_none_are_copied_in(
    command: Command, folder: Path, place: Path, tmp_path: Path
) -> None:
    other = prepared_store(tmp_path / "other", 1)
    assert command("copy", str(folder), str(other), "--verify").code == 0
    assert shown(other.parent) == shown(folder)
    with siltstone.open(other) as store:
        store.segment("a").append(b" since")
        store.create("n").append(b"new")
    before, known = fingerprint(place), shown(folder)
    into = command("copy", str(other), str(folder))
    assert into.code == ExitCode.FAILED
    assert "takes no copies: finalise its migration first" in into.err
    assert (fingerprint(place), shown(folder)) == (before, known)


@pytest.mark.slow
def test_it_does_not_move_before_it_is_finalised(
    command: Command, folder: Path, place: Path
) -> None:
    (folder / "elsewhere").mkdir()
    text = (folder / "siltstone.yaml").read_text("utf-8")
    new = written_settings(folder, text)
    for verb in ("copy", "switch"):
        ran = command("storage", verb, str(new))
        assert ran.code == ExitCode.FAILED
        assert "its headers would stay" in ran.err
        assert not list((folder / "elsewhere").iterdir())
    assert (folder / "siltstone.yaml").read_text("utf-8") == text
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more")
        store.flush()
    check_original(place, shown(folder))
    assert command("migrate", "finalise", str(place)).code == 0
    assert command("storage", "switch", str(new)).code == 0
    assert shown(folder)["a"] == (0, 12, False, KNOWN + b"more")


def written_settings(folder: Path, text: str) -> Path:
    new = folder / "new.yaml"
    new.write_text(text.replace("path: ./chunks", "path: ./elsewhere"), "utf-8")
    return new


# --- rewritten by others --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rewrite_of_equal_length_is_noticed_where_a_sum_is_known(
    command: Command, folder: Path, place: Path
) -> None:
    """Bytes that the store wrote have a sum from their flush on."""
    written_over(place / "a$offset.3", "1Z345")
    with siltstone.open(folder) as store, pytest.raises(CorruptDataError, match=r"a\$offset\.3"):
        store.segment("a").read(3, 5)
    ran = command("check", "--deep")
    assert (ran.code, "damage: small/a$offset.3" in ran.out) == (ExitCode.DAMAGE, True)
    verified = command("migrate", "verify", str(place))
    assert (verified.code, "differs: a:" in verified.out) == (ExitCode.DAMAGE, True)


@pytest.mark.slow
def test_old_bytes_are_watched_from_the_moment_their_sums_are_recorded(
    command: Command, folder: Path, place: Path
) -> None:
    old = place / "a$offset.0"
    written_over(old, "aBc")
    with siltstone.open(folder) as store:
        assert store.segment("a").read(0, 3) == b"aBc"
    assert "without sums, 3 bytes: not verified" in command("check", "--deep").out
    written_over(old, "abc")
    assert command("migrate", "verify", str(place), "--record-sums").code == 0
    written_over(old, "aBc")
    with siltstone.open(folder) as store, pytest.raises(CorruptDataError, match=r"a\$offset\.0"):
        store.segment("a").read(0, 3)
    assert "damage: small/a$offset.0" in command("check", "--deep").out
    written_over(old, "abc")
    with siltstone.open(folder) as store:
        store.segment("a").append(b"6")
        store.flush()
    assert rolling(place).read("a") == (0, 9, False, KNOWN + b"6")
    assert command("check", "--deep").out == ""
