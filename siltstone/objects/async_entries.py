"""The verbs that only keyspaces of heads have, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from siltstone.core.errors import ReadOnlyError
from siltstone.objects.entries import Conditions, EntriesRequest, EntriesResult, entries_request
from siltstone.objects.errors import UnsupportedError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.space_rows import HeadOnly
from siltstone.store.system_table import SystemTable

if TYPE_CHECKING:
    from typing import SupportsIndex


class AsyncEntries:
    """The verbs of a keyspace of heads only; others raise ``UnsupportedError``."""

    __slots__ = ()

    _space: OpenSpace

    @property
    def head_only(self) -> str | None:
        """``with_lookup`` or ``no_lookup`` if it has heads only; ``None`` if it has values."""
        found = self._space.parts.space.head_only
        return None if found is None else found.name.lower()

    def mput(
        self,
        entries: Iterable[tuple[Any, ...]],
        *,
        expected: Conditions | None = None,
        ttl_s: SupportsIndex | None = None,
    ) -> asyncio.Future[EntriesResult]:
        """Change entries, all or none; the awaited result is given as soon as it is durable.

        An entry has a bucket, a key, a subkey and a value, which is the ``metadata`` of its head.
        All entries of a call get the SQN of the call. All is taken by the call, awaited or not.

        Args:
            entries: 1 to 10,000 times ``("add", bucket, key, subkey, value)``, which sets it, or
                ``("remove", bucket, key, subkey)``. Bucket and key have 1 to 8,192 bytes, a subkey
                0 to 2,048, a value 0 to 65,536. Of several for one entry the last one counts. All
                rows fit into a frame of tier 1.
            expected: by bucket, key and subkey the SQN that an entry must have now; ``None`` means
                that it must be absent. It may name entries that are not changed. Only with look-up.
            ttl_s: seconds until what is added expires, up to one more; 1 to 2**31. Only with
                look-up.

        Raises:
            ObjectLimitError: too many entries, or a part is too long.
            UnsupportedError: the keyspace has values; or it has no look-up, which ``expected`` and
                ``ttl_s`` need.
            ReadOnlyError: the store was opened read-only.
            ClosedError: the store was closed.

        Raises, when awaited, what ``put`` does, and:
            ObjectLimitError: the rows do not fit into a frame; nothing was changed.
        """
        return self.mput_now(self.entries_of(entries, expected=expected, ttl_s=ttl_s))

    def entries_of(
        self,
        entries: Iterable[tuple[Any, ...]],
        *,
        expected: Conditions | None = None,
        ttl_s: SupportsIndex | None = None,
    ) -> EntriesRequest:
        """Return what ``mput`` asks for, on any thread."""
        self._check_heads_only("mput", "put, or delete")
        if expected:
            self._space.parts.check_lookup("conditions")
        if ttl_s is not None:
            self._space.parts.check_lookup("expiry")
        looks_up = self._space.parts.space.head_only is HeadOnly.WITH_LOOKUP
        return entries_request(entries, looks_up=looks_up, expected=expected, ttl_s=ttl_s)

    def mput_now(self, request: EntriesRequest) -> asyncio.Future[EntriesResult]:
        """``mput`` of what ``entries_of`` made."""
        return self._space.batches.mput(request)

    async def trim(self) -> None:
        """Let tier 1 go of all that is acknowledged now: it is on long-term storage afterwards.

        It does so for the whole container that the keyspace is in.

        Raises:
            UnsupportedError: the keyspace has values: flush its store.
            ChunkError: long-term storage failed; nothing is lost.
        """
        self._check_heads_only("trim", "the flush of the store")
        parts = self._space.parts
        if parts.store.read_only:
            raise ReadOnlyError("the store was opened read-only", keyspace=parts.names.name)
        self._space.check_open()
        await SystemTable(parts.store, parts.names.ledger).trim()

    def _check_heads_only(self, verb: str, instead: str) -> None:
        if self._space.parts.space.head_only is None:
            raise UnsupportedError(
                f"a keyspace with values has no {verb}: use {instead}",
                keyspace=self._space.parts.names.name,
            )
