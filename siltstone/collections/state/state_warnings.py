"""What people should know of a collection before it is a problem. Pure functions of a state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from siltstone.collections.state.limits import BATCHES_MANY, BATCHES_MAX, READERS_MAX, WRITERS_MAX
from siltstone.core.records.collection_frontier import DONE, HISTORY_ALL
from siltstone.core.records.collection_state import CollectionState, Life, Times

ROWS_MANY: Final = 900
"""Of 1,000 readers or writers: there is still time to look who they are."""

BEHIND_MIN: Final = {Times.MILLISECONDS: 24 * 3_600 * 1_000, Times.COUNT: 1_000}
"""What a bookmark may keep beyond a short history: who advances it once a day is not late."""


class WarningKind(StrEnum):
    """What a warning is about."""

    HISTORY = "history"
    COMPACTION = "compaction"
    WRITERS = "writers"
    READERS = "readers"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionWarning:
    """What is to be looked at.

    Attributes:
        collection: its name.
        kind: what it is about.
        message: what was found, and what to do.
    """

    collection: str
    kind: WarningKind
    message: str


def warnings_of(name: str, state: CollectionState) -> Iterator[CollectionWarning]:
    """Yield what is to be looked at in a state; nothing of a collection that ended."""
    if state.life is not Life.OPEN:
        return
    batches = len(state.batches.items)
    if batches >= BATCHES_MANY:
        yield CollectionWarning(
            collection=name,
            kind=WarningKind.COMPACTION,
            message=f"compaction is late, so appends wait, and end at {BATCHES_MAX} batches: "
            f"run collection compact; batches={batches}",
        )
    for kind, count, most in (
        (WarningKind.WRITERS, len(state.writers), WRITERS_MAX),
        (WarningKind.READERS, len(state.readers), READERS_MAX),
    ):
        if count >= ROWS_MANY:
            message = (
                f"no more than {most} {kind.value} can be known at a time; {kind.value}={count}"
            )
            yield CollectionWarning(collection=name, kind=kind, message=message)
    yield from _held_history(name, state)


def _held_history(name: str, state: CollectionState) -> Iterator[CollectionWarning]:
    """Bookmarks that keep twice the history that the policy asks for, or more."""
    if state.history == HISTORY_ALL or state.upper == DONE:
        return  # No append moves the since, so nothing is in its way.
    asked = max(0, state.upper - state.history)
    for mark in state.bookmarks.values():
        if asked - mark.since >= max(state.history, BEHIND_MIN[state.times]):
            share = (state.upper - mark.since) / state.history
            yield CollectionWarning(
                collection=name,
                kind=WarningKind.HISTORY,
                message=f"bookmark {mark.name} keeps {share:,.1f} times the history that is asked "
                f"for: advance or remove it; since={mark.since} who={mark.who}",
            )
