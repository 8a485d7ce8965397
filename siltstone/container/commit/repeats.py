"""Repeats of what took place: what may refuse new work does not apply to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from siltstone.core.errors import (
    BackPressureError,
    SafeModeError,
    SegmentSealedError,
    StorageFullError,
)

if TYPE_CHECKING:
    from siltstone.container.commit.pipeline import Pipeline

REFUSALS: Final = (BackPressureError, SafeModeError, SegmentSealedError, StorageFullError)
"""What may refuse a new call, and says nothing about one that took place before."""


async def confirm_acknowledged(pipeline: Pipeline, acknowledged: Callable[[], bool]) -> None:
    """Confirm this owner for the answer to a repeat, which asks what became of one assigned thing.

    That tier 1 had no room for later work says nothing about it.

    Args:
        pipeline: of the container.
        acknowledged: whether the thing is.

    Raises:
        StorageFullError: tier 1 had no room for the thing itself, which was dropped.
        ClosedError: this owner has ended; what it knows may be out of date.
        LogError: it is fenced, or the log failed meanwhile.
    """
    try:
        await pipeline.barrier()
    except StorageFullError:
        if not acknowledged():
            raise
        await pipeline.confirm()
