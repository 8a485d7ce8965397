"""Checks of ``overwrite``, which few services can do: bytes of a chunk are written in place."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkNotFoundError,
    ChunkOffsetError,
    Outcome,
)
from siltstone.core.storage.optional_verbs import overwrite
from siltstone.testing.chunk_checks.subject import (
    ChunkService,
    ChunkSubject,
    fill,
    need,
    need_missing,
    read,
)


class OverwriteChecks(ChunkSubject):
    """Bytes are replaced where they lie, and a chunk never gets shorter."""

    @pytest.mark.parametrize(
        ("offset", "wanted"), [(0, b"XY23456789"), (4, b"0123XY6789"), (9, b"012345678XY")]
    )
    def test_overwrite_changes_these_bytes_and_no_other(
        self, storage: ChunkStorage, service: ChunkService, offset: int, wanted: bytes
    ) -> None:
        need(storage, "overwrite")
        fill(storage, "a", "b", content=[b"0123456789"])
        overwrite(storage, "a", offset, [b"X", b"Y"])
        assert service.outside_read("a") == wanted
        assert read(storage, "a") == wanted
        assert service.outside_read("b") == b"0123456789"

    def test_overwrite_goes_on_at_the_end(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "overwrite")
        fill(storage, "a", content=[b"abc"])
        overwrite(storage, "a", 3, [b"def"])
        overwrite(storage, "a", 3, [b"def"])
        assert service.outside_read("a") == b"abcdef"

    def test_overwrite_changes_the_version(self, storage: ChunkStorage) -> None:
        need(storage, "overwrite")
        fill(storage, "a", content=[b"abc"])
        version = storage.stat("a").version
        overwrite(storage, "a", 0, [b"xyz"])
        assert storage.stat("a").version != version

    def test_overwrite_refuses_an_offset_beyond_the_end(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "overwrite")
        fill(storage, "a", content=[b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            overwrite(storage, "a", 4, [b"x"])
        assert (caught.value.expected, caught.value.actual) == (3, 4)
        assert caught.value.outcome is Outcome.NOT_APPLIED
        with pytest.raises(ValueError, match="byte"):
            overwrite(storage, "a", 0, [b""])
        assert service.outside_read("a") == b"abc"

    def test_overwrite_makes_no_chunk(self, storage: ChunkStorage, service: ChunkService) -> None:
        need(storage, "overwrite")
        with pytest.raises(ChunkNotFoundError):
            overwrite(storage, "a", 0, [b"x"])
        assert not service.outside_names()

    def test_overwrite_of_a_sealed_chunk_is_refused(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need(storage, "overwrite")
        need(storage, "seal")
        fill(storage, "a", content=[b"abc"])
        storage.seal("a")
        with pytest.raises(ChunkAccessDeniedError):
            overwrite(storage, "a", 0, [b"x"])
        assert service.outside_read("a") == b"abc"

    def test_service_without_overwrite_says_so(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        need_missing(storage, "overwrite")
        fill(storage, "a", content=[b"abc"])
        with pytest.raises(CapabilityError):
            overwrite(storage, "a", 0, [b"x"])
        assert service.outside_read("a") == b"abc"
