"""A bookmark: a durable promise that history from a time on stays, until it is moved."""

from __future__ import annotations

from functools import partial

from siltstone.collections.place import CollectionPlace
from siltstone.collections.read_times import checked_frontier
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.bookmarks import remove_bookmark, set_bookmark
from siltstone.core.records.collection_rows import Bookmark


class AsyncBookmark:
    """A bookmark that this process may move. Made by ``AsyncCollection.bookmark``.

    Args:
        shared: the collection.
        place: where it is.
        row: as it was set.
    """

    def __init__(self, shared: SharedState, place: CollectionPlace, row: Bookmark) -> None:
        self._shared = shared
        self._place = place
        self._row = row

    @property
    def name(self) -> str:
        """Its name in the collection."""
        return self._row.name

    @property
    def since(self) -> int:
        """The time from which on history stays."""
        return self._row.since

    @property
    def token(self) -> bytes:
        """16 bytes, by which it is moved; another process that sets the bookmark replaces them."""
        return self._row.token

    async def advance(self, to: int) -> None:
        """Let history below ``to`` go. Durable on return; may be repeated.

        Raises:
            BookmarkFencedError: another process has taken the bookmark over, or it was removed.
            SinceError: it would move backwards.
        """
        self._row = await self._shared.run(
            partial(
                set_bookmark,
                name=self.name,
                expected=self.token,
                token=self.token,
                since=checked_frontier(to),
                who=self._place.who,
            )
        )

    async def remove(self) -> None:
        """End the promise. Raises ``BookmarkFencedError`` as ``advance`` does."""
        await self._shared.run(partial(remove_bookmark, name=self.name, expected=self.token))
