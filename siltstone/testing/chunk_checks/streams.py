"""Checks of ``create_from``, which makes a chunk of pieces as they come."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkExistsError, Outcome
from siltstone.core.storage.optional_verbs import PieceError, StreamedCreates
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, need


class StreamChecks(ChunkSubject):
    """What is made of pieces is the same as what is made at once."""

    def test_streamed_create_takes_all_pieces_from_one_buffer(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        data = os.urandom(5 * MIB + 7)
        _streamed(storage).create_from("d/a", len(data), _in_one_buffer(data, MIB))
        assert service.outside_read("d/a") == data

    def test_streamed_create_refuses_a_taken_name(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        streamed = _streamed(storage)
        storage.create("a", [b"first"])
        with pytest.raises(ChunkExistsError) as caught:
            streamed.create_from("a", 6, [b"second"])
        assert (caught.value.operation, caught.value.outcome) == ("create", Outcome.NOT_APPLIED)
        assert service.outside_read("a") == b"first"

    @pytest.mark.parametrize("good", [0, 1, 4])
    def test_streamed_create_whose_pieces_end_in_an_error_makes_no_more_than_them(
        self, storage: ChunkStorage, service: ChunkService, good: int
    ) -> None:
        def pieces() -> Iterator[bytes]:
            yield from [bytes(MIB)] * good
            _fail()

        streamed = _streamed(storage)
        with pytest.raises(PieceError) as caught:
            streamed.create_from("a", 5 * MIB, pieces())
        assert isinstance(caught.value.error, FileNotFoundError)
        assert len(service.outside_read("a") or b"") <= good * MIB

    def test_streamed_create_whose_pieces_end_in_an_error_leaves_what_has_the_name(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        def pieces() -> Iterator[bytes]:
            yield bytes(MIB)
            _fail()

        streamed = _streamed(storage)
        storage.create("a", [b"first"])
        with pytest.raises((PieceError, ChunkExistsError)):
            streamed.create_from("a", 5 * MIB, pieces())
        assert service.outside_read("a") == b"first"

    @pytest.mark.parametrize("count", [1, 3])
    def test_streamed_create_of_another_length_is_refused(
        self, storage: ChunkStorage, service: ChunkService, count: int
    ) -> None:
        with pytest.raises(PieceError) as caught:
            _streamed(storage).create_from("a", 20, [b"0123456789"] * count)
        assert isinstance(caught.value.error, ValueError)
        assert len(service.outside_read("a") or b"") in (0, 10, 20)

    def test_streamed_create_refuses_no_bytes(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        with pytest.raises(ValueError, match="one byte"):
            _streamed(storage).create_from("a", 0, [])
        assert not service.outside_names()


def _streamed(storage: ChunkStorage) -> StreamedCreates:
    need(storage, "streams")
    assert isinstance(storage, StreamedCreates)
    return storage


def _in_one_buffer(data: bytes, size: int) -> Iterator[memoryview]:
    room = memoryview(bytearray(size))
    for begin in range(0, len(data), size):
        some = data[begin : begin + size]
        room[: len(some)] = some
        yield room[: len(some)]
        room[:] = bytes(size)


def _fail() -> NoReturn:
    raise FileNotFoundError("the source is gone")
