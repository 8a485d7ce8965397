"""What a backup has to copy: of each chunk what the place has, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.records.backup import BackupChunk, BackupFragment
from siltstone.migration.backup.fragment_copy import FRAGMENT_BYTES, FragmentItem
from siltstone.migration.backup.place import CHUNKS
from siltstone.pipelines.window import pack_sums


@dataclass(slots=True, kw_only=True)
class ChunkPlan:
    """A chunk of a backup that is being made.

    Attributes:
        name: of the chunk.
        mark: see ``BackupChunk``.
        length: committed bytes.
        kept: fragments that are in the place and that a whole generation names.
        items: fragments that have to come.
        damage: why some of them cannot, for people; empty as long as all is well.
        came: checksums of those that came, by the name of the object.
    """

    name: str
    mark: str
    length: int
    kept: tuple[BackupFragment, ...]
    items: tuple[FragmentItem, ...]
    damage: str = ""
    came: dict[str, int] = field(default_factory=dict)

    def result(self) -> BackupChunk:
        """What the list says of it; without fragments if bytes could not be read."""
        if self.damage:
            return BackupChunk(name=self.name, mark=self.mark, length=self.length, fragments=())
        copied = tuple(
            BackupFragment(start=item.start, stop=item.stop, crc=self.came[item.name])
            for item in self.items
        )
        every = (*self.kept, *copied)
        return BackupChunk(name=self.name, mark=self.mark, length=self.length, fragments=every)


def fragment_name(stem: str, start: int, stop: int) -> str:
    """The name, below the store's folder, of the object that holds a fragment of a chunk."""
    return f"{CHUNKS}{stem}.{start}-{stop}"


def plan_chunks(
    folder: str,
    rows: Iterable[ChunkRows],
    known: Mapping[str, BackupChunk],
    lengths: Mapping[str, int],
) -> list[ChunkPlan]:
    """Plan every chunk, in the order of their names.

    A chunk only grows, so what an earlier generation has of it stays right. What comes after that
    begins with the block that was not whole then, so that every fragment is made of blocks whose
    sums are known.

    Args:
        folder: of the store in the place.
        rows: the chunks.
        known: what whole generations have of chunks, by stem, the longest of each.
        lengths: of the objects that are there.
    """
    plans = []
    for row in sorted(rows, key=lambda row: row.chunk.name):
        chunk = row.chunk
        mark = _mark(row)
        stem = chunk.name + mark
        kept = _kept(known.get(stem), chunk.length, lengths)
        start = kept[-1].stop if kept else 0
        items = []
        if start < chunk.length:
            start -= start % BLOCK_BYTES
            for begin in range(start, chunk.length, FRAGMENT_BYTES):
                stop = min(begin + FRAGMENT_BYTES, chunk.length)
                name = fragment_name(stem, begin, stop)
                sums = row.sums[begin // BLOCK_BYTES : -(-stop // BLOCK_BYTES)]
                item = FragmentItem(
                    chunk=chunk.name,
                    length=chunk.length,
                    start=begin,
                    stop=stop,
                    sums=pack_sums(sums),
                    name=folder + name,
                    found=lengths.get(name),
                )
                items.append(item)
        plans.append(
            ChunkPlan(
                name=chunk.name, mark=mark, length=chunk.length, kept=kept, items=tuple(items)
            )
        )
    return plans


def _mark(row: ChunkRows) -> str:
    """What tells a chunk from others of its name: names in place may come again, ids never do."""
    return f".c{row.container}-{row.chunk.chunk_id:x}" if row.chunk.in_place else ""


def longest(lists: Iterable[Sequence[BackupChunk]]) -> dict[str, BackupChunk]:
    """Of each chunk what has most of it; those whose bytes are missing do not count."""
    found: dict[str, BackupChunk] = {}
    for chunks in lists:
        for chunk in chunks:
            before = found.get(chunk.stem)
            if not chunk.missing and (before is None or before.length < chunk.length):
                found[chunk.stem] = chunk
    return found


def _kept(
    known: BackupChunk | None, length: int, lengths: Mapping[str, int]
) -> tuple[BackupFragment, ...]:
    """The fragments to continue from; none when one of them is not there as it should be."""
    if known is None or known.length > length:
        return ()
    for fragment in known.fragments:
        if lengths.get(fragment_name(known.stem, fragment.start, fragment.stop)) != fragment.length:
            return ()
    return known.fragments
