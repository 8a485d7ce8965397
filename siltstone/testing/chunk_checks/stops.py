"""Checks of a service that does not answer: every call ends, and its outcome is the truth.

They need a ``StoppableService`` and are skipped without one.
"""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import (
    create_from,
    create_whole,
    delete_many,
    sweep_leftovers,
)
from siltstone.testing.chunk_checks.abilities import part_of
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    StoppableService,
    fill,
    names,
    need,
    read,
)


class StopChecks(ChunkSubject):
    """A failure is no answer: nothing is concluded from it, and nothing is hidden by it."""

    @pytest.fixture
    def stoppable(self, service: ChunkService) -> Iterator[StoppableService]:
        """The service, which answers again in the end."""
        if not isinstance(service, StoppableService):
            pytest.skip("the service cannot be stopped here")
        yield service
        service.start()

    def test_create_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        self._unanswered(stoppable, lambda: storage.create("a", [b"abc"]))
        # A caller that does not know uses another name; one that knows may use this one.
        self._came_to(stoppable, "a", None, b"abc")
        storage.create("b", [b"next"])
        assert stoppable.outside_read("b") == b"next"

    def test_write_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        need(storage, "append")
        storage.create("a", [b"abc"])
        self._unanswered(stoppable, lambda: storage.write("a", 3, [b"def"]))
        self._came_to(stoppable, "a", b"abc", b"abcdef")

    def test_delete_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        storage.create("a", [b"abc"])
        self._unanswered(stoppable, lambda: storage.delete("a"))
        self._came_to(stoppable, "a", b"abc", None)

    def test_delete_many_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        fill(storage, "a", "d/b")
        stoppable.stop()
        try:
            failed = set(delete_many(storage, ["a", "d/b"]))
        except ChunkError:
            failed = {"a", "d/b"}
        finally:
            stoppable.start()
        assert set(stoppable.outside_names()) <= failed, "it was said to be gone"

    def test_streamed_create_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        need(storage, "streams")
        self._unanswered(stoppable, lambda: create_from(storage, "a", 3, [b"a", b"bc"]))
        self._came_to(stoppable, "a", None, b"abc")

    def test_whole_create_tells_the_truth_and_may_be_repeated(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        need(storage, "whole")
        self._unanswered(stoppable, lambda: create_whole(storage, "a", [b"abc"]))
        found = stoppable.outside_read("a")
        assert found is None or (found == b"abc" and self._outcome is Outcome.UNKNOWN)
        for _ in range(self.tries_after_stop):
            with suppress(ChunkUnavailableError, ChunkExistsError):
                create_whole(storage, "a", [b"abc"])
        assert stoppable.outside_read("a") == b"abc"
        sweep_leftovers(storage, "", 0.0)

    def test_concat_tells_the_truth(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        need(storage, "concat")
        part = part_of(storage, b"a")
        storage.create("a", [part])
        self._unanswered(stoppable, lambda: storage.concat("t", [("a", len(part))]))
        self._came_to(stoppable, "t", None, part)
        assert stoppable.outside_read("a") == part

    def test_seal_tells_the_truth(self, storage: ChunkStorage, stoppable: StoppableService) -> None:
        need(storage, "seal")
        storage.create("a", [b"abc"])
        self._unanswered(stoppable, lambda: storage.seal("a"))
        assert stoppable.outside_read("a") == b"abc"
        storage.seal("a")

    @pytest.mark.parametrize("operation", ["read_into", "stat"])
    def test_no_answer_is_not_taken_for_a_missing_chunk(
        self, storage: ChunkStorage, stoppable: StoppableService, operation: str
    ) -> None:
        storage.create("a", [b"abc"])
        if operation == "stat":
            error = self._unanswered(stoppable, lambda: storage.stat("a"))
        else:
            error = self._unanswered(stoppable, lambda: storage.read_into("a", 0, bytearray(3)))
        assert not isinstance(error, ChunkNotFoundError)
        assert read(storage, "a") == b"abc"

    def test_no_answer_is_not_taken_for_an_empty_listing(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        fill(storage, "a", "d/b")
        self._unanswered(stoppable, lambda: list(storage.list()))
        self._unanswered(stoppable, lambda: list(storage.list("d/")))
        assert names(storage) == ["a", "d/b"]

    def test_a_listing_that_breaks_off_says_so(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        keys = [f"d{number % 5}/{number:04}" for number in range(self.listed_count)]
        for key in keys:
            stoppable.outside_write(key, b"x")
        listing = storage.list()
        seen = [next(listing).name]
        stoppable.stop()
        try:
            seen += [chunk.name for chunk in listing]
        except ChunkError:
            assert seen == sorted(keys)[: len(seen)]
        else:
            assert seen == sorted(keys), "it ended early, as if that were all"
        finally:
            stoppable.start()

    def test_a_client_goes_on_when_the_service_is_back(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        for number in range(3):
            self._unanswered(stoppable, lambda: storage.stat("a"))
            created = self._created_in_the_end(storage, f"{number}", b"abc")
            assert read(storage, created) == b"abc"

    def test_close_needs_no_service(
        self, storage: ChunkStorage, stoppable: StoppableService
    ) -> None:
        fill(storage, "a")
        stoppable.stop()
        storage.close()
        stoppable.start()
        with pytest.raises(ClosedError):
            storage.stat("a")

    def _created_in_the_end(self, storage: ChunkStorage, name: str, data: bytes) -> str:
        """Make a chunk under a new name at each try; return the name that was answered."""
        for number in range(1, self.tries_after_stop):
            with suppress(ChunkUnavailableError):
                storage.create(f"{name}.{number}", [data])
                return f"{name}.{number}"
        storage.create(name, [data])
        return name

    def _unanswered(self, service: StoppableService, call: Callable[[], object]) -> ChunkError:
        """Make a call that gets no answer; it ends with an error of the contract."""
        service.stop()
        try:
            with pytest.raises(ChunkError) as caught:
                call()
        finally:
            service.start()
        self._outcome = caught.value.outcome
        return caught.value

    def _came_to(
        self, service: ChunkService, name: str, before: bytes | None, after: bytes | None
    ) -> None:
        """The service holds the one or the other, and what was said of it was true."""
        found = service.outside_read(name)
        if self._outcome is Outcome.NOT_APPLIED:
            assert found == before
        else:
            halves = found is not None and (after or b"").startswith(found)
            assert found in (before, after) or halves
