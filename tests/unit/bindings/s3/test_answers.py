"""What the SDK is told about the answers of the service, since its own ways are slow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from siltstone.bindings.s3.client import time_of
from tests.unit.bindings.s3.stub import DATE, HTTP_DATE

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("written", [DATE, HTTP_DATE, "2026-01-01T00:00:00Z", 1767225600])
def test_times_of_all_kinds_of_answers_are_understood(written: object) -> None:
    assert time_of(written) == NEW_YEAR


@pytest.mark.parametrize("written", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        time_of(written)
