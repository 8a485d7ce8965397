"""Trials of damage: which bytes are changed, and one look after each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.faults.damage.image import Image, Look, look
from tests.faults.damage.working_copy import WorkingCopy

CHUNKS = "chunks/data/**/*"
REMOTE_INDEX = "chunks/system/**/index-*"
LOCAL_INDEX = ("index/*", "index-checkpoint/*")

GROUPS = {
    "log": ("log/c0/e*.log", "log/c0/marker", "log/c0/lock"),
    "journal": ("chunks/system/**/journal-*", "chunks/system/**/claim", "chunks/system/store"),
    "tables": ("chunks/system/**/tables-*", CHUNKS),
    "remote index": (REMOTE_INDEX,),
    "local index": LOCAL_INDEX,
}
"""What a group of trials damages: patterns of names below the folder of a container."""

OPTIONS_STEP = 16

Spot = tuple[str, int]
"""A byte: the name of a file, and the offset in it."""


def used(path: Path) -> int:
    """Bytes up to the last one that is not zero, and a few after it."""
    data = path.read_bytes()
    return min(len(data), len(data.rstrip(b"\0")) + 8)


def is_options(content: bytes) -> bool:
    """Whether a file is a text of RocksDB's options, which this store never reads back."""
    return b"[Version]\n  rocksdb_version=" in content[:500]


def every(image: Image, group: str) -> Iterator[Spot]:
    """Every byte of a group's files, but only every 16th of a text with RocksDB's options."""
    for name in image.files(*GROUPS[group]):
        path = image.folder / name
        step = OPTIONS_STEP if is_options(path.read_bytes()) else 1
        yield from ((name, position) for position in range(0, used(path), step))


def some(image: Image, group: str, step: int) -> Iterator[Spot]:
    """Every ``step``-th byte of a group's files, as if these were one."""
    skip = 0
    for name in image.files(*GROUPS[group]):
        length = used(image.folder / name)
        yield from ((name, position) for position in range(skip, length, step))
        skip = (skip - length) % step


class Bench:
    """Two copies of an image that take damage: one with the local index, and one without."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.image = image
        self._needed = image.needed()
        self._copies = {
            True: WorkingCopy(image.folder, folder / "whole"),
            False: WorkingCopy(
                image.folder, folder / "bare", without=("index", "index-checkpoint")
            ),
        }

    def tried(
        self, change: Callable[[Path], None], *, own: bool, local_index: bool, cut: bool = False
    ) -> Look:
        """Change a copy, look at it, check what the look showed, and return it."""
        copy = self._copies[local_index]
        copy.restore()
        change(copy.folder)
        seen = look(copy.folder, own=own)
        seen.check(self.image, cut=cut)
        return seen

    def flip(self, group: str, where: Iterable[tuple[Spot, bool]]) -> int:
        """Flip one bit of each byte, and look as owner or reader; return how many were flipped."""
        count = 0
        for (name, position), own in where:

            def change(place: Path, name: str = name, position: int = position) -> None:
                data = bytearray((place / name).read_bytes())
                data[position] ^= 1 << position % 8
                (place / name).write_bytes(data)

            local_index = group == "local index" or (group != "remote index" and position % 2 == 0)
            try:
                seen = self.tried(change, own=own, local_index=local_index)
                assert seen.noticed or name not in self._needed, "a change went unnoticed"
            except BaseException as error:
                error.add_note(f"byte {position} of {name}, own={own}, local index={local_index}")
                raise
            count += 1
        return count
