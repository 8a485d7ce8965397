"""Pages of a volume as a dictionary, and a writer's operations on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from siltstone.volumes import Volume
from siltstone.volumes.reader import VolumeReader, VolumeWriter

PAGE_BYTES = 4096

Operation = tuple[str, int, int]
"""``("write", index, byte)`` or ``("truncate", count, 0)``."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What a volume holds: how many pages, and of each that is not zeros the byte it repeats."""

    count: int = 0
    content: tuple[tuple[int, int], ...] = ()

    def written(self, operations: Iterable[Operation]) -> Pages:
        """What it holds after ``("write", index, byte)`` and ``("truncate", count, 0)``."""
        count, content = self.count, dict(self.content)
        for verb, number, byte in operations:
            if verb == "write":
                count = max(count, number)
                content[number] = byte
            else:
                count = number
                content = {index: each for index, each in content.items() if index <= number}
        kept = sorted((index, byte) for index, byte in content.items() if byte)
        return Pages(count, tuple(kept))


def do(writer: VolumeWriter, operations: Iterable[Operation]) -> None:
    """Do the same by a writer."""
    for verb, number, byte in operations:
        if verb == "write":
            writer.write(number, bytes([byte]) * PAGE_BYTES)
        else:
            writer.truncate(number)


def seen(reader: VolumeReader, beyond: int) -> Pages:
    """What a reader reads of the pages up to its count, and of as many as asked for after it."""
    content = []
    for index in range(1, max(reader.page_count, beyond) + 1):
        page = reader.read(index)
        assert page == page[:1] * PAGE_BYTES
        if page[0]:
            content.append((index, page[0]))
    return Pages(reader.page_count, tuple(content))


def commit(volume: Volume, *operations: Operation) -> None:
    """Make one commit of operations."""
    with volume.writer() as writer:
        do(writer, operations)
        writer.commit()


def commit_pages(volume: Volume, pages: Mapping[int, bytes]) -> None:
    """Make one commit of pages by their indexes."""
    with volume.writer() as writer:
        for index, page in pages.items():
            writer.write(index, page)
        writer.commit()


def pages_of(volume: Volume, beyond: int) -> Pages:
    """What the newest snapshot holds; see ``seen``."""
    with volume.reader() as reader:
        return seen(reader, beyond)
