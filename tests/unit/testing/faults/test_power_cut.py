"""The power-cut layer loses exactly what POSIX lets a disk lose."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from siltstone.core.posix import sync_folder, write_fully
from siltstone.testing.faults.disk_state import PAGE_BYTES
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.testing.faults.power_cut import PowerCut


@pytest.fixture
def disk(tmp_path: Path) -> PowerCut:
    root = tmp_path / "disk"
    root.mkdir()
    return PowerCut(root)


def put(disk: PowerCut, name: str, content: bytes, *, sync: bool, folder: bool) -> int:
    fd = disk.open(str(disk.root / name), os.O_RDWR | os.O_CREAT)
    write_fully(disk, fd, [content], 0)
    if sync:
        disk.fdatasync(fd)
    if folder:
        sync_folder(disk, str((disk.root / name).parent))
    return fd


def names(disk: PowerCut) -> list[str]:
    return sorted(str(path.relative_to(disk.root)) for path in disk.root.rglob("*"))


def test_synced_file_with_synced_name_survives(disk: PowerCut) -> None:
    put(disk, "a", b"content", sync=True, folder=True)
    disk.cut()
    assert (disk.root / "a").read_bytes() == b"content"


def test_file_without_synced_name_is_gone(disk: PowerCut) -> None:
    put(disk, "a", b"content", sync=True, folder=False)
    disk.cut()
    assert names(disk) == []


def test_unsynced_content_is_gone_and_its_name_stays(disk: PowerCut) -> None:
    put(disk, "a", b"content", sync=False, folder=True)
    disk.cut()
    assert (disk.root / "a").read_bytes() == b""


def test_what_was_appended_after_the_sync_is_gone(disk: PowerCut) -> None:
    fd = put(disk, "a", b"old", sync=True, folder=True)
    write_fully(disk, fd, [b"new"], 3)
    assert (disk.root / "a").read_bytes() == b"oldnew"
    disk.cut()
    assert (disk.root / "a").read_bytes() == b"old"


def test_all_survives_when_only_the_process_dies(disk: PowerCut) -> None:
    put(disk, "a", b"content", sync=False, folder=False)
    disk.mkdir(str(disk.root / "f"))
    disk.cut(keep=1)
    assert names(disk) == ["a", "f"]
    assert (disk.root / "a").read_bytes() == b"content"


def test_unlink_and_rename_come_back(disk: PowerCut) -> None:
    for name in ("a", "b"):
        put(disk, name, name.encode(), sync=True, folder=True)
    disk.unlink(str(disk.root / "a"))
    disk.rename(str(disk.root / "b"), str(disk.root / "c"))
    put(disk, "a", b"another", sync=True, folder=False)
    disk.cut()
    assert names(disk) == ["a", "b"]
    assert (disk.root / "a").read_bytes() == b"a"


def test_a_folder_needs_the_sync_of_its_parent(disk: PowerCut) -> None:
    disk.mkdir(str(disk.root / "f"))
    put(disk, "f/a", b"x", sync=True, folder=True)
    disk.cut()
    assert names(disk) == []
    disk.restart()
    disk.mkdir(str(disk.root / "f"))
    put(disk, "f/a", b"x", sync=True, folder=True)
    sync_folder(disk, str(disk.root))
    disk.cut()
    assert names(disk) == ["f", "f/a"]


def test_removed_folder_comes_back_with_its_files(disk: PowerCut) -> None:
    disk.mkdir(str(disk.root / "f"))
    put(disk, "f/a", b"x", sync=True, folder=True)
    sync_folder(disk, str(disk.root))
    disk.unlink(str(disk.root / "f/a"))
    disk.rmdir(str(disk.root / "f"))
    disk.cut()
    assert names(disk) == ["f", "f/a"]


@pytest.mark.parametrize("seed", range(20))
def test_a_rename_is_kept_or_lost_as_a_whole(disk: PowerCut, seed: int) -> None:
    put(disk, "a", b"x", sync=True, folder=True)
    disk.rename(str(disk.root / "a"), str(disk.root / "b"))
    disk.rename(str(disk.root / "b"), str(disk.root / "c"))
    disk.cut(keep=0.5, seed=seed)
    assert names(disk) in (["a"], ["c"])


def test_a_seed_repeats_and_pages_are_kept_one_by_one(tmp_path: Path) -> None:
    def survivor(folder: str, seed: int) -> bytes:
        root = tmp_path / folder
        root.mkdir()
        disk = PowerCut(root)
        put(disk, "a", b"", sync=True, folder=True)
        put(disk, "a", b"x" * (8 * PAGE_BYTES), sync=False, folder=False)
        disk.cut(keep=0.5, seed=seed)
        return (root / "a").read_bytes()

    contents = [survivor(str(seed), seed) for seed in range(12)]
    assert contents == [survivor(f"again-{seed}", seed) for seed in range(12)]
    assert len(set(contents)) > 3
    torn = [content for content in contents if b"\0" in content and b"x" in content]
    assert torn


def test_mode_needs_fsync_and_not_fdatasync(disk: PowerCut) -> None:
    fd = put(disk, "a", b"x", sync=True, folder=True)
    disk.fsync(fd)
    before = (disk.root / "a").stat().st_mode
    disk.fchmod(fd, 0o444)
    disk.fdatasync(fd)
    disk.cut()
    assert (disk.root / "a").stat().st_mode == before
    disk.restart()
    fd = disk.open(str(disk.root / "a"), os.O_RDONLY)
    disk.fchmod(fd, 0o444)
    disk.fsync(fd)
    disk.cut()
    assert (disk.root / "a").stat().st_mode & 0o777 == 0o444


def test_a_file_that_was_cut_and_grew_again_holds_no_old_bytes(disk: PowerCut) -> None:
    fd = put(disk, "a", b"x" * 2_000, sync=True, folder=True)
    disk.ftruncate(fd, 100)
    disk.posix_fallocate(fd, 0, 3_000)
    disk.fdatasync(fd)
    write_fully(disk, fd, [b"lost"], 2_500)
    disk.cut()
    assert (disk.root / "a").read_bytes() == b"x" * 100 + bytes(2_900)


def test_links_stay_links(disk: PowerCut) -> None:
    put(disk, "a", b"x", sync=True, folder=True)
    disk.link(str(disk.root / "a"), str(disk.root / "b"))
    sync_folder(disk, str(disk.root))
    disk.cut()
    assert (disk.root / "a").samefile(disk.root / "b")


def test_a_failed_sync_loses_its_pages_for_good(disk: PowerCut) -> None:
    fd = put(disk, "a", b"", sync=True, folder=True)
    write_fully(disk, fd, [b"lost"], 0)
    disk.fail_call("fdatasync")
    with pytest.raises(OSError, match="put/output"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)  # Succeeds, but must not be trusted.
    disk.cut()
    assert (disk.root / "a").read_bytes() == bytes(4)


def test_a_failed_sync_above_the_layer_does_the_same(disk: PowerCut) -> None:
    above = FileLayer(disk)
    fd = put(disk, "a", b"kept", sync=True, folder=True)
    write_fully(above, fd, [b"LOST"], 0)
    above.fail_call("fsync", error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        above.fsync(fd)
    above.fsync(fd)
    disk.cut()
    assert (disk.root / "a").read_bytes() == b"kept"


def test_calls_fail_until_the_restart_and_old_descriptors_for_ever(disk: PowerCut) -> None:
    fd = put(disk, "a", b"x", sync=True, folder=True)
    folder = disk.open(str(disk.root), os.O_RDONLY)
    disk.cut()
    with pytest.raises(OSError, match="power"):
        disk.open(str(disk.root / "a"), os.O_RDONLY)
    disk.restart()
    with pytest.raises(OSError, match="power"):
        disk.pwritev(fd, [b"y"], 0)
    with pytest.raises(OSError, match="power"):
        disk.open("a", os.O_RDONLY, dir_fd=folder)
    disk.close(fd)
    disk.close(folder)
    fd = disk.open(str(disk.root / "a"), os.O_RDONLY)
    buffer = bytearray(3)
    assert disk.preadv(fd, [buffer], 0) == 1
    disk.close(fd)


def test_close_during_the_outage_frees_the_descriptor(disk: PowerCut) -> None:
    fd = put(disk, "a", b"x", sync=True, folder=True)
    disk.cut()
    disk.close(fd)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_removed_files_are_forgotten(disk: PowerCut) -> None:
    for number in range(30):
        disk.close(put(disk, f"{number}", b"x", sync=True, folder=True))
        disk.unlink(str(disk.root / f"{number}"))
        sync_folder(disk, str(disk.root))
    assert len(disk._pins) <= 2


def test_a_released_disk_holds_nothing_open(disk: PowerCut) -> None:
    before = len(os.listdir("/proc/self/fd"))
    other = PowerCut(disk.root)
    other.close(put(other, "a", b"x", sync=True, folder=True))
    assert len(os.listdir("/proc/self/fd")) > before
    other.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_number_that_is_used_again_is_another_file(disk: PowerCut) -> None:
    seen: list[tuple[int, ...] | None] = []
    for _ in range(20):
        disk.mkdir(str(disk.root / "folder"))
        sync_folder(disk, str(disk.root))
        fd = disk.open(str(disk.root / "folder"), os.O_RDONLY)
        seen.append(disk.identity(fd))
        disk.close(fd)
        disk.rmdir(str(disk.root / "folder"))
        sync_folder(disk, str(disk.root))
    assert None not in seen
    assert len(set(seen)) == len(seen)
