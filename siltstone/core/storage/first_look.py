"""The first look at a place of this machine, which may be a mount whose server is gone.

What hangs there hangs at the first look already, so this alone has a deadline: what follows may
take as long as the bytes that are read and written take.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from siltstone.core.bounded_calls import LateError, bounded, within
from siltstone.core.errors import LogError, Outcome, StoreError

T = TypeVar("T")

PLACE_S: Final = 60.0
"""A folder that answers at all does so much sooner."""

LOG_S: Final = 120.0
"""A log may have to ask other machines, each with a deadline of its own."""


def first_look(path: Path | str, look: Callable[[], T]) -> T:
    """Return what ``look`` finds at ``path``.

    Raises:
        StoreError: it does not answer.
    """
    try:
        return bounded(look, within(PLACE_S))
    except LateError:
        raise StoreError("this place does not answer", path=path, seconds=PLACE_S) from None


def first_look_at_log(container: int, look: Callable[[], T]) -> T:
    """Return what ``look`` finds in a tier-1 log.

    Raises:
        LogError: it does not answer.
    """
    try:
        return bounded(look, within(LOG_S))
    except LateError:
        raise silent_log(container) from None


def silent_log(container: int) -> LogError:
    """What is said of a tier-1 log that does not answer the first question."""
    return LogError(
        "tier 1 does not answer", outcome=Outcome.NOT_APPLIED, container=container, seconds=LOG_S
    )
