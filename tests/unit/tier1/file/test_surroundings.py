"""Where a file log may be, how it is set up, and what it leaves in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.constants import MIB
from siltstone.core.errors import CapabilityError, FencedError, LogError, SettingsError
from siltstone.core.fenced_log import LogCondition
from siltstone.core.hooks import load_fenced_log
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.network import FileSystem, file_system_of
from siltstone.tier1.file.plugin import siltstone_fenced_log
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from tests.support.faults.held_things import held_uncollected
from tests.support.file_log.log_world import LINEAGE, claim, create, files, put, shown

EXT4, NFS, FUSE = 0xEF53, 0x6969, 0x65735546


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (NFS, "nfs4"),
        (0x517B, "smb"),
        (0xFF534D42, "cifs"),
        (0xFE534D42, "smb3"),
        (0x00C36400, "ceph"),
        (0x0BD00BD0, "lustre"),
        (FUSE, "fuse.glusterfs"),
        (FUSE, "fuse.sshfs"),
        (FUSE, "virtiofs"),
        (FUSE, ""),
    ],
)
def test_network_file_systems_are_refused(tmp_path: Path, number: int, name: str) -> None:
    found = FileSystem(number=number, name=name)
    log = FileFencedLog(str(tmp_path / "a/b"), 0, file_system=lambda path: found)
    with pytest.raises(CapabilityError, match="local file system"):
        log.claim(lineage=LINEAGE, new=True, above=0, takeover=True, owner="a")
    (refusal,) = log.condition().refusals
    assert refusal.startswith("a file log needs a local file system")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "name"), [(EXT4, "ext4"), (FUSE, "fuseblk"), (FUSE, "fuse.fuse-overlayfs")]
)
def test_local_file_systems_are_accepted(tmp_path: Path, number: int, name: str) -> None:
    found = FileSystem(number=number, name=name)
    log = FileFencedLog(str(tmp_path), 0, file_bytes=MIB, file_system=lambda path: found)
    assert log.condition() == LogCondition()
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")
    log.close()


def test_the_kernel_is_asked() -> None:
    found = file_system_of("/proc")
    assert (found.number, found.name) == (0x9FA0, "proc")
    with pytest.raises(FileNotFoundError):
        file_system_of("/proc/nothing here")


def test_a_log_is_found_by_name(tmp_path: Path) -> None:
    log = load_fenced_log("file", {"path": str(tmp_path), "file_bytes": "1MiB"}, 7)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")
    log.close()
    assert (tmp_path / "c7").is_dir()
    assert isinstance(load_fenced_log("memory", {}, 0), MemoryFencedLog)
    assert siltstone_fenced_log("other", {}, 0) is None


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("file", {}, "file.path"),
        ("file", {"path": "x", "size": 1}, "file.size"),
        ("file", {"path": "x", "file_bytes": "1KiB"}, "file.file_bytes"),
        ("memory", {"path": "x"}, "memory.path"),
    ],
)
def test_wrong_settings_name_their_key(name: str, settings: dict[str, object], key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        load_fenced_log(name, settings, 0)


def test_looking_at_a_log_makes_nothing(tmp_path: Path) -> None:
    log = FileFencedLog(str(tmp_path / "log"), 0)
    reader = log.open_read()
    assert (reader.end(), log.newest_epoch(), log.holder().alive) == (0, 0, False)
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_lost_log_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "c0").mkdir()
    with pytest.raises(LogError):
        claim(tmp_path)
    assert list((tmp_path / "c0").iterdir()) == []


def test_a_file_is_made_durable_with_its_name_before_its_first_frame(tmp_path: Path) -> None:
    calls = FileLayer()
    log = create(tmp_path, calls)
    put(log, *[b"x" * 5000] * 4)
    log.abandon()
    for file in files(tmp_path):
        at = [
            number
            for number, call in enumerate(calls.calls)
            if call.target == str(file) and call.kind == "pwritev"
        ]
        made = next(
            number
            for number, call in enumerate(calls.calls)
            if call.target == str(file) and call.kind == "posix_fallocate"
        )
        synced = [
            call.target
            for call in calls.calls[made : at[0] if at else len(calls.calls)]
            if call.kind == "fsync"
        ]
        assert synced[:2] == [str(file), str(tmp_path / "c0")]


def test_void_files_go_once_the_new_owner_has_a_frame(tmp_path: Path) -> None:
    old = create(tmp_path)
    put(old, b"a")
    for _ in range(3):
        claim(tmp_path).abandon()
    new = claim(tmp_path)
    with pytest.raises(FencedError):
        put(old, b"void")
    assert len(files(tmp_path)) == 10
    put(new, b"b")
    put(new, b"c")
    # The first owner's file is left, and the new owner's file with its spare.
    assert [path.name[1:] for path in files(tmp_path)] == [
        f"{1:020d}-{0:08d}.log",
        f"{5:020d}-{0:08d}.log",
        f"{5:020d}-{1:08d}.log",
    ]
    assert shown(tmp_path) == [b"a", b"b", b"c"]
    for log in (old, new):
        log.abandon()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = held_uncollected()
    log = create(tmp_path)
    put(log, *[b"x" * 5000] * 7)
    list(log.read(0))
    reader = log.open_read()
    list(reader.read(3))
    log.truncate(5)
    with pytest.raises(LogError):
        claim(tmp_path, _Broken())
    log.close()
    reader.close()
    assert not held_uncollected() - before


class _Broken(FileLayer):
    """Fails at a late call of a claim."""

    def __init__(self) -> None:
        super().__init__()
        self.fail_call("fdatasync", 4)
