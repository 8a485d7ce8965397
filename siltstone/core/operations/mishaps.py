"""What went wrong at long-term storage without being an error of any call."""

from __future__ import annotations

import logging

from siltstone.core.errors import ChunkError, SiltstoneError

logger = logging.getLogger(__name__)


class Mishaps:
    """What went wrong since this object was made.

    Attributes:
        seal_error: why the last closed chunk was not sealed; ``None`` once a seal succeeded again.
        read_backs_failed: count of writes that were repeated elsewhere because what was read back
            was not what was written, or could not be read.
    """

    __slots__ = ("read_backs_failed", "seal_error")

    def __init__(self) -> None:
        self.seal_error: SiltstoneError | None = None
        self.read_backs_failed = 0

    def seal_failed(self, error: SiltstoneError) -> None:
        """Note a chunk that stays unsealed."""
        self.seal_error = error
        logger.warning("chunk can not be sealed: %s", error)

    def read_back_failed(self, error: ChunkError) -> None:
        """Count a write whose bytes did not come back."""
        self.read_backs_failed += 1
        logger.error("written bytes did not come back: %s", error)
