"""The position of a local index: what is refused, and what the error names."""

from __future__ import annotations

import pytest

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.metadata.position import Position, decode_position, encode_position

WHOLE = encode_position(Position(bytes(range(16)), 5, 6, 7))


@pytest.mark.parametrize(("kind", "version"), [(0, 2), (9, 1), (9, 2)])
def test_another_kind_or_version_is_no_position(kind: int, version: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_position(bytes([kind, version]) + WHOLE[2:])
    message = f"position of an unknown version found={version} known=1 kind={kind}"
    assert str(caught.value) == message


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_cut_position_is_damaged(length: int) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode_position(WHOLE[:length])
    problem = "position is cut" if length < 2 else "position has a wrong length"
    assert str(caught.value) == f"{problem} where=index position length={length}"


def test_a_position_with_more_after_it_is_damaged() -> None:
    with pytest.raises(CorruptDataError, match=f"wrong length .* length={len(WHOLE) + 1}"):
        decode_position(WHOLE + b"\0")
