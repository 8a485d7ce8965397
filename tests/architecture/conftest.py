"""What the tests of the source share is forgotten after the last of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture.source_tree import forget_trees


@pytest.fixture(scope="package", autouse=True)
def source_forgotten() -> Iterator[None]:
    """Forget all parsed modules at the end."""
    yield
    forget_trees()
