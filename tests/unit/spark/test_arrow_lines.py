"""Lines as Arrow arrays, compared with the lines that Python splits."""

from __future__ import annotations

import pyarrow
import pytest

from siltstone.pipelines.arrow_lines import split_lines


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"a", b"a\nb", b"\na\n\n", b"a\r\n\xff\xfe", "é\n🐎".encode(), b"\0\n\0"]
)
def test_an_array_holds_what_python_splits(text: bytes) -> None:
    # The bytes are inside a larger buffer, like those of a read.
    view = memoryview(bytearray(b"xx" + text + b"yy"))[2 : 2 + len(text)]
    found = split_lines(view, pyarrow.binary())
    assert found.to_pylist() == text.split(b"\n")
    strings = split_lines(view, pyarrow.string())
    assert strings.type == pyarrow.string()
    assert strings.view(pyarrow.binary()).to_pylist() == text.split(b"\n")
