"""The states of a handle to a tier-1 log, and what each of them refuses: the same in every log."""

from __future__ import annotations

from enum import Enum

from siltstone.core.errors import ClosedError, LogError, Outcome
from siltstone.core.fenced_log import OWNER_CHARACTERS_MAX
from siltstone.core.words import LINEAGE_BYTES


class HandleState(Enum):
    """A handle goes down this list, or past some of it, and never back."""

    UNCLAIMED = "unclaimed"
    CLAIMED = "claimed"
    POISONED = "poisoned"
    CLOSED = "closed"


class LogHandle:
    """What the handles of all logs have. Whoever derives from it sets ``_state`` and ``_epoch``."""

    def __init__(self) -> None:
        self._state = HandleState.UNCLAIMED
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch of this handle; 0 before the claim."""
        return self._epoch

    def _check_claim(self, lineage: bytes, above: int, owner: str) -> None:
        """Refuse impossible arguments of a claim with ``ValueError``."""
        if len(lineage) != LINEAGE_BYTES or above < 0 or len(owner) > OWNER_CHARACTERS_MAX:
            raise ValueError("impossible argument of a claim")

    def _require(self, state: HandleState) -> None:
        """Raise ``ClosedError`` or ``LogError`` unless this is the state."""
        if self._state is state:
            return
        if self._state is HandleState.CLOSED:
            raise ClosedError("the log was closed")
        if self._state is HandleState.POISONED:
            raise LogError("the handle is poisoned", epoch=self._epoch, outcome=Outcome.NOT_APPLIED)
        raise LogError("the log was not claimed", outcome=Outcome.NOT_APPLIED)

    def _require_usable(self) -> None:
        """Refuse a handle that is poisoned or closed."""
        if self._state is not HandleState.UNCLAIMED:
            self._require(HandleState.CLAIMED)

    def _require_open(self) -> None:
        """Refuse a handle that is closed: one that is poisoned still tells the newest epoch."""
        if self._state is HandleState.CLOSED:
            self._require(HandleState.CLAIMED)
