"""Real power cuts of a real ext4 below the file log.

What may fail: everything after the cut, and what was not synced before it. What must hold: frames
that were acknowledged are there afterwards, after any number of cuts and takeovers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.errors import LogError
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.real_disk import real_disk

LINEAGE = bytes(range(16))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 64)


def _claim(disk: CrashFileSystem, *, new: bool) -> FileFencedLog:
    log = FileFencedLog(str(disk.folder / "log"), 0, file_bytes=64 * KIB)
    log.claim(lineage=LINEAGE, new=new, above=0, takeover=True, owner="a")
    return log


DIRECT = "siltstone.tier1.file.writer.DIRECT_BYTES_MIN"


@pytest.mark.parametrize("direct_from", [256 * KIB, 1_000, 1], ids=["cached", "both", "direct"])
def test_acknowledged_frames_survive_power_cuts(
    disk: CrashFileSystem, direct_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DIRECT, direct_from)
    acknowledged: dict[int, bytes] = {}
    for life in range(6):
        log = _claim(disk, new=life == 0)
        found = {frame.index: frame.body for frame in log.read(log.first())}
        for index, body in acknowledged.items():
            assert index < log.first() or found[index] == body
        count = 3 + 7 * life
        for number in range(count):
            body = (b"%d/%d " % (life, number)).ljust(4000 if number % 3 else 500, b".")
            acknowledged[log.append([body], count=1)] = body
        if life == 3:
            log.truncate(log.end() - 2)
        if life % 2:
            second = _claim(disk, new=False)
            with pytest.raises(LogError):
                log.append([b"void"], count=1)
            body = b"after a takeover"
            acknowledged[second.append([body], count=1)] = body
            log.abandon()
            log = second
        disk.cut()
        with pytest.raises(LogError):
            log.append([b"after the cut"], count=1)
        log.abandon()
        disk.restart()


@pytest.mark.parametrize("direct_from", [256 * KIB, 1], ids=["cached", "direct"])
def test_a_cut_right_after_a_claim_or_a_roll(
    disk: CrashFileSystem, direct_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DIRECT, direct_from)
    log = _claim(disk, new=True)
    kept = [log.append([b"x" * 30000], count=1) for _ in range(2)]
    disk.cut()
    log.abandon()
    disk.restart()
    for _ in range(3):
        log = _claim(disk, new=False)
        assert [frame.index for frame in log.read(0) if frame.body][: len(kept)] == kept
        disk.cut()
        log.abandon()
        disk.restart()
    reader = FileFencedLog(str(disk.folder / "log"), 0).open_read()
    with suppress(LogError):
        assert reader.end() == len(kept)
    assert [frame.index for frame in reader.read(0)] == kept
