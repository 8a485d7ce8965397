"""Counts in a readable form."""

from __future__ import annotations

import pytest

from siltstone.core.text import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 chunks"), (1, "1 chunk"), (2, "2 chunks"), (1_000, "1,000 chunks")]
)
def test_one_is_one(count: int, text: str) -> None:
    assert counted(count, "chunk") == text
