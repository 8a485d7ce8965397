"""What a failed write of the journal means for its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from siltstone.container.pipeline import Pipeline
from siltstone.core.errors import FencedError, LogError


@asynccontextmanager
async def ending(pipeline: Pipeline) -> AsyncIterator[None]:
    """Around a write of the journal: any ``LogError`` is the end of this owner.

    Raises:
        FencedError: there is a newer epoch, whatever failed first.
        LogError: the write failed, and there is none.
    """
    try:
        yield
    except LogError as error:
        await pipeline.end(error)
        if isinstance(pipeline.failure, FencedError):
            raise pipeline.closed_error() from error
        raise
