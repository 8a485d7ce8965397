"""Refusals that several commands have in common, and how a state is named in them."""

from __future__ import annotations

from siltstone.collections.state.limits import ID_MAX, LEASE_MS_MAX, NAME_BYTES_MAX, WHO_CHARS_MAX
from siltstone.core.errors import (
    CollectionDroppedError,
    CollectionLimitError,
    CollectionMovedError,
    SinceError,
)
from siltstone.core.records.collection_state import CollectionState, Life


def name_of(state: CollectionState) -> str:
    """What errors call the collection: the name is in the catalog, and here is only its id.

    The catalog itself, whose id is zero, is called so.
    """
    return state.id.hex() if any(state.id) else "the catalog"


def check_open(state: CollectionState) -> None:
    """Check that the collection lives.

    Raises:
        CollectionDroppedError: it was dropped.
        CollectionMovedError: its entries continue elsewhere.
    """
    if state.life is Life.DROPPED:
        raise CollectionDroppedError("collection was dropped", collection=name_of(state))
    check_here(state)


def check_here(state: CollectionState) -> None:
    """Check that the collection did not leave this place. Raises ``CollectionMovedError``."""
    if state.life is Life.MOVED:
        raise CollectionMovedError(
            "the store was switched to another long-term storage: open its collections again, with "
            "its new settings",
            collection=name_of(state),
        )


def check_room(state: CollectionState, things: str, count: int, limit: int) -> None:
    """Check that one more fits. Raises ``CollectionLimitError``."""
    if count >= limit:
        raise CollectionLimitError(f"too many {things}", collection=name_of(state), limit=limit)


def check_name(name: str) -> str:
    """Return the name of a writer or bookmark. Raises ``ValueError`` if it is none."""
    if not 0 < len(name.encode("utf-8")) <= NAME_BYTES_MAX:
        raise ValueError(f"a name has 1 to {NAME_BYTES_MAX} bytes: {name[:60]!r}")
    return name


def check_id(number: int) -> int:
    """Return a random number of a reader or writer. Raises ``ValueError`` if it is none."""
    if not 0 < number <= ID_MAX:
        raise ValueError(f"an id is 1 to {ID_MAX}: {number}")
    return number


def check_lease(lease_ms: int, *, least: int = 1) -> int:
    """Return a time of a lease in milliseconds. Raises ``ValueError`` if it is none."""
    if not least <= lease_ms <= LEASE_MS_MAX:
        raise ValueError(f"a lease has {least} to {LEASE_MS_MAX} ms: {lease_ms}")
    return lease_ms


def cut_who(who: str) -> str:
    """Return a description for people, cut to what a row may have."""
    return who[:WHO_CHARS_MAX]


def check_kept(state: CollectionState, as_of: int, name: str | None = None) -> None:
    """Raise ``SinceError`` where a time can no longer be told apart from later ones.

    Args:
        state: the state.
        as_of: the time.
        name: of the collection, for the message; ``None`` means its id.
    """
    if as_of < state.since:
        raise SinceError(
            "history is gone", collection=name or name_of(state), as_of=as_of, since=state.since
        )
