"""Lines as Arrow arrays are those that Python splits."""

from __future__ import annotations

import pyarrow
import pytest

from siltstone.spark.arrow_lines import line_batches, split_lines


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"a", b"a\nb", b"\na\n\n", b"a\r\n\xff\xfe", "é\n🐎".encode(), b"\0\n\0"]
)
def test_an_array_holds_what_python_splits(text: bytes) -> None:
    # The bytes lie inside a larger buffer, as those of a read do.
    view = memoryview(bytearray(b"xx" + text + b"yy"))[2 : 2 + len(text)]
    found = split_lines(view, pyarrow.binary())
    assert found.to_pylist() == text.split(b"\n")
    strings = split_lines(view, pyarrow.string())
    assert strings.type == pyarrow.string()
    assert strings.view(pyarrow.binary()).to_pylist() == text.split(b"\n")


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.binary()])
def test_every_batch_has_the_schema_that_was_asked_for(kind: pyarrow.DataType) -> None:
    schema = pyarrow.schema([pyarrow.field("value", kind, nullable=False)])
    batches = list(line_batches([memoryview(b"a\nb"), memoryview(b"")], schema))
    assert [batch.num_rows for batch in batches] == [2, 1]
    assert all(batch.schema == schema for batch in batches)
