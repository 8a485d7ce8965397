"""How often a commit tries again, and what is said when it may not any longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkUnavailableError,
    CorruptDataError,
    Outcome,
    OutcomeUnknownError,
)
from siltstone.core.storage.retry_policy import wait_s

T = TypeVar("T")

COMMIT_DEADLINE_S: Final = 30.0
"""As long as a service may need to fail over; it bounds only how long a caller waits."""


class Attempts:
    """The calls of one commit. A call is made again, with jitter, until it is answered.

    Args:
        environment: gives time, randomness and the wait.
        where: the name that is to be created, for messages.

    Attributes:
        is_doubtful: whether the entry may be there, or get there later.
    """

    def __init__(self, environment: Environment, where: str) -> None:
        self._environment = environment
        self._where = where
        self._until = environment.monotonic() + COMMIT_DEADLINE_S
        self._made = 0
        self.is_doubtful = False

    def answered(self, call: Callable[[], T]) -> T:
        """Return what ``call`` returns, or raise its ``ChunkExistsError``.

        Raises:
            OutcomeUnknownError: no answer before the deadline, and the entry may be there.
            ChunkError, CorruptDataError: the same, but it is not there and never will be.
        """
        while True:
            try:
                return call()
            except ChunkExistsError:
                raise
            except (ChunkError, CorruptDataError) as error:
                self._again(error)

    def _again(self, error: ChunkError | CorruptDataError) -> None:
        """Wait; or raise, if another call is of no use."""
        self.is_doubtful = self.is_doubtful or error.outcome is Outcome.UNKNOWN
        can_pass = isinstance(error, ChunkUnavailableError) or error.outcome is Outcome.UNKNOWN
        if isinstance(error, ChunkError) and can_pass:
            self._made += 1
            pause_s = wait_s(self._environment, self._made, error)
            if self._environment.monotonic() + pause_s <= self._until:
                self._environment.pause(pause_s)
                return
        if not self.is_doubtful:
            raise error
        raise OutcomeUnknownError(
            "long-term storage did not tell whether a collection was changed",
            entry=self._where,
            reason=type(error).__name__,
        ) from error
