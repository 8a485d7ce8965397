"""Errors reach another process as they were: what they say, what they know, and the outcome."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from siltstone.core import errors
from siltstone.core.errors import Outcome, SiltstoneError

CHUNK: dict[str, Any] = {"chunk": "a", "operation": "write"}


@pytest.mark.parametrize(
    "error",
    [
        SiltstoneError("a", b=1),
        errors.ChunkUnavailableError("late", **CHUNK, outcome=Outcome.UNKNOWN),
        errors.ChunkNotFoundError("none", **CHUNK),
        errors.ChunkOffsetError(**CHUNK, expected=3, actual=4),
        errors.ChunkReadBackError("other bytes", **CHUNK),
        errors.SegmentTruncatedError(segment="s", offset=3, start_offset=7),
        errors.SegmentError("s", segment="s", outcome=Outcome.UNKNOWN),
        errors.ConditionFailedError(condition=("a", 1), current=None),
        errors.FormatError.of_version("frame", 3, 2),
        errors.SettingsError("wrong"),
        errors.LogLostError("empty"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_pickled_whole(error: SiltstoneError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), found.args, found.outcome) == (str(error), error.args, error.outcome)
    assert vars(found) == vars(error)
