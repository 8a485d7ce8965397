"""Which containers a store has, derived from the names of its files alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_names import claim_file, data_chunk
from siltstone.core.chunk_storage import ChunkStat
from siltstone.store.lost_manifest import highest_container

LISTINGS_MAX = 20


class FewListings(MemoryChunkStorage):
    """Fails a caller that lists for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        self.listings += 1
        assert self.listings <= LISTINGS_MAX, "it never ends"
        return super().list(prefix, start_after)


def storage_with(*names: str) -> FewListings:
    storage = FewListings()
    for name in names:
        storage.create(name, [b"x"])
    return storage


def test_the_highest_container_of_many_is_found_by_few_listings() -> None:
    storage = storage_with(
        *(data_chunk(0, 1, "a", start, start) for start in range(50)),
        claim_file(3, 1),
        "import/c12/0000000000000007/00000-0-0123456789abcdef",
    )
    assert highest_container(storage) == 12
    assert highest_container(storage_with()) == -1


@pytest.mark.parametrize(
    "theirs", ["data/c0/état.txt", "data/c0/日本", "data/c0/~~", "data/c1/x", "data/c2024/05.csv"]
)
def test_files_of_other_programs_are_passed_over(theirs: str) -> None:
    storage = storage_with(data_chunk(0, 1, "a", 0, 1), theirs, data_chunk(1, 1, "b", 0, 2))
    assert highest_container(storage) == 1


def test_many_files_of_others_cost_no_listing_each() -> None:
    storage = storage_with(*(f"data/cake-{number}" for number in range(100)), claim_file(0, 1))
    assert highest_container(storage) == 0
