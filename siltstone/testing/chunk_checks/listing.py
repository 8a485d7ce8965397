"""Checks of ``list``: its order, its two arguments, and changes while it runs."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, fill, names

KEYS = (
    "a b", "a!", "a%2Fb", "a-0", "a-/x", "a.b/y", "a.c", "a/b/c", "a/b-", "a/b0", "a0", "aa", "A",
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
        ["a", "a-", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a.", "a%", "b/0", "b", "\u00e9", "x"],
    )
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
        keys = [f"{number % 7}/{number:05}" for number in range(self.listed_count)]
        for key in keys:
            service.outside_write(key, b"x")
        assert names(storage) == by_bytes(keys)
        assert names(storage, "3/") == by_bytes([key for key in keys if key.startswith("3/")])

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
