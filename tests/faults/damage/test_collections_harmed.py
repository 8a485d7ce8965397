"""Objects of collections are damaged, cut, missing, or have the bytes of another one.

What is done, to one object at a time: a bit of one byte is flipped; it is cut; it is gone; or it
has the bytes of another object, of its collection or of another one. The objects are those of a
collection and of the catalog: entries, rollups, parts of several row groups with times and diffs
and without, and the choice of the consensus.
What must hold: whoever opens, reads at a time, or follows is told by a typed error that names the
object or what it belongs to, or sees what was there before; a deep check names the object.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest
from pyarrow import parquet

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.collections.consensus.object_names import CHOICE_NAME
from siltstone.collections.consensus_choice import check_choice
from siltstone.core.errors import CorruptDataError, FormatError
from tests.support.collections.damaged_collections import (
    TOLD,
    DamagedStore,
    Seen,
    flipped,
)
from tests.support.soak import shared

KINDS = ("entries", "rollups", "parts")
SAMPLE = 20
"""Flips of the bytes of one kind without ``soak``."""


@cache
def store() -> DamagedStore:
    """The store that is harmed."""
    return DamagedStore.made()


def names(kind: str) -> list[str]:
    """The objects of the catalog and of the first collection."""
    first = sorted({name.split("/")[1] for name in store().names("entries")})[:2]
    return [name for name in store().names(kind) if name.split("/")[1] in first]


def bytes_of(kind: str) -> Iterator[tuple[str, int]]:
    """Each byte of the objects of a kind."""
    for name in names(kind):
        yield from ((name, at) for at in range(len(store().objects[name])))


def judge(seen: Seen, *harmed: str) -> None:
    """Each verb was told, or gave what it gave before; the check names each object."""
    ids = {name.split("/")[1] for name in harmed}
    for verb, result in seen.items():
        if verb == "check":
            assert isinstance(result, list), (verb, result)
            for name in harmed:
                assert any(name in line for line in result), (name, result)
        elif isinstance(result, Exception):
            assert isinstance(result, TOLD), (verb, result)
            assert any(one in str(result) for one in ids), (verb, str(result))
        else:
            assert result == store().unharmed[verb], verb


def flip(name: str, at: int) -> None:
    """Flip one bit, and look at once and by ranges."""
    data = flipped(store().objects[name], at)
    whole = at % 2 == 0
    try:
        judge(store().seen({name: data}, whole=whole), name)
    except AssertionError as error:
        error.add_note(f"{name} byte {at} whole={whole}")
        raise


def test_parts_have_several_row_groups_with_times_and_diffs_and_without() -> None:
    files = [parquet.ParquetFile(io.BytesIO(store().objects[name])) for name in names("parts")]
    assert [file.schema_arrow.names[2:] for file in files] == [[], ["_time", "_diff"]]
    assert all(file.num_row_groups > 2 for file in files)
    assert len(names("entries")) > 6
    assert len(names("rollups")) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_some_flipped_bytes_are_noticed(kind: str) -> None:
    every = list(bytes_of(kind))
    for name, at in Random(kind).sample(every, SAMPLE):
        flip(name, at)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_byte_is_noticed(kind: str) -> None:
    for name, at in shared(bytes_of(kind)):
        flip(name, at)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_cut_is_noticed(kind: str) -> None:
    for name in names(kind):
        data = store().objects[name]
        for length, whole in ((0, True), (1, False), (len(data) - 1, True)):
            judge(store().seen({name: data[:length]}, whole=whole), name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_longer_is_noticed(kind: str) -> None:
    for name in names(kind):
        judge(store().seen({name: store().objects[name] + b"\0"}), name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_gone_is_noticed(kind: str) -> None:
    """But for the newest entry: without it all is as if that had never been made."""
    newest = {name.rpartition("/")[0]: name for name in reversed(names("entries"))}
    for name in names(kind):
        if name not in newest.values():
            judge(store().seen({name: None}), name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_with_the_bytes_of_another_one_is_noticed(kind: str) -> None:
    for name in names(kind):
        others = [other for other in store().names(kind) if other != name]
        for other in Random(name).sample(others, min(2, len(others))):
            judge(store().seen({name: store().objects[other]}), name)


def test_two_objects_that_changed_places_are_noticed() -> None:
    for kind in KINDS:
        one, other = names(kind)[-2:]
        swapped = {one: store().objects[other], other: store().objects[one]}
        judge(store().seen(dict(swapped)), one, other)


def test_a_choice_of_the_consensus_that_is_harmed_is_noticed() -> None:
    data = store().objects[CHOICE_NAME]
    harmed = [flipped(data, at) for at in range(len(data))]
    harmed += [data[:length] for length in range(1, len(data))]
    harmed += [data + b"\0", store().objects[names("rollups")[0]]]
    for changed in harmed:
        bucket = Bucket()
        MemoryChunkStorage(bucket).create(CHOICE_NAME, [changed])
        with pytest.raises((CorruptDataError, FormatError), match=CHOICE_NAME):
            check_choice(MemoryChunkStorage(bucket), "objects")
