"""Sums of large values: they follow from the bytes alone, and no damage passes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.container.reads.self_checked import Check
from siltstone.core.checksums import crc32c
from siltstone.objects.changes import hash_of
from siltstone.objects.errors import LostObjectError
from siltstone.objects.large_upload import ValueSums
from siltstone.objects.large_values import LargeValue
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.large_place import LargePlace
from siltstone.store.handles.async_segment import AsyncSegment
from tests.support.objects.large_check import value_of
from tests.support.objects.records_to_try import cuts, flipped

KEY = ObjectKey(b"o", b"b", b"k")


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30), st.binary(max_size=5))
def test_sums_and_hash_do_not_depend_on_how_the_bytes_come(
    parts: list[bytes], piece_bytes: int, metadata: bytes
) -> None:
    sums = ValueSums(piece_bytes, metadata)
    for part in parts:
        sums.add(part)
    value = b"".join(parts)
    found, value_hash = sums.end()
    assert (sums.size, value_hash) == (len(value), hash_of(value, metadata))
    place = LargePlace(1, piece_bytes, crc32c(found))
    assert len(found) == place.sums_bytes(len(value))
    assert value_of(value + found, place, len(value)) == value


def test_a_hash_that_is_given_is_not_computed() -> None:
    sums = ValueSums(8, None)
    sums.add(b"value")
    assert sums.end()[1] is None


class FewBytes:
    """A segment in memory.

    Attributes:
        data: all its bytes.
        name: of the segment.
    """

    name = "few bytes"

    def __init__(self, data: bytes) -> None:
        self.data = data


@pytest.fixture
def value(monkeypatch: pytest.MonkeyPatch) -> tuple[FewBytes, Callable[[], LargeValue], bytes]:
    """The segment of a value of three pieces, what reads it for the first time, and the value."""

    async def read(segment: FewBytes, offset: int, length: int, check: Check[bytes]) -> bytes:
        return check(segment.data[offset : offset + length])

    monkeypatch.setattr("siltstone.objects.large_values.read_checked", read)
    data = bytes(range(40))
    sums = ValueSums(16, None)
    sums.add(data)
    found, _ = sums.end()
    segment = FewBytes(data + found)
    place = LargePlace(1, 16, crc32c(found))
    head = Head(1, 0, 1, 0, 100, len(data), bytes(8), 0, 0, (), b"", place)
    return segment, lambda: LargeValue(cast(AsyncSegment, segment), KEY, head, place), data


async def test_pieces_that_are_asked_for_are_given_whole(
    value: tuple[FewBytes, Callable[[], LargeValue], bytes],
) -> None:
    _, make, data = value
    large = make()
    assert await large.read_around(17, 18) == (16, data[16:32])
    assert await large.read_around(0, 17) == (0, data[:32])
    assert await large.read_around(31, 40) == (16, data[16:])
    assert await large.read_around(39, 40) == (32, data[32:])


async def test_each_flipped_bit_and_each_cut_is_a_loss(
    value: tuple[FewBytes, Callable[[], LargeValue], bytes],
) -> None:
    segment, make, data = value
    whole = segment.data
    for damaged in (*flipped(whole), *cuts(whole)):
        segment.data = damaged
        with pytest.raises(LostObjectError) as caught:
            await make().read_around(0, len(data))
        assert (caught.value.bucket, caught.value.key, caught.value.sqn) == ("b", "k", 1)
