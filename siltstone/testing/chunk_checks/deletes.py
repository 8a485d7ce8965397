"""Checks of ``delete``, of one chunk and of many, by one caller at a time."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkExistsError, ChunkNameError, ChunkNotFoundError, Outcome
from siltstone.core.storage.optional_verbs import BulkDeletes, delete_many, sweep_leftovers
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, names, read


class DeleteChecks(ChunkSubject):
    """A chunk is removed once, and no other with it."""

    def test_delete_removes_the_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        storage.create("a/b", [b"x"])
        storage.delete("a/b")
        assert not service.outside_names()
        with pytest.raises(ChunkNotFoundError):
            storage.stat("a/b")

    def test_delete_twice_is_noticed(self, storage: ChunkStorage) -> None:
        storage.create("a", [b"x"])
        storage.delete("a")
        with pytest.raises(ChunkNotFoundError) as caught:
            storage.delete("a")
        assert (caught.value.chunk, caught.value.operation) == ("a", "delete")
        assert caught.value.outcome is Outcome.NOT_APPLIED

    def test_delete_of_what_never_was_is_noticed(self, storage: ChunkStorage) -> None:
        with pytest.raises(ChunkNotFoundError):
            storage.delete("a/b/c")

    def test_delete_removes_what_another_program_made(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        service.outside_write("a", b"theirs")
        storage.delete("a")
        assert service.outside_read("a") is None

    def test_delete_leaves_the_neighbours(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        for name in ("d/a", "d/ab", "d/a-", "e/a"):
            storage.create(name, [b"x"])
        storage.delete("d/a")
        assert names(storage) == ["d/a-", "d/ab", "e/a"]
        assert sorted(service.outside_names()) == ["d/a-", "d/ab", "e/a"]

    def test_delete_many_removes_what_is_named(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        names_left = ["d/a-", "d/b", "e"]
        gone = ["d/a", "d/a b", "d/é%2F", "missing", "d"]
        for name in (*names_left, *gone[:3]):
            storage.create(name, [b"x"])
        assert delete_many(storage, gone) == {}
        assert sorted(service.outside_names()) == names_left
        assert delete_many(storage, gone) == {}

    def test_delete_many_of_more_than_a_request_takes(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        most = storage.capabilities.bulk_delete_max
        if not 1 < most <= 2_000:
            pytest.skip("missing capability: bulk_delete_max")
        made = [f"d/{number:05}" for number in range(0, most + 3, 100)]
        for name in made:
            service.outside_write(name, b"x")
        assert isinstance(storage, BulkDeletes)
        assert storage.delete_many([f"d/{number:05}" for number in range(most + 3)]) == {}
        assert not service.outside_names()

    def test_sweep_of_leftovers_keeps_every_chunk(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"x"])
        assert sweep_leftovers(storage, "d/", 0.0) == 0
        assert list(service.outside_names()) == ["d/a"]

    def test_delete_of_a_folder_removes_nothing(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"x"])
        with pytest.raises(ChunkNotFoundError):
            storage.delete("d")
        assert list(service.outside_names()) == ["d/a"]

    def test_delete_of_a_name_leaves_what_lies_below_it(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"x"])
        try:
            storage.create("d", [b"y"])
        except (ChunkNameError, ChunkExistsError):
            pytest.skip("a chunk cannot have the name of another one's folder")
        storage.delete("d")
        assert list(service.outside_names()) == ["d/a"]

    def test_a_deleted_chunk_stays_deleted(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        storage.create("d/a", [b"x"])
        storage.delete("d/a")
        storage.close()
        again = service.open()
        assert names(again) == []
        with pytest.raises(ChunkNotFoundError):
            again.stat("d/a")
        again.close()

    def test_delete_shows_at_once_to_another_client(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        other = service.open()
        storage.create("a", [b"x"])
        assert names(other) == ["a"]
        storage.delete("a")
        assert names(other) == []
        with pytest.raises(ChunkNotFoundError):
            read(other, "a")
        with pytest.raises(ChunkNotFoundError):
            other.delete("a")
        other.close()

    def test_delete_of_many(self, storage: ChunkStorage, service: ChunkService) -> None:
        made = [f"d{number % 3}/{number}" for number in range(30)]
        for name in made:
            storage.create(name, [b"x"])
        for name in made[::2]:
            storage.delete(name)
        assert sorted(service.outside_names()) == sorted(made[1::2])
