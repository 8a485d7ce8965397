"""The disk under the file logs of a run: it fails, it is full, and its power is cut at any call."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

from siltstone.core.constants import KIB
from siltstone.core.environment import Environment
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.network import FileSystem
from tests.support.file_log.log_world import DirectDisk

FAILURES = (
    ("fdatasync", errno.EIO),
    ("fsync", errno.EIO),
    ("pwritev", errno.EIO),
    ("preadv", errno.EIO),
    ("pwritev", errno.ENOSPC),
    ("posix_fallocate", errno.ENOSPC),
)


class LogDisk:
    """One local disk that all machines of a run see, each container's log in a folder of it.

    A call of the log is one step of the loop with all its file calls, so no process comes between
    these; but the power fails between any two of them.

    Attributes:
        calls: what every file call passes through.
        is_down: whether the power is off.
    """

    def __init__(self, folder: Path, chance: Random, note: Callable[[str], None]) -> None:
        folder.mkdir()
        self._disk = DirectDisk(folder)
        self.calls = FileLayer(self._disk)
        self.calls.before = self._before
        self.is_down = False
        self._folder = folder
        self._chance = chance
        self._note = note
        self._file_bytes = chance.choice((64, 256)) * KIB
        # On a small one, files are written with zeros in advance and used again.
        number = 0xEF53 if self._file_bytes == 64 * KIB else 0
        self._file_system = FileSystem(number=number, name="simulated")
        self._left = 0
        self._keep = 0.0

    def log(self, container: int, environment: Environment) -> FileFencedLog:
        """A handle to a log."""
        return FileFencedLog(
            str(self._folder / "log"),
            container,
            file_bytes=self._file_bytes,
            calls=self.calls,
            environment=environment,
            file_system=lambda path: self._file_system,
        )

    def takes_it(self) -> bool:
        """Whether a fault of the log is one of its file calls, and not of the log as a whole."""
        return self._chance.random() < 0.7

    def fail_soon(self) -> str:
        """Let one of the next file calls fail, with or without its effect; return which."""
        kind, error = self._chance.choice(FAILURES)
        applied = self._chance.random() < 0.3
        self.calls.fail_call(kind, self._chance.randint(1, 3), error, applied=applied)
        return f"{kind} {errno.errorcode[error]} {applied}"

    def fail_a_sync(self) -> None:
        """Let the next sync of a file's bytes fail, and the disk never get them."""
        self._note("the next sync fails")
        self.calls.fail_call("fdatasync")

    def cut_at(self, number: int, *, keep: float) -> None:
        """Cut the power before a file call of this number from now, 1 being the next.

        Args:
            number: which call.
            keep: the chance of each change that was not synced to survive.
        """
        self._left, self._keep = number, keep

    def cut_now(self) -> None:
        """Cut the power."""
        self._left = 0
        self.is_down = True
        self._note(f"power cut, keep {self._keep}")
        self._disk.cut(keep=self._keep, seed=self._chance.randrange(2**32))

    def restart(self) -> None:
        """Switch the power on again; every process that used it is dead."""
        self.calls.forget()
        self._disk.restart()
        self.is_down = False

    def close(self) -> None:
        """Free what the model of the disk holds open."""
        self._disk.release()

    def _before(self, call: Call) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self.cut_now()
