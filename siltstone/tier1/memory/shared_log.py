"""What the handles of one memory log share, and the registry of the process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from itertools import islice

from siltstone.core.errors import LogTruncatedError
from siltstone.core.records.frame import Frame


class SharedLog:
    """One log. A thread holds ``lock`` to touch it.

    Attributes:
        lock: guards all that follows.
        epoch: the newest claimed epoch.
        frames: what is kept, oldest first.
        end: one above the index of the newest frame.
        crc: of the newest frame.
        lineages: of every claim.
        lineage: of the newest frame, else of the newest claim; ``None`` before the first claim.
        holder: the handle of the newest claim, until it is closed or gone.
        description: what the newest holder said of itself.
        aside: frames of the logs that were here before.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.epoch = 0
        self.frames: list[Frame] = []
        self.end = 0
        self.crc = 0
        self.lineages: set[bytes] = set()
        self.lineage: bytes | None = None
        self.holder: weakref.ref[object] | None = None
        self.description = ""
        self.aside: list[list[Frame]] = []

    @property
    def first(self) -> int:
        """Index of the first frame that is kept."""
        return self.end - len(self.frames)

    def set_aside(self, name: str) -> str | None:
        """Begin again, with the epoch as it is; return where the frames are, if there were any."""
        kept = self.frames
        self.frames, self.end, self.crc = [], 0, 0
        self.lineages, self.lineage, self.holder = set(), None, None
        if not kept:
            return None
        self.aside.append(kept)
        return f"{name}-aside-{len(self.aside)}"

    @property
    def is_held(self) -> bool:
        """Whether the newest holder lives: a handle that nothing refers to any more does not."""
        return self.holder is not None and self.holder() is not None

    def read(self, from_index: int) -> Iterator[Frame]:
        """The frames from ``from_index`` up to the end as it is now.

        Raises:
            LogTruncatedError: ``from_index`` lies below ``first``.
        """
        with self.lock:
            if from_index < self.first:
                raise LogTruncatedError(index=from_index, first=self.first)
            return iter(list(islice(self.frames, from_index - self.first, None)))


_logs: dict[tuple[str, int], SharedLog] = {}
_guard = threading.Lock()


def shared_log(name: str, container: int) -> SharedLog:
    """The log of this name and container, made at its first use and kept as long as the process."""
    with _guard:
        return _logs.setdefault((name, container), SharedLog())


def forget_logs(name: str) -> None:
    """Drop all logs of this name, as losing the disk would; open handles keep what they have."""
    with _guard:
        for key in [key for key in _logs if key[0] == name]:
            del _logs[key]
