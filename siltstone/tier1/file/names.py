"""Names of the files of one container's log."""

from __future__ import annotations

import re
from typing import NamedTuple

MARKER = "marker"
LOCK = "lock"

_PATTERN = re.compile(r"e([0-9]{20})-([0-9]{8})\.log")
_OLD_PATTERN = re.compile(r"e([0-9]{20})-([0-9]{8})\.old")


class FileKey(NamedTuple):
    """Which file of the log; keys sort by age.

    Attributes:
        epoch: of the owner that made it.
        number: among its owner's files, from 0 on.
    """

    epoch: int
    number: int

    @property
    def name(self) -> str:
        """The file's name in the container's folder."""
        return f"e{self.epoch:020d}-{self.number:08d}.log"

    @property
    def old_name(self) -> str:
        """Its name when it was truncated and waits to be used again; nothing reads it."""
        return f"e{self.epoch:020d}-{self.number:08d}.old"


def parse_file_name(name: str) -> FileKey | None:
    """The key of a log file's name; ``None`` for any other name."""
    match = _PATTERN.fullmatch(name)
    return None if match is None else FileKey(int(match[1]), int(match[2]))


def parse_old_name(name: str) -> FileKey | None:
    """The key that a truncated file had, by its ``old_name``; ``None`` for any other name."""
    match = _OLD_PATTERN.fullmatch(name)
    return None if match is None else FileKey(int(match[1]), int(match[2]))
