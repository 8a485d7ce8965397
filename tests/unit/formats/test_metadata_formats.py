"""The examples on the pages of metadata formats are what the code reads and writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.core.records import keys
from siltstone.core.records.keys import RowKind
from siltstone.core.records.number import encode_number
from siltstone.core.records.table_record import (
    TableEntry,
    decode_table_record,
    encode_table_record,
)
from siltstone.core.records.writer_row import decode_writer_row
from tests.support.docs.metadata_examples import FORMATS, READ, ROWS, WRITER, WRITTEN, examples


@pytest.mark.parametrize("name", WRITTEN)
def test_rows_are_as_the_page_says(name: str) -> None:
    key, value = ROWS[name]
    assert (key, value) == WRITTEN[name]
    expected, decode = READ[name]
    assert decode(key, value) == expected


def test_a_writer_of_before_there_were_sums_is_read() -> None:
    key, value = WRITTEN["writer"]
    flags = value.index(bytes.fromhex("0309c03ee807"))
    old = value[:flags] + b"\x01" + value[flags + 1 : -4]
    assert decode_writer_row(*keys.writer_of(key), old) == replace(WRITER, sum=None)


def test_every_kind_of_row_has_an_example() -> None:
    assert {key[0] for key, _ in ROWS.values()} == {0, *RowKind}
    assert WRITTEN.keys() == READ.keys() == ROWS.keys()


def test_the_record_is_as_the_page_says() -> None:
    page = examples("table-record.md")
    data = bytes.fromhex(page["table-record"])
    entries = (
        TableEntry(0, keys.name_key("a"), encode_number(RowKind.NAME, 7)),
        TableEntry(1, b"price", b"9", 2),
        TableEntry(1, b"old", None),
        TableEntry(1, b"x", None, range_end=b"z"),
    )
    record, crc = encode_table_record(entries, start_version=1000, running_crc=0x11223344)
    assert record == data
    decoded = decode_table_record(data, where="page")
    assert decoded.entries == entries
    assert decoded.table_version - decoded.length == 1000
    assert decoded.crc_after == crc
    text = (FORMATS / "table-record.md").read_text(encoding="utf-8")
    assert f"running sum after it is `{crc:08x}`" in text
