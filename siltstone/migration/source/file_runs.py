"""Runs: bytes of one file that are copied or compared in one go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.core.constants import MIB
from siltstone.pipelines.work import in_groups

RUN_BYTES: Final = 32 * MIB
"""What one task copies of a file at most: a killed migration repeats the tasks in progress."""

GROUP_BYTES: Final = 8 * MIB
"""Runs of several files are one task as long as they are no more than this together."""

GROUP_RUNS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """Bytes of one file that become chunks of their own.

    Attributes:
        segment: name in the store.
        start: offset in the segment.
        key: of the file.
        offset: in the file.
        length: bytes, at least 1.
        physical: bytes that the file has; with others it has changed.
    """

    segment: str
    start: int
    key: str
    offset: int
    length: int
    physical: int


def groups_of(runs: Iterable[FileRun]) -> Iterator[Sequence[FileRun]]:
    """Cut runs into tasks: small ones share one."""
    return in_groups(runs, lambda run: run.length, GROUP_BYTES, GROUP_RUNS)
