"""Parts of collections: the example of their sums, damage, and parts that were written before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_part_sums import (
    GroupSums,
    decode_part_sums,
    encode_part_sums,
)
from tests.support.docs.format_page import example

PAGE = "collection-part.md"
SUMS = (
    GroupSums(
        key_min=b"bergen\0\0",
        crcs=(0x919459F1, 0x2DCB6377, 0x9DA8EF59, 0x7DDA5138),
    ),
)
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "collections"
FACTS: dict[str, Any] = {
    "rows": 2,
    "schema_id": 0,
    "flags": PartFlags.HAS_TIME | PartFlags.HAS_DIFF | PartFlags.HAS_NEGATIVES,
    "time": 3,
    "time_min": 3,
    "time_max": 4,
    "diff_sum": 0,
    "key_min": b"bergen\0\0",
    "key_max": b"oslo\0\0",
}


def test_the_example_is_what_a_writer_makes() -> None:
    assert decode_part_sums(example(PAGE), where=PAGE) == SUMS
    assert encode_part_sums(SUMS) == example(PAGE)


@given(
    st.integers(0, 3).flatmap(
        lambda columns: st.lists(
            st.builds(
                GroupSums,
                key_min=st.binary(max_size=32),
                crcs=st.tuples(*[st.integers(0, 2**32 - 1)] * columns),
            ),
            max_size=3,
        )
    )
)
def test_sums_come_back(groups: list[GroupSums]) -> None:
    data = encode_part_sums(groups)
    assert decode_part_sums(data, where="x") == tuple(groups)
    for cut in range(len(data)):
        with pytest.raises(CorruptDataError, match="where=x"):
            decode_part_sums(data[:cut], where="x")


@pytest.mark.parametrize("name", ["inline.arrow", "part.parquet"])
def test_a_part_that_was_written_before_is_read(name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from siltstone.collections.rows.open_part import open_part
    from siltstone.collections.rows.row_schema import row_schema

    columns = pyarrow.schema({"station": pyarrow.string(), "gust": pyarrow.float64()})
    schema = row_schema(columns, ["station"])
    data = (GOLDEN / name).read_bytes()
    if name == "inline.arrow":
        part = CollectionPart(inline=data, length=len(data), crc=2824467293, **FACTS)
    else:
        part = CollectionPart(
            length=1467, footer_length=986, crc=4004942311, footer_crc=2870911150, **FACTS
        )
        assert crc32c(data) == part.crc
    opened = open_part(part, {0: schema}, lambda at, size: data[at : at + size], where=name)
    assert opened.read([0]).to_pydict() == {
        "station": ["bergen", "oslo"],
        "gust": [None, 12.5],
        "_time": [4, 3],
        "_diff": [-1, 1],
    }
