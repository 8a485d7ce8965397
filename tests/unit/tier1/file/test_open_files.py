"""The process has no descriptor left.

What may happen: any call of the file log that opens a file or folder fails with EMFILE, once or for
a time. What must hold: nothing is lost or poisoned, only what is there is acknowledged, and the log
continues as soon as there is a descriptor.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from siltstone.core.open_files import LogOpenFilesError
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.tier1.file.network import FileSystem
from tests.support.file_log.log_world import (
    BIG,
    EXT4,
    LINEAGE,
    MEMORY,
    claim,
    create,
    log_at,
    put,
    shown,
)

OPENS = ("open", "scandir")


class FewFiles(FileLayer):
    """Refuses to open files while ``lacks``, except for the first ``opens_left`` calls."""

    def __init__(self) -> None:
        super().__init__()
        self.lacks = False
        self.opens_left = 0
        self.refused = 0
        self.before = self._look

    def _look(self, call: Call) -> None:
        if not self.lacks or call.kind not in OPENS:
            return
        if self.opens_left:
            self.opens_left -= 1
            return
        self.refused += 1
        raise OSError(errno.EMFILE, "too many open files")


def _tried(call: Callable[[], object]) -> bool:
    try:
        call()
    except LogOpenFilesError:
        return False
    return True


def test_the_error_names_the_limit(tmp_path: Path) -> None:
    calls = FewFiles()
    log = log_at(tmp_path, calls)
    calls.lacks = True
    with pytest.raises(LogOpenFilesError, match="raise that with ulimit -n"):
        log.holder()


@pytest.mark.parametrize("file_system", [MEMORY, EXT4], ids=["preallocated", "zeros"])
@pytest.mark.parametrize("opens_left", range(7))
def test_appends_and_truncations_continue_when_there_are_descriptors_again(
    tmp_path: Path, opens_left: int, file_system: FileSystem
) -> None:
    calls = FewFiles()
    log = log_at(tmp_path, calls, file_system=file_system)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    written = []
    for turn in range(4):
        for number in range(6):
            calls.lacks, calls.opens_left = number % 2 == 1, opens_left
            body = (b"%d %d" % (turn, number)).ljust(BIG, b".")
            if _tried(partial(put, log, body)):
                written.append(body)
            log.tend()
            _tried(log.newest_epoch)
            log.truncate(max(log.first(), log.end() - 3))
        calls.lacks = False
        put(log, b"again %d" % turn)
        written.append(b"again %d" % turn)
    assert calls.refused
    kept = shown(tmp_path)
    assert kept == written[-len(kept) :]
    assert len(kept) >= 3
    assert log.end() - log.first() == len(kept)
    log.close()
    again = claim(tmp_path)
    assert again.first() == log_first(kept, again.end())
    again.abandon()


def log_first(kept: list[bytes], end: int) -> int:
    """After the last frame comes the end frame of a closing owner."""
    return end - 1 - len(kept)


@pytest.mark.parametrize("opens_left", range(20))
def test_a_claim_may_be_repeated(tmp_path: Path, opens_left: int) -> None:
    first = create(tmp_path)
    put(first, b"acknowledged")
    first.abandon()
    calls = FewFiles()
    log = log_at(tmp_path, calls)
    calls.lacks, calls.opens_left = True, opens_left

    def claimed() -> None:
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="test")

    if not _tried(claimed):
        calls.lacks = False
        claimed()
    calls.lacks = False
    put(log, b"more")
    assert shown(tmp_path) == [b"acknowledged", b"more"]
    log.close()
