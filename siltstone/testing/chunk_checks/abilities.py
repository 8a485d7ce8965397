"""Checks of what only some services can do: joining, sealing, telling of space."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from typing import Any

import pytest

from siltstone.core.chunk_storage import UNLIMITED, ChunkStorage
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    Outcome,
)
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    fill,
    names,
    need,
    need_missing,
    read,
)

MANY_PARTS = 70
"""More than some services join in one request, which is 32."""
MANY_BYTES = 1 << 24


def part_of(storage: ChunkStorage, letter: bytes) -> bytes:
    """Return the smallest part that a concat takes, but not less than four bytes."""
    return letter * max(4, storage.capabilities.concat_part_bytes_min)


class ConcatChecks(ChunkSubject):
    """A new chunk is made of parts of others, which stay."""

    def test_concat_joins(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "concat")
        first, last = part_of(storage, b"a"), b"z"
        fill(storage, "s/a", content=[first])
        fill(storage, "s/z", content=[last])
        storage.concat("t/x", [("s/a", len(first)), ("s/z", 1)])
        assert service.outside_read("t/x") == first + last
        assert service.outside_read("s/a") == first
        assert names(storage) == ["s/a", "s/z", "t/x"]

    def test_concat_takes_the_first_bytes_of_each(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        first = part_of(storage, b"a")
        fill(storage, "a", content=[first, b"more"])
        fill(storage, "z", content=[b"0123"])
        storage.concat("t", [("a", len(first)), ("z", 2)])
        assert service.outside_read("t") == first + b"01"

    def test_concat_of_one(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "concat")
        fill(storage, "a", content=[b"abc"])
        storage.concat("t", [("a", 3)])
        assert service.outside_read("t") == b"abc"

    def test_concat_of_one_source_twice(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        storage.concat("t", [("a", len(part)), ("a", len(part))])
        assert service.outside_read("t") == part * 2

    def test_concat_of_many_parts_keeps_their_order(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        able = storage.capabilities
        least = max(1, able.concat_part_bytes_min)
        count = min(MANY_PARTS, able.concat_parts_max, able.chunk_bytes_max // least)
        count = max(1, min(count, MANY_BYTES // least))
        parts = [b"%03d" % number * (least // 3 + 1) for number in range(count)]
        for number, part in enumerate(parts):
            fill(storage, f"s/{number}", content=[part])
        storage.concat("t", [(f"s/{number}", len(part)) for number, part in enumerate(parts)])
        assert service.outside_read("t") == b"".join(parts)

    def test_concat_refuses_a_taken_name(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        fill(storage, "a", "t", content=[b"abc"])
        with pytest.raises(ChunkExistsError) as caught:
            storage.concat("t", [("a", 2)])
        assert caught.value.outcome is Outcome.NOT_APPLIED
        with pytest.raises(ChunkExistsError):
            storage.concat("a", [("a", 3)])
        assert service.outside_read("t") == b"abc"

    def test_concat_refuses_a_missing_source(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        with pytest.raises(ChunkNotFoundError):
            storage.concat("t", [("a", len(part)), ("b", 1)])
        assert names(storage) == ["a"]

    def test_concat_refuses_a_source_that_is_too_short(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        fill(storage, "a", content=[b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            storage.concat("t", [("a", 4)])
        assert (caught.value.expected, caught.value.actual) == (3, 4)
        assert names(storage) == ["a"]

    @pytest.mark.parametrize("sources", [[], [("a", 0)], [("a", -1)]])
    def test_concat_refuses_nothing(
        self, storage: ChunkStorage, sources: list[tuple[str, int]]
    ) -> None:
        need(storage, "concat")
        fill(storage, "a")
        with pytest.raises(ValueError, match=r"count|length"):
            storage.concat("t", sources)
        assert names(storage) == ["a"]

    def test_concat_refuses_too_small_a_part_but_the_last(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        least = storage.capabilities.concat_part_bytes_min
        if least <= 1:
            pytest.skip("missing capability: concat_part_bytes_min")
        fill(storage, "a", content=[bytes(least)])
        storage.concat("t", [("a", least), ("a", 1)])
        with pytest.raises(ValueError, match="length"):
            storage.concat("u", [("a", least - 1), ("a", least)])
        assert names(storage) == ["a", "t"]

    def test_concat_refuses_too_large_a_part(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        most = storage.capabilities.concat_part_bytes_max
        if most > 1 << 24:
            pytest.skip("missing capability: concat_part_bytes_max")
        fill(storage, "a", content=[bytes(most), b"x"])
        with pytest.raises(ValueError, match="length"):
            storage.concat("t", [("a", most + 1)])
        assert names(storage) == ["a"]

    def test_concat_refuses_too_many_parts(self, storage: ChunkStorage) -> None:
        need(storage, "concat")
        most = storage.capabilities.concat_parts_max
        if most > 10_000:
            pytest.skip("missing capability: concat_parts_max")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        storage.concat("t", [("a", len(part))] * most)
        with pytest.raises(ValueError, match="count"):
            storage.concat("u", [("a", len(part))] * (most + 1))
        assert names(storage) == ["a", "t"]

    def test_concat_shows_at_once_to_another_client(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        other = service.open()
        storage.concat("d/t", [("a", len(part))])
        assert other.stat("d/t").length == len(part)
        assert read(other, "d/t", 0, len(part)) == part
        assert names(other) == ["a", "d/t"]
        other.close()

    def test_concat_makes_a_copy(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        storage.concat("t", [("a", len(part))])
        if storage.capabilities.append:
            storage.write("a", len(part), [b"more"])
        assert service.outside_read("t") == part
        storage.delete("a")
        assert service.outside_read("t") == part

    def test_concat_takes_what_concat_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        storage.concat("t", [("a", len(part))])
        storage.concat("u", [("t", len(part)), ("a", 2)])
        assert service.outside_read("u") == part + part[:2]

    @pytest.mark.parametrize("sources", [None, 7, ["ab"], [("a",)], [(7, 1)], [("a", "1")]])
    def test_concat_refuses_what_is_no_list_of_parts(
        self, storage: ChunkStorage, sources: Any
    ) -> None:
        need(storage, "concat")
        fill(storage, "a", content=[b"abc"])
        with pytest.raises((TypeError, ValueError)):
            storage.concat("t", sources)
        assert names(storage) == ["a"]

    def test_service_without_concat_says_so(self, storage: ChunkStorage) -> None:
        need_missing(storage, "concat")
        fill(storage, "a")
        with pytest.raises(CapabilityError):
            storage.concat("t", [("a", 1)])
        assert names(storage) == ["a"]


class SealChecks(ChunkSubject):
    """A sealed chunk takes no more bytes, from any client."""

    def test_sealed_chunk_refuses_writes(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "seal")
        need(storage, "append")
        fill(storage, "a", content=[b"abc"])
        storage.seal("a")
        with pytest.raises(ChunkAccessDeniedError) as caught:
            storage.write("a", 3, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
        other = service.open()
        with pytest.raises(ChunkAccessDeniedError):
            other.write("a", 3, [b"x"])
        other.close()
        assert service.outside_read("a") == b"abc"

    def test_seal_twice(self, storage: ChunkStorage) -> None:
        need(storage, "seal")
        fill(storage, "a")
        storage.seal("a")
        storage.seal("a")

    def test_sealed_chunk_can_be_read_and_deleted(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "seal")
        fill(storage, "a", content=[b"abc"])
        storage.seal("a")
        assert read(storage, "a") == b"abc"
        assert storage.stat("a").length == 3
        storage.delete("a")
        assert service.outside_read("a") is None

    def test_seal_leaves_the_neighbours(self, storage: ChunkStorage) -> None:
        need(storage, "seal")
        need(storage, "append")
        fill(storage, "a", "b")
        storage.seal("a")
        storage.write("b", 1, [b"y"])

    def test_seal_of_no_chunk_is_refused(self, storage: ChunkStorage) -> None:
        need(storage, "seal")
        with pytest.raises(ChunkNotFoundError):
            storage.seal("a")

    def test_a_seal_lasts(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "seal")
        need(storage, "append")
        fill(storage, "a", content=[b"abc"])
        storage.seal("a")
        storage.close()
        again = service.open()
        with pytest.raises(ChunkAccessDeniedError):
            again.write("a", 3, [b"x"])
        again.seal("a")
        again.close()
        assert service.outside_read("a") == b"abc"

    def test_seal_goes_with_its_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "seal")
        need(storage, "append")
        fill(storage, "a", content=[b"abc"])
        storage.seal("a")
        storage.delete("a")
        fill(storage, "a", content=[b"xyz"])
        storage.write("a", 3, [b"!"])
        assert service.outside_read("a") == b"xyz!"

    def test_sealed_chunk_is_listed(self, storage: ChunkStorage) -> None:
        need(storage, "seal")
        fill(storage, "a", "b", content=[b"abc"])
        storage.seal("a")
        assert [(chunk.name, chunk.length) for chunk in storage.list()] == [("a", 3), ("b", 3)]

    def test_sealed_chunk_is_taken_by_concat(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "seal")
        need(storage, "concat")
        part = part_of(storage, b"a")
        fill(storage, "a", content=[part])
        storage.seal("a")
        storage.concat("t", [("a", len(part))])
        assert service.outside_read("t") == part

    def test_sealed_name_is_taken(self, storage: ChunkStorage) -> None:
        need(storage, "seal")
        fill(storage, "a")
        storage.seal("a")
        with pytest.raises(ChunkExistsError):
            storage.create("a", [b"x"])

    def test_service_without_seal_says_so(self, storage: ChunkStorage) -> None:
        need_missing(storage, "seal")
        fill(storage, "a")
        with pytest.raises(CapabilityError):
            storage.seal("a")


class SpaceChecks(ChunkSubject):
    """The space in use is that of the chunks."""

    def test_used_space_follows_the_chunks(self, storage: ChunkStorage) -> None:
        need(storage, "used_space")
        before = storage.used_space() if self.is_alone else 0
        fill(storage, "a", "d/b", content=[bytes(5_000)])
        assert storage.used_space() >= before + 10_000
        storage.delete("a")
        assert storage.used_space() >= before + 5_000
        if self.is_alone:
            assert storage.used_space() < before + 10_000

    def test_used_space_of_nothing(self, storage: ChunkStorage) -> None:
        need(storage, "used_space")
        if not self.is_alone:
            pytest.skip("the service is shared with others")
        assert storage.used_space() == 0

    def test_used_space_grows_with_writes(self, storage: ChunkStorage) -> None:
        need(storage, "used_space")
        need(storage, "append")
        fill(storage, "a", content=[bytes(1_000)])
        before = storage.used_space() if self.is_alone else 1_000
        storage.write("a", 1_000, [bytes(4_000)])
        assert storage.used_space() >= before + 4_000

    def test_service_without_used_space_says_so(self, storage: ChunkStorage) -> None:
        need_missing(storage, "used_space")
        with pytest.raises(CapabilityError):
            storage.used_space()

    def test_free_space_is_a_count_of_bytes(self, storage: ChunkStorage) -> None:
        need(storage, "free_space")
        fill(storage, "a")
        assert 0 <= storage.free_space() <= UNLIMITED

    def test_service_without_free_space_says_so(self, storage: ChunkStorage) -> None:
        need_missing(storage, "free_space")
        with pytest.raises(CapabilityError):
            storage.free_space()
