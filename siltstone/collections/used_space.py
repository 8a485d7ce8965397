"""How much of long-term storage collections use, as a listing shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from siltstone.collections.consensus.object_names import (
    COLLECTIONS_PREFIX,
    collection_prefix,
    id_of,
)
from siltstone.core.chunk_storage import ChunkStat, ChunkStorage

_KINDS: Final = ("entries", "rollups", "parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSpace:
    """What the objects of one collection hold, garbage that waits included.

    Attributes:
        name: in the catalog; ``None`` where it has none, such as a dropped one.
        id: 16 bytes in hex.
        objects: how many there are.
        entry_bytes: of its entries.
        rollup_bytes: of its rollups.
        part_bytes: of its parts: rows of the newest state, and those that compactions replaced and
            readers may still need.
        other_bytes: of what has no name of a collection's object.
    """

    name: str | None
    id: str
    objects: int
    entry_bytes: int
    rollup_bytes: int
    part_bytes: int
    other_bytes: int

    @property
    def length(self) -> int:
        """Bytes of all objects."""
        return self.entry_bytes + self.rollup_bytes + self.part_bytes + self.other_bytes


def used_space(
    storage: ChunkStorage, names: Mapping[bytes, str | None], *, every: bool
) -> list[CollectionSpace]:
    """List the objects of collections and add them up. Blocking; raises ``ChunkError``.

    Args:
        storage: where they are.
        names: of collections, by their ids.
        every: also of those that have no name; else of ``names`` alone.
    """
    used: dict[bytes, _Sum] = {one: _Sum() for one in names}
    prefixes = [COLLECTIONS_PREFIX] if every else [collection_prefix(one) for one in names]
    for prefix in prefixes:
        _add(used, storage.list(prefix))
    found = [
        one.result(collection_id, names.get(collection_id)) for collection_id, one in used.items()
    ]
    return sorted(found, key=lambda one: (one.name is None, one.name or one.id))


def _add(used: dict[bytes, _Sum], stats: Iterable[ChunkStat]) -> None:
    for stat in stats:
        collection_id = id_of(stat.name)
        if collection_id is not None:
            used.setdefault(collection_id, _Sum()).add(stat)


class _Sum:
    """Objects and bytes of one collection."""

    def __init__(self) -> None:
        self._objects = 0
        self._bytes = dict.fromkeys((*_KINDS, ""), 0)

    def add(self, stat: ChunkStat) -> None:
        """Count an object."""
        kind = stat.name.split("/")[2]
        self._objects += 1
        self._bytes[kind if kind in _KINDS else ""] += stat.length

    def result(self, collection_id: bytes, name: str | None) -> CollectionSpace:
        """What they amount to."""
        return CollectionSpace(
            name=name,
            id=collection_id.hex(),
            objects=self._objects,
            entry_bytes=self._bytes["entries"],
            rollup_bytes=self._bytes["rollups"],
            part_bytes=self._bytes["parts"],
            other_bytes=self._bytes[""],
        )
