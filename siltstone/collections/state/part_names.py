"""The names of the objects that hold parts: who uploaded them, and when at the earliest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import CollectionState

_NAME = re.compile(r"([0-9a-f]{16})/([0-9a-f]{16})-(0|[1-9][0-9]{0,9})-([0-9a-f]{16})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class PartName:
    """What tells the object of a part from all others of its collection.

    Attributes:
        writer: id of the writer that uploaded it.
        born: a seqno that the writer had seen before.
        number: of the part among those of the same writer and ``born``.
        nonce: a random u64.
    """

    writer: int
    born: int
    number: int
    nonce: int


def parts_prefix(collection_id: bytes) -> str:
    """Return what the names of all parts of a collection begin with."""
    return f"collections/{collection_id.hex()}/parts/"


def part_key(collection_id: bytes, name: PartName) -> str:
    """Return the name of the object on long-term storage."""
    return (
        f"{parts_prefix(collection_id)}{name.writer:016x}/"
        f"{name.born:016x}-{name.number}-{name.nonce:016x}.parquet"
    )


def part_name(key: str) -> PartName:
    """Return the name of a part from that of its object.

    Raises:
        CorruptDataError: no part has such a name; it is named.
    """
    found = _NAME.fullmatch(key.partition("/parts/")[2])
    if found is None:
        raise CorruptDataError("not the name of a part of a collection", where=key)
    writer, born, number, nonce = found.groups()
    return PartName(int(writer, 16), int(born, 16), int(number), int(nonce, 16))


def name_of_part(part: CollectionPart) -> PartName:
    """Return the name of a part that is an object."""
    assert part.inline is None, "a part that is inline has no name"
    return PartName(part.writer, part.born, part.number, part.nonce)


def names_in(batch: CollectionBatch) -> Iterator[PartName]:
    """The names of all parts of a batch that are objects."""
    return (name_of_part(part) for part in batch.parts() if part.inline is None)


def object_parts(state: CollectionState) -> dict[str, CollectionPart]:
    """The parts of a state that are objects, by the names of these."""
    return {
        part_key(state.id, name_of_part(part)): part
        for batch in state.batches.items
        for part in batch.parts()
        if part.inline is None
    }


def with_nonces(state: CollectionState, nonces: Mapping[PartName, int]) -> CollectionState:
    """Return a state whose parts have these nonces, by the names that they had; others stay."""
    if not nonces:
        return state

    def renamed(part: CollectionPart) -> CollectionPart:
        if part.inline is not None:
            return part
        return replace(part, nonce=nonces.get(name_of_part(part), part.nonce))

    batches = [
        replace(batch, runs=tuple(tuple(map(renamed, run)) for run in batch.runs))
        for batch in state.batches.items
    ]
    count = len(state.batches.items)
    return replace(state, batches=state.batches.replaced(0, count, batches))
