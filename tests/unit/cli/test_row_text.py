"""Rows as text: what is written is read again as the same rows, and what is none is named."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.cli import row_input, row_output
from siltstone.cli.collection_schema_text import columns_of, type_of
from siltstone.cli.row_input import RowSource, tables_of
from siltstone.cli.row_output import ROW_WRITERS
from siltstone.core.errors import CollectionSchemaError

SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999: later dates have no text that is read again."""


def ints(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


def stamps(unit: str) -> st.SearchStrategy[int]:
    """Times from the year 1 to 9999, or as many whole seconds as there are."""
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    low = max(-(2**63) // factor + 1, -62_135_596_800)
    high = min(2**63 // factor - 1, SECONDS_MAX)
    return st.integers(low * factor, high * factor)


CENTS = st.integers(-(10**10) + 1, 10**10 - 1)

KINDS: list[tuple[pyarrow.DataType, st.SearchStrategy[Any], pyarrow.DataType | None]] = [
    (pyarrow.bool_(), st.booleans(), None),
    (pyarrow.int8(), ints(8, signed=True), None),
    (pyarrow.int64(), ints(64, signed=True), None),
    (pyarrow.uint64(), ints(64, signed=False), None),
    (pyarrow.float32(), st.floats(width=32), None),
    (pyarrow.float64(), st.floats(), None),
    (pyarrow.decimal128(10, 2), CENTS.map(lambda cents: Decimal(cents).scaleb(-2)), None),
    (pyarrow.date32(), st.integers(-719_162, 2_932_896), pyarrow.int32()),
    (pyarrow.time32("s"), st.integers(0, 86_399), pyarrow.int32()),
    (pyarrow.time64("ns"), st.integers(0, 86_400 * 10**9 - 1), pyarrow.int64()),
    *(
        (pyarrow.timestamp(unit, zone), stamps(unit), pyarrow.int64())
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "+05:30")
    ),
    (pyarrow.string(), st.text(), None),
    (pyarrow.large_string(), st.text(), None),
    (pyarrow.binary(), st.binary(), None),
    (pyarrow.large_binary(), st.binary(), None),
    (pyarrow.binary(4), st.binary(min_size=4, max_size=4), None),
]
"""Each type, what its values are made of, and the type that those are cast from."""


def column(
    kind: pyarrow.DataType, values: list[Any], made: pyarrow.DataType | None
) -> pyarrow.Array:
    return pyarrow.array(values, made or kind).cast(kind)


@st.composite
def tables(draw: st.DrawFn) -> pyarrow.Table:
    count = draw(st.integers(0, 4))
    chosen = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    columns = {
        f"c{place}": column(
            kind, draw(st.lists(st.none() | values, min_size=count, max_size=count)), made
        )
        for place, (kind, values, made) in enumerate(chosen)
    }
    # A key has no nulls: a row of CSV with one null alone would be an empty line.
    return pyarrow.table({"key": pyarrow.array(range(count), pyarrow.int64()), **columns})


def written(monkeypatch: pytest.MonkeyPatch, form: str, table: pyarrow.Table) -> bytes:
    parts: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(row_output, "write_bytes", parts.append)
        rows = ROW_WRITERS[form](table.schema)
        for batch in table.to_batches():
            rows.write(batch)
        rows.close()
    return b"".join(parts)


def read(data: bytes, form: str, schema: pyarrow.Schema) -> list[pyarrow.Table]:
    return list(tables_of(RowSource(io.BytesIO(data), lambda count: None), form, schema))


def same(one: pyarrow.Table, other: pyarrow.Table) -> bool:
    """Whether rows are equal; a NaN is one, whatever its bits are."""

    def plain(table: pyarrow.Table) -> list[tuple[object, ...]]:
        columns = [
            [repr(value) for value in part.cast(pyarrow.int64()).to_pylist()]
            if pyarrow.types.is_temporal(part.type) and part.type.bit_width == 64
            else [repr(value) for value in part.to_pylist()]
            for part in table.columns
        ]  # fmt: skip
        return list(zip(*columns, strict=True))

    return plain(one) == plain(other)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@settings(max_examples=40)
@given(table=tables())
def test_what_is_written_is_read_as_the_same_rows(form: str, table: pyarrow.Table) -> None:
    with pytest.MonkeyPatch.context() as patch:
        data = written(patch, form, table)
    found = read(data, form, table.schema)
    if not len(table):
        assert sum(len(one) for one in found) == 0
        return
    back = pyarrow.concat_tables(found)
    if form != "parquet":  # which has no seconds
        assert back.schema.types == table.schema.types
    assert same(back.select(table.column_names).cast(table.schema), table)


GUSTS = columns_of(["station:string not null", "gust:double", "n:int8", "raw:binary"])

MISTAKES: dict[str, tuple[str, bytes, str]] = {
    "no JSON": ("json", b'{"station": "a"}\n{"stat\n', r"not JSON: .* line=2"),
    "no UTF-8": ("json", b'\n\n{"station": "\xff"}\n', r"not JSON: .* line=3"),
    "no object": ("json", b"[1]\n", r"one object of JSON line=1"),
    "unknown column": (
        "json",
        b'{"station": "a"}\n{"wind": 1}\n',
        r"no such column.* line=2 column='wind'",
    ),
    "a number for a string": ("json", b'{"station": 1}\n', r"not a string: 1 line=1"),
    "a fraction for a string": ("json", b'{"station": 1.5}\n', r"not a string: '1.5' line=1"),
    "a string for a number": ("json", b'{"gust": "high"}\n', r"not a number: 'high' line=1"),
    "true for a number": ("json", b'{"n": 1}\n{"n": true}\n', r"not of type int: True line=2"),
    "too large": ("json", b'{"n": 1}\n\n{"n": 300}\n', r"line=3 column='n' type=int8"),
    "a fraction for a count": ("json", b'{"n": 1.0}\n', r"not of type int: '1.0' line=1"),
    "no base64": ("json", b'{"raw_base64": "!"}\n', r"not base64: '!' line=1"),
    "twice": ("json", b'{"raw": "a", "raw_base64": "YQ=="}\n', r"there twice column='raw'"),
    "nothing": ("csv", b"", r"not rows of CSV: .*[Ee]mpty"),
    "no number": ("csv", b"station,gust\na,1\nb,high\n", r"not rows of CSV: .*'high'"),
    "no base64 in CSV": ("csv", b"station,raw_base64\na,!\n", r"not base64: '!'"),
    "too few": ("csv", b"station,gust\na\n", r"not rows of CSV: .*[Ee]xpected 2 columns"),
    "text": ("parquet", b"station,gust\na,1\n", r"not a file of Parquet"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_row_is_named(mistake: str) -> None:
    form, data, reason = MISTAKES[mistake]
    with pytest.raises(CollectionSchemaError, match=reason):
        read(data, form, GUSTS)


def test_a_number_of_json_is_read_as_it_stands() -> None:
    schema = columns_of(["a:decimal128(38, 20)", "b:double", "c:float"])
    line = b'{"a": 12345678901234567.12345678901234567890, "b": 0.1, "c": 1}\n'
    (table,) = read(line, "json", schema)
    assert str(table["a"][0].as_py()) == "12345678901234567.12345678901234567890"
    assert (table["b"][0].as_py(), table["c"][0].as_py()) == (0.1, 1.0)


def test_text_of_a_column_of_bytes_is_its_utf_8() -> None:
    (table,) = read('{"raw": "bodø"}\n'.encode(), "json", GUSTS)
    assert table["raw"][0].as_py() == "bodø".encode()
    (table,) = read("raw\nbodø\n".encode(), "csv", GUSTS)
    assert table["raw"][0].as_py() == "bodø".encode()


def test_an_empty_string_and_a_null_of_csv_differ() -> None:
    (table,) = read(
        b'station,raw\n"",x\n,"y"\n', "csv", columns_of(["station:string", "raw:binary"])
    )
    assert table["station"].to_pylist() == ["", None]


def test_a_large_input_comes_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_input, "TABLE_BYTES", 1_000)
    monkeypatch.setattr(row_input, "LINES", 10)
    lines = b"".join(b'{"station": "%03d"}\n' % number for number in range(500))
    found = read(lines, "json", GUSTS)
    assert len(found) > 3
    assert pyarrow.concat_tables(found)["station"].to_pylist() == [f"{n:03}" for n in range(500)]


def test_names_that_would_be_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pyarrow.table({"a": pyarrow.array([b"x"]), "a_base64": pyarrow.array(["y"])})
    for form in ("json", "csv"):
        with pytest.raises(CollectionSchemaError, match="column='a_base64'"):
            written(monkeypatch, form, table)
    assert read(written(monkeypatch, "parquet", table), "parquet", table.schema) == [table]


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS], ids=str)
def test_a_type_is_read_as_arrow_writes_it(kind: pyarrow.DataType) -> None:
    assert type_of(str(kind)) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("decimal(5, 1)", pyarrow.decimal128(5, 1)),
        ("decimal256(50,3)", pyarrow.decimal256(50, 3)),
        ("date32", pyarrow.date32()),
        ("float64", pyarrow.float64()),
        ("timestamp[ms,tz=Europe/Oslo]", pyarrow.timestamp("ms", "Europe/Oslo")),
    ],
)
def test_types_have_short_names_too(text: str, kind: pyarrow.DataType) -> None:
    assert type_of(text) == kind


@pytest.mark.parametrize(
    "text", ["a", "a:", "a:text", "a:decimal(99, 1)", "a:list<int64>", "a:timestamp[m, tz=UTC]"]
)
def test_no_column_is_named(text: str) -> None:
    with pytest.raises(CollectionSchemaError, match="column="):
        columns_of([text])


def test_a_column_may_have_no_nulls() -> None:
    (field,) = columns_of(["a:int64 not null"])
    assert (field.name, field.type, field.nullable) == ("a", pyarrow.int64(), False)
