"""The verbs that only keyspaces of heads have, for blocking callers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone.objects.entries import Conditions, EntriesResult
from siltstone.store.blocking.background_loop import BackgroundLoop, awaited

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.objects.async_entries import AsyncEntries


class Entries:
    """The verbs of a keyspace of heads only. See ``AsyncEntries``."""

    __slots__ = ()

    _loop: BackgroundLoop
    _keyspace: AsyncEntries

    @property
    def head_only(self) -> str | None:
        """``with_lookup`` or ``no_lookup`` if it has heads only; ``None`` if it has values."""
        return self._keyspace.head_only

    def mput(
        self,
        entries: Iterable[tuple[Any, ...]],
        *,
        expected: Conditions | None = None,
        ttl_s: SupportsIndex | None = None,
    ) -> EntriesResult:
        """Change entries, all or none, durably. See ``AsyncEntries.mput``."""
        request = self._keyspace.entries_of(entries, expected=expected, ttl_s=ttl_s)
        return self._loop.run(awaited(partial(self._keyspace.mput_now, request)))

    def trim(self) -> None:
        """Let tier 1 go of all that is acknowledged now. See ``AsyncEntries.trim``."""
        self._loop.run(self._keyspace.trim())
