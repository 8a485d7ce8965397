"""What the tests with real processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kill.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One for all tests of a worker."""
    made = Nursery()
    yield made
    made.close()
