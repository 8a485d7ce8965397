"""What a disk holds of files and folders, and which of the changes since then survive.

Pure but for ``build``: ``power_cut`` watches the calls, this file decides what is left of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = 512
"""What a disk writes at once: one sector. Smaller than a page of memory, so tests stay small."""


@dataclass(slots=True)
class DurableFile:
    """What the disk holds of one file or folder.

    Attributes:
        is_folder: which of the two.
        mode: permission bits.
        content: a file's bytes.
        entries: a folder's names.
        dirty: pages that were written since the last sync.
        lost: pages that a failed sync dropped, which no later sync writes.
    """

    is_folder: bool
    mode: int
    content: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    dirty: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


class Chance:
    """Decisions that repeat from a seed and do not depend on the order in which they are asked."""

    def __init__(self, keep: float, seed: int) -> None:
        self._keep = keep
        self._seed = seed

    def keeps(self, *what: object) -> bool:
        """Whether one volatile change survives."""
        if self._keep <= 0 or self._keep >= 1:
            return self._keep >= 1
        text = repr((self._seed, what)).encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")
        return number / 2**56 < self._keep


@dataclass(slots=True)
class Survivor:
    """A file or folder after the cut.

    Attributes:
        mode: permission bits.
        content: a file's bytes; ``None`` for a folder.
        children: what is in a folder. One file may be in several places.
    """

    mode: int
    content: bytes | None = None
    children: dict[str, Survivor] = field(default_factory=dict)


def build(path: Path, folder: Survivor, made: dict[int, Path]) -> None:
    """Make what survived in an empty folder; ``made`` tells which files need a link only."""
    for name, node in folder.children.items():
        target = path / name
        if id(node) in made:
            target.hardlink_to(made[id(node)])
        elif node.content is None:
            target.mkdir()
            build(target, node, made)
            target.chmod(node.mode)
        else:
            target.write_bytes(node.content)
            target.chmod(node.mode)
            made[id(node)] = target


def _page(content: bytes, index: int) -> bytes:
    return content[index * PAGE_BYTES : (index + 1) * PAGE_BYTES].ljust(PAGE_BYTES, b"\0")


def pages_of(start: int, end: int) -> set[int]:
    """The pages that hold the bytes ``[start, end)``."""
    return set(range(start // PAGE_BYTES, -(-end // PAGE_BYTES)))


def surviving_content(record: DurableFile, volatile: bytes, chance: Chance, path: str) -> bytes:
    """The bytes of a file: of every page the new or the old ones; 0 where there are neither."""
    length = len(volatile) if chance.keeps("length", path) else len(record.content)
    content = bytearray(record.content[:length].ljust(length, b"\0"))
    for page in sorted(record.dirty - record.lost):
        if page * PAGE_BYTES < length and chance.keeps("page", path, page):
            content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = _page(volatile, page)
    return bytes(content[:length])
