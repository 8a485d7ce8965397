"""Checks of ``list``: its order, its two arguments, and changes while it runs."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNameError
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, fill, names, need

KEYS = (
    "a b", "a!", "a%2Fb", "a-0", "a-/x", "a.b/y", "a.c", "a/b/c", "a/b-", "a/b0", "a0", "aa", "A",
    "a_b", "a*b", "_a/b",
    "b/-", "b/0/0", "b-0", "c", "c-", "c0", "~", "é", "e\u0301", "\uffee", "\U0001f600",
)  # fmt: skip
"""Odd in their order: ``-`` and ``.`` are below ``/``, ``0`` is above, and the last two would
change places in UTF-16. None is a folder of another, which a file system could not hold."""


def by_bytes(keys: Iterable[str]) -> list[str]:
    """The order of the contract."""
    return sorted(keys, key=str.encode)


class ListChecks(ChunkSubject):
    """A listing holds what there is, in the order of bytes."""

    def test_list_of_nothing(self, storage: ChunkStorage) -> None:
        assert names(storage) == []
        assert names(storage, "a") == []
        assert names(storage, "a/b/", "a/c") == []

    def test_list_tells_what_stat_tells(self, storage: ChunkStorage) -> None:
        fill(storage, "a", content=[b"abc"])
        fill(storage, "d/b", content=[b"defgh"])
        assert list(storage.list()) == [storage.stat("a"), storage.stat("d/b")]

    def test_list_is_in_the_order_of_bytes(self, storage: ChunkStorage) -> None:
        fill(storage, *reversed(KEYS))
        assert names(storage) == by_bytes(KEYS)

    def test_list_goes_on_after_every_key(self, storage: ChunkStorage) -> None:
        fill(storage, *KEYS)
        whole = by_bytes(KEYS)
        for index, key in enumerate(whole):
            assert names(storage, start_after=key) == whole[index + 1 :], key

    @pytest.mark.parametrize(
        "start", ["a/", "a/b", "a/b/", "a/b/b", "a/b/d", "a-0", "b", "b.", "b/", "b/1", "é/"]
    )
    def test_list_starts_after_a_key_that_is_not_there(
        self, storage: ChunkStorage, start: str
    ) -> None:
        fill(storage, *KEYS)
        expected = [key for key in by_bytes(KEYS) if key.encode() > start.encode()]
        assert names(storage, start_after=start) == expected

    @pytest.mark.parametrize(
        "prefix",
        [
            "a", "a-", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a.", "a%", "b/0", "b", "\u00e9",
            "x", "a_", "_", "a*", "*", "a?", "[a]", "a\\", "^a", "(a|b)",
        ],
    )  # fmt: skip
    def test_list_takes_a_prefix_that_ends_anywhere(
        self, storage: ChunkStorage, prefix: str
    ) -> None:
        fill(storage, *KEYS)
        expected = [key for key in by_bytes(KEYS) if key.startswith(prefix)]
        assert names(storage, prefix) == expected

    @pytest.mark.parametrize("start", ["", "A", "a", "a-", "a-/x", "a/b", "a0", "b", "zz"])
    def test_list_takes_prefix_and_start(self, storage: ChunkStorage, start: str) -> None:
        fill(storage, *KEYS)
        for prefix in ("a", "a-", "a/b"):
            expected = [
                key
                for key in by_bytes(KEYS)
                if key.startswith(prefix) and key.encode() > start.encode()
            ]
            assert names(storage, prefix, start) == expected, prefix

    @pytest.mark.parametrize("prefix", ["/", "//", "a//", "../", "./", "a/../", ".", ".."])
    def test_list_of_a_prefix_that_no_key_has(self, storage: ChunkStorage, prefix: str) -> None:
        fill(storage, "a/b", "b")
        assert names(storage, prefix) == []

    def test_list_of_more_than_a_page(self, storage: ChunkStorage, service: ChunkService) -> None:
        keys = by_bytes(f"k/{number % 7}/{number:05}" for number in range(self.listed_count))
        for key in (*keys, "a", "z"):
            service.outside_write(key, b"x")
        assert names(storage) == ["a", *keys, "z"]
        for prefix in ("k/", "k/3/", "k/2"):
            assert names(storage, prefix) == [key for key in keys if key.startswith(prefix)]
        start = keys[len(keys) // 20]
        assert names(storage, "k/", start) == [key for key in keys if key > start]
        seen = []
        for chunk in storage.list("k/"):
            seen.append(chunk.name)
            # Pages are not counted from the beginning: what goes there moves nothing.
            storage.delete(chunk.name)
        assert seen == keys
        assert names(storage) == ["a", "z"]

    def test_list_is_lazy(self, storage: ChunkStorage) -> None:
        fill(storage, "a", "b", "c")
        listing = storage.list()
        assert isinstance(listing, Iterator)
        assert next(listing).name == "a"
        assert [chunk.name for chunk in storage.list()] == ["a", "b", "c"]
        assert [chunk.name for chunk in listing] == ["b", "c"]

    def test_list_shows_a_chunk_at_once_to_another_client(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        assert names(other) == []
        fill(storage, "d/a")
        assert names(other) == ["d/a"]
        fill(storage, "d/b", "e")
        assert names(other) == ["d/a", "d/b", "e"]
        storage.delete("d/a")
        assert names(other) == ["d/b", "e"]
        other.close()

    def test_list_shows_what_another_program_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        service.outside_write("d/a", b"abc")
        assert [(chunk.name, chunk.length) for chunk in storage.list()] == [("d/a", 3)]

    def test_list_survives_deletes_meanwhile(self, storage: ChunkStorage) -> None:
        keys = [f"d{number % 5}/{number:02}" for number in range(20)]
        fill(storage, *keys)
        seen = []
        for chunk in storage.list():
            seen.append(chunk.name)
            storage.delete(chunk.name)
        assert seen == by_bytes(keys)
        assert names(storage) == []

    def test_list_shows_the_old_ones_once_while_new_ones_come(self, storage: ChunkStorage) -> None:
        keys = [f"d{number % 5}/{number:02}" for number in range(20)]
        fill(storage, *keys)
        seen = []
        for chunk in storage.list():
            seen.append(chunk.name)
            if len(seen) <= 10:
                fill(storage, f"{chunk.name}-new", f"a{len(seen)}")
        assert [name for name in seen if name in keys] == by_bytes(keys)
        assert len(seen) == len(set(seen))

    def test_list_of_a_prefix_that_is_a_key(self, storage: ChunkStorage) -> None:
        fill(storage, "d/a", "d/ab", "d/a-", "d/b", "e")
        assert names(storage, "d/a") == ["d/a", "d/a-", "d/ab"]
        assert names(storage, "d/a", "d/a") == ["d/a-", "d/ab"]

    def test_list_starts_after_the_last_key(self, storage: ChunkStorage) -> None:
        fill(storage, "a", "b")
        assert names(storage, start_after="b") == []
        assert names(storage, "a", "b") == []

    def test_list_starts_before_the_prefix(self, storage: ChunkStorage) -> None:
        fill(storage, "a", "b/a", "b/b", "c")
        assert names(storage, "b/", "a") == ["b/a", "b/b"]
        assert names(storage, "b/", "A/very/early/key") == ["b/a", "b/b"]

    def test_list_goes_on_where_another_listing_ended(self, storage: ChunkStorage) -> None:
        keys = [f"d{number % 3}/{number:03}" for number in range(30)]
        fill(storage, *keys)
        found: list[str] = []
        for _ in range(5):
            listing = storage.list("", found[-1] if found else "")
            found += [chunk.name for chunk in islice(listing, 7)]
        assert found == by_bytes(keys)

    def test_listings_do_not_meet(self, storage: ChunkStorage) -> None:
        keys = [f"d{number % 3}/{number:03}" for number in range(20)]
        fill(storage, *keys)
        both = zip(storage.list(), storage.list("", "d0/zzz"), strict=False)
        seen = [(one.name, other.name) for one, other in both]
        whole = by_bytes(keys)
        assert seen == list(zip(whole, [key for key in whole if key > "d0/zzz"], strict=False))

    def test_listings_can_be_left(self, storage: ChunkStorage) -> None:
        fill(storage, *(f"d/{number}" for number in range(5)))
        left = [storage.list() for _ in range(20)]
        for listing in left:
            next(listing)
        del left, listing
        assert len(names(storage)) == 5

    def test_a_listing_that_ended_stays_ended(self, storage: ChunkStorage) -> None:
        fill(storage, "a")
        listing = storage.list()
        assert [chunk.name for chunk in listing] == ["a"]
        fill(storage, "b")
        assert next(listing, None) is None

    def test_list_takes_text_only(self, storage: ChunkStorage) -> None:
        wrong: Any
        for wrong in (b"a", None, 7):
            with pytest.raises(TypeError):
                list(storage.list(wrong))
            with pytest.raises(TypeError):
                list(storage.list("", wrong))

    def test_list_refuses_what_is_no_unicode(self, storage: ChunkStorage) -> None:
        with pytest.raises(ChunkNameError):
            list(storage.list("\ud800"))
        with pytest.raises(ChunkNameError):
            list(storage.list("", "\ud800"))

    def test_list_knows_lengths_and_versions(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        for length in (1, 2, 1_000):
            service.outside_write(f"d/{length}", bytes(length))
        assert [chunk.length for chunk in storage.list("d/")] == [1, 1_000, 2]
        assert list(storage.list("d/")) == [storage.stat(name) for name in names(storage)]

    def test_list_shows_a_length_that_grew(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "append")
        fill(storage, "a", content=[b"abc"])
        assert [chunk.length for chunk in storage.list()] == [3]
        other = service.open()
        other.write("a", 3, [b"def"])
        other.close()
        assert [chunk.length for chunk in storage.list()] == [6]
