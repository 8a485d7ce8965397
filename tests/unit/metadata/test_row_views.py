"""Rows as a person sees them: every kind, damaged ones, and newer ones."""

from __future__ import annotations

import pytest

from siltstone.core.records.keys import RowKind
from siltstone.metadata.row_views import key_view, row_view
from tests.support.docs.metadata_examples import WRITTEN

ROWS = {name: row for name, row in WRITTEN.items() if name != "position"}


def test_every_kind_has_its_view() -> None:
    assert {RowKind(key[0]) for key, _ in ROWS.values()} == set(RowKind)


@pytest.mark.parametrize("name", ROWS)
def test_each_example_is_told_without_an_error(name: str) -> None:
    key, value = ROWS[name]
    kind, fields = row_view(key, value)
    assert kind == RowKind(key[0]).name.lower()
    assert "error" not in fields
    assert key_view(key)[1].items() <= {**fields, **key_view(key)[1]}.items()


def test_fields_are_those_of_the_row() -> None:
    assert row_view(*ROWS["extent"]) == (
        "extent",
        {"segment_id": 300, "start": 4096, "chunk_id": 42, "chunk_offset": 0, "length": 4904},
    )
    assert row_view(*ROWS["counter"]) == ("counter", {"counter": "chunk_id", "next": 1025})
    kind, fields = row_view(*ROWS["writer-name"])
    assert (kind, fields) == ("writer_name", {"segment_id": 300, "name": "loader-7", "number": 5})
    assert row_view(*ROWS["task"])[1]["kind"] == "delete_chunk"


@pytest.mark.parametrize("name", ROWS)
def test_damage_is_told_and_hides_nothing(name: str) -> None:
    key, value = ROWS[name]
    kind, fields = row_view(key, value[:1])
    assert (kind, fields["value"]) == (RowKind(key[0]).name.lower(), value[:1].hex())
    assert "cut" in str(fields["error"])
    newer = value[:1] + b"\x63" + value[2:]
    assert "unknown" in str(row_view(key, newer)[1]["error"])


def test_impossible_and_unknown_keys() -> None:
    assert row_view(b"\x04short", b"") == row_view(b"\x04short", b"")
    assert "error" in key_view(b"\x04short")[1]
    assert row_view(b"\xf0key", b"value") == (
        "unknown",
        {"key": "f06b6579", "value": "76616c7565"},
    )
    assert row_view(b"", b"v")[0] == "unknown"
