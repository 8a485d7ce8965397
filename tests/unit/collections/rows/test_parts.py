"""Parts: rows come out as they went in, their facts are right, and damage is never read as rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from siltstone.collections.rows import open_part as open_part_module
from siltstone.collections.rows.encode_parts import INLINE_BYTES, at_time, encode_updates
from siltstone.collections.rows.open_part import check_whole, open_part
from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema
from siltstone.core.errors import CollectionError, CorruptDataError
from siltstone.core.records.collection_frontier import AT_COMMIT
from siltstone.core.records.collection_part import PartFlags, contradiction
from tests.support.collections.part_place import PartPlace
from tests.support.collections.row_cases import (
    Update,
    schema_of,
    schemas,
    sums_from,
    table_of,
    updates,
    updates_of,
)

ID = 3


def everything(place: PartPlace, schema: RowSchema, piece: Any) -> pyarrow.Table:
    """All rows of a part."""
    opened = open_part(
        piece.part, {ID: schema}, lambda at, size: place.read(piece.name, at, size), where="a part"
    )
    return opened.read(range(len(opened.group_rows)))


@settings(deadline=None)
@given(st.data(), schemas(), st.booleans(), st.booleans())
def test_rows_come_out_as_they_went_in(
    data: Any, schema: RowSchema, inline: bool, whole: bool
) -> None:
    given_updates = data.draw(updates(schema))
    place = PartPlace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_part_module, "WHOLE_BYTES", 2**20 if whole else 0)
        run = place.put_run(
            encode_updates(table_of(schema, given_updates), schema, ID, inline=inline)
        )
        found = [
            update
            for piece in run
            for update in updates_of(schema, everything(place, schema, piece), piece.part.time)
        ]
    assert sums_from(found, 0) == sums_from(given_updates, 0)
    assert len(run) <= 1
    for piece in run:
        part = piece.part
        assert contradiction(part) == ""
        assert (part.inline is not None) is inline
        assert part.rows == len(found)
        assert (part.time_min, part.time_max) == (
            min(update.time for update in found),
            max(update.time for update in found),
        )
        assert part.diff_sum == sum(update.diff for update in given_updates)
        assert (PartFlags.HAS_TIME in part.flags) is (part.time_min != part.time_max)
        assert (PartFlags.HAS_DIFF in part.flags) is any(update.diff != 1 for update in found)
        assert (PartFlags.HAS_NEGATIVES in part.flags) is any(update.diff < 0 for update in found)


def test_other_programs_read_a_part_as_parquet() -> None:
    schema = schema_of([pyarrow.string()], [pyarrow.float64()])
    table = table_of(schema, [Update((name, None), time, 2) for time, name in enumerate("cab")])
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID, inline=False))
    found = parquet.read_table(io.BytesIO(place.objects[piece.name]))
    assert found.to_pydict() == {
        "k0": ["a", "b", "c"],
        "v0": [None] * 3,
        TIME: [1, 2, 0],
        DIFF: [2] * 3,
    }


def test_pages_have_the_checksums_that_other_programs_compare() -> None:
    schema = schema_of([pyarrow.int64()])
    place = PartPlace()
    rows = [Update((number,), 0, 1) for number in range(50)]
    (piece,) = place.put_run(encode_updates(table_of(schema, rows), schema, ID, inline=False))
    data = bytearray(place.objects[piece.name])
    chunk = parquet.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start + chunk.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="CRC"):
        parquet.read_table(io.BytesIO(data), page_checksum_verification=True)


@pytest.mark.parametrize("kind", [pyarrow.int64(), pyarrow.float64(), pyarrow.string()])
def test_columns_have_a_dictionary_only_where_values_repeat(kind: pyarrow.DataType) -> None:
    schema = schema_of([pyarrow.int64()], [kind, kind])
    total = 70_000
    numbers = pyarrow.array(range(total))
    often = pyarrow.array([number % 9 for number in range(total)])
    table = pyarrow.table([numbers, numbers.cast(kind), often.cast(kind)], schema=schema.arrow)
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID))
    groups = parquet.read_metadata(io.BytesIO(place.objects[piece.name]))
    for number in range(groups.num_row_groups):
        chunks = [groups.row_group(number).column(column) for column in range(3)]
        assert [chunk.has_dictionary_page for chunk in chunks] == [False, False, True]
    assert everything(place, schema, piece) == table


@pytest.mark.parametrize("bytes_each", [8, 400])
def test_row_groups_have_65536_rows_or_4_mib(bytes_each: int) -> None:
    schema = schema_of([pyarrow.int64()], [pyarrow.binary()])
    rows = 70_000
    table = pyarrow.table(
        [pyarrow.arange(0, rows), pyarrow.repeat(b"x" * bytes_each, rows)], names=schema.names
    )
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID))
    opened = open_part(
        piece.part, {ID: schema}, lambda at, size: place.read(piece.name, at, size), where=""
    )
    if bytes_each == 8:
        assert opened.group_rows == (65_536, rows - 65_536)
    else:
        sizes = [size * (bytes_each + 16) for size in opened.group_rows]
        assert all(3 * 2**20 < size < 5 * 2**20 for size in sizes[:-1])
        assert max(sizes) < 5 * 2**20
    assert len(opened.group_bounds) == len(opened.group_rows)
    assert list(opened.group_bounds) == sorted(opened.group_bounds)


def test_a_run_is_cut_into_parts_of_a_size() -> None:
    schema = schema_of([pyarrow.int64()], [pyarrow.binary(16)])
    rows = 30_000
    noise = [Random(number).randbytes(16) for number in range(rows)]
    table = pyarrow.table(
        [pyarrow.arange(0, rows), pyarrow.array(noise, pyarrow.binary(16))], names=schema.names
    )
    place = PartPlace()
    run = place.put_run(encode_updates(table, schema, ID, part_size=100_000))
    assert len(run) > 3
    assert all(50_000 < piece.part.length <= 100_000 for piece in run[:-1])
    bounds = [bound for piece in run for bound in (piece.part.key_min, piece.part.key_max)]
    assert bounds == sorted(bounds)
    found = pyarrow.concat_tables([everything(place, schema, piece) for piece in run])
    assert found.equals(table.cast(found.schema))


def test_up_to_4_kib_are_inline() -> None:
    schema = schema_of([pyarrow.int64()], [pyarrow.float64()] * 3)
    for rows in (20, 100, 125, 126, 130, 200):
        table = pyarrow.table([pyarrow.arange(0, rows)] * 4, names=schema.names).cast(schema.arrow)
        (encoded,) = encode_updates(table, schema, ID)
        size = pyarrow.ipc.get_record_batch_size(table.combine_chunks().to_batches()[0])
        assert (encoded.part.inline is not None) is (size <= INLINE_BYTES), rows
        if rows == 20:
            assert encoded.part.length <= 1_000


def test_rows_that_come_no_times_are_left_out() -> None:
    schema = schema_of([pyarrow.int64()])
    table = table_of(schema, [Update((1,), 0, 0), Update((2,), 0, 3)])
    (encoded,) = encode_updates(table, schema, ID)
    assert (encoded.part.rows, encoded.part.diff_sum) == (1, 3)
    assert list(encode_updates(table.slice(0, 1), schema, ID)) == []


def test_rows_may_get_their_time_at_the_commit() -> None:
    schema = schema_of([pyarrow.int64()])
    table = pyarrow.table([pyarrow.array([1, 2])], names=schema.names)
    (encoded,) = encode_updates(table, schema, ID)
    assert encoded.part.time == AT_COMMIT
    part = at_time(encoded.part, 17)
    assert (part.time, part.time_min, part.time_max) == (17, 17, 17)
    assert at_time(part, 18) == part


def test_sums_beyond_64_bits_are_refused() -> None:
    schema = schema_of([pyarrow.int64()])
    table = table_of(schema, [Update((1,), 0, 2**62), Update((2,), 0, 2**62)])
    with pytest.raises(CollectionError, match="fewer rows"):
        list(encode_updates(table, schema, ID))
    with pytest.raises(CollectionError, match="fewer rows"):
        list(encode_updates(table, schema, ID, inline=False))


def small_tables() -> dict[str, tuple[RowSchema, pyarrow.Table]]:
    """Parts of every kind of page: of dictionaries, of bits, with nulls, of several groups."""
    text = schema_of([pyarrow.string()], [pyarrow.float64(), pyarrow.bool_()])
    words = [Update((f"s{number % 4}", None, number % 2 == 0), number, -1) for number in range(9)]
    number = schema_of([pyarrow.int64()])
    return {
        "texts": (text, table_of(text, words)),
        "numbers": (number, pyarrow.table([pyarrow.array([5, 7, 7, 9])], names=["k0"])),
    }


def flips(length: int) -> list[tuple[int, int]]:
    """Each byte with each of its bits, and with all of them."""
    return [(at, change) for at in range(length) for change in (1, 2, 4, 8, 16, 32, 64, 128, 255)]


@pytest.mark.parametrize("name", small_tables())
@pytest.mark.parametrize("form", ["inline", "whole", "ranges"])
def test_each_flipped_bit_of_a_part_is_noticed_or_without_effect(
    name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_part_module, "WHOLE_BYTES", 2**20 if form == "whole" else 0)
    schema, table = small_tables()[name]
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID, time=5, inline=form == "inline"))
    wanted = everything(place, schema, piece)
    whole = place.objects[piece.name] if piece.name else piece.part.inline
    assert whole is not None
    unnoticed = []
    for at, change in flips(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= change
        if piece.name:
            place.objects[piece.name] = bytes(damaged)
            part = piece.part
        else:
            part = replace(piece.part, inline=bytes(damaged))
        with pytest.raises(CorruptDataError):
            check_whole(part, bytes(damaged), where="a part")
        try:
            found = everything(place, schema, replace(piece, part=part))
        except CorruptDataError as error:
            assert error.where == "a part"  # noqa: PT017
        else:
            assert found.equals(wanted), f"byte {at} changed by {change} is read as other rows"
            unnoticed.append(at)
    # The first magic of Parquet is passed over by reads of ranges.
    assert set(unnoticed) == (set(range(4)) if form == "ranges" else set())


def cut(data: bytes) -> bytes:
    return data[:-1]


def emptied(data: bytes) -> bytes:
    return b""


def other(data: bytes) -> bytes:
    return bytes(len(data))


@pytest.mark.parametrize("change", [cut, emptied, other])
@pytest.mark.parametrize("whole", [True, False])
def test_an_object_that_is_another_is_damage(
    change: Callable[[bytes], bytes], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_part_module, "WHOLE_BYTES", 2**20 if whole else 0)
    schema, table = small_tables()["texts"]
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID, inline=False))
    place.objects[piece.name] = change(place.objects[piece.name])
    with pytest.raises(CorruptDataError, match="where=a part"):
        everything(place, schema, piece)


@pytest.mark.parametrize("whole", [True, False])
def test_a_part_in_the_place_of_another_is_damage(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_part_module, "WHOLE_BYTES", 2**20 if whole else 0)
    schema = schema_of([pyarrow.int64()])
    place = PartPlace()
    tables = [pyarrow.table([pyarrow.array([value] * 2)], names=["k0"]) for value in (1, 2)]
    one, two = (
        place.put(next(encode_updates(table, schema, ID, inline=False))) for table in tables
    )
    assert one.part.length == two.part.length
    place.objects[one.name] = place.objects[two.name]
    with pytest.raises(CorruptDataError):
        everything(place, schema, one)


def test_a_row_that_belongs_to_another_schema_is_damage() -> None:
    schema, table = small_tables()["texts"]
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID, inline=False))
    with pytest.raises(CorruptDataError, match="not that of its row"):
        everything(place, schema_of([pyarrow.string()]), piece)
    retyped = schema_of([pyarrow.string()], [pyarrow.binary(3), pyarrow.bool_()])
    with pytest.raises(CorruptDataError, match="cannot be decoded"):
        everything(place, retyped, piece)


def test_columns_that_are_left_out_are_not_read() -> None:
    schema = schema_of([pyarrow.int64()], [pyarrow.binary(64)])
    rows = 40_000
    noise = [Random(number).randbytes(64) for number in range(rows)]
    table = pyarrow.table(
        [pyarrow.arange(0, rows), pyarrow.array(noise, pyarrow.binary(64))], names=schema.names
    )
    place = PartPlace()
    (piece,) = place.put_run(encode_updates(table, schema, ID))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_part_module, "WHOLE_BYTES", 0)
        opened = open_part(
            piece.part, {ID: schema}, lambda at, size: place.read(piece.name, at, size), where=""
        )
        found = opened.read([0], ["k0"])
    assert found.column_names == ["k0"]
    assert len(found) == rows
    assert sum(length for _, _, length in place.requests) < piece.part.length // 2
