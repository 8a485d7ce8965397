"""Commands of bookmarks: who has the token keeps history, and no one else moves it."""

from __future__ import annotations

from dataclasses import replace

from siltstone.collections.state.limits import BOOKMARKS_MAX
from siltstone.collections.state.refusals import (
    check_name,
    check_open,
    check_room,
    cut_who,
    name_of,
)
from siltstone.core.errors import BookmarkFencedError, SinceError
from siltstone.core.records.collection_frontier import is_frontier
from siltstone.core.records.collection_rows import TOKEN_BYTES, Bookmark
from siltstone.core.records.collection_state import CollectionState


def set_bookmark(
    state: CollectionState,
    now_ms: int,
    *,
    name: str,
    expected: bytes | None,
    token: bytes,
    since: int | None,
    who: str,
) -> tuple[CollectionState, Bookmark]:
    """Make a bookmark, move it, or take it over with another token. May be repeated.

    Args:
        state: the state.
        now_ms: not looked at.
        name: of the bookmark.
        expected: the token that it has; ``None`` makes it.
        token: the token that it gets, 16 bytes.
        since: the frontier that the since of the collection does not pass; ``None`` means where the
            bookmark is, or for a new one where the since of the collection is.
        who: describes who does this, for people.

    Returns:
        The new state and the row.

    Raises:
        BookmarkFencedError: it has another token than ``expected``, or exists, or does not.
        SinceError: ``since`` is below that of the collection, or of the bookmark.
        CollectionLimitError: there are 256 bookmarks.
        CollectionDroppedError: it was dropped.
        CollectionMovedError: it continues elsewhere.
        ValueError: an argument is not as described.
    """
    del now_ms
    check_open(state)
    if len(token) != TOKEN_BYTES:
        raise ValueError(f"a token has {TOKEN_BYTES} bytes: {len(token)}")
    if since is not None and not is_frontier(since):
        raise ValueError(f"not a frontier: {since}")
    row = state.bookmarks.get(check_name(name))
    if row is not None and row.token == token and since in (None, row.since):
        return state, row
    _check_token(state, name, expected)
    lowest = state.since if row is None else row.since
    target = lowest if since is None else since
    if target < lowest:
        raise SinceError(
            "bookmark cannot move there", collection=name_of(state), as_of=target, since=lowest
        )
    if row is None:
        check_room(state, "bookmarks", len(state.bookmarks), BOOKMARKS_MAX)
    made = Bookmark(name=name, since=target, token=token, who=cut_who(who))
    return replace(state, bookmarks={**state.bookmarks, name: made}), made


def remove_bookmark(
    state: CollectionState, now_ms: int, *, name: str, expected: bytes
) -> tuple[CollectionState, None]:
    """Remove a bookmark. May be repeated.

    Raises:
        BookmarkFencedError: it has another token than ``expected``.
    """
    del now_ms
    if name not in state.bookmarks:
        return state, None
    check_open(state)
    _check_token(state, name, expected)
    bookmarks = {key: row for key, row in state.bookmarks.items() if key != name}
    return replace(state, bookmarks=bookmarks), None


def _check_token(state: CollectionState, name: str, expected: bytes | None) -> None:
    row = state.bookmarks.get(name)
    actual = None if row is None else row.token
    if actual != expected:
        raise BookmarkFencedError(collection=name_of(state), bookmark=name, actual=actual)
