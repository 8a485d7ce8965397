"""Heads compared with their records: when that is asked for, and for one in some afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from itertools import count
from typing import TYPE_CHECKING, Any

from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError, SiltstoneError
from siltstone.objects.errors import LostObjectError
from siltstone.objects.object_views import READS_MAX, lost
from siltstone.objects.records.head import decode_head

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_parts import SpaceParts

_log = logging.getLogger(__name__)


class HeadChecks:
    """Compares heads of one open keyspace with the headers of their records.

    Args:
        parts: of the keyspace.
        every: one in so many heads is compared afterwards; 0 for none.
        begin: begins work on the loop that ends with the keyspace.
    """

    def __init__(
        self,
        parts: SpaceParts,
        every: int,
        begin: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._parts = parts
        self._every = every
        self._begin = begin
        self._seen = count(1)
        self._busy = False
        self._loop = asyncio.get_running_loop()

    def sample(self, key: ObjectKey, head: Head | bytes) -> None:
        """A head, or its row, was given to a caller, on any thread: perhaps compare it, after that.

        One at a time: what storage cannot keep up with is left out.
        """
        if not self._every or next(self._seen) % self._every or self._busy:
            return
        self._busy = True
        try:
            self._loop.call_soon_threadsafe(self._start, key, head)
        except RuntimeError:  # the store was closed meanwhile
            return

    def _start(self, key: ObjectKey, head: Head | bytes) -> None:
        found = decode_head(head, where=f"{key}") if isinstance(head, bytes) else head
        self._begin(self._compare(key, found))

    async def _compare(self, key: ObjectKey, head: Head) -> None:
        try:
            await self.check(key, head)
        except LostObjectError as error:
            self._parts.losses.note(key, error)
        except SiltstoneError as error:  # the next one may get an answer
            _log.debug("head was not compared: %s", error)
        finally:
            self._busy = False

    async def check(self, key: ObjectKey, head: Head) -> Head | None:
        """Compare a visible head with the header of its record.

        Returns:
            The head, or the newer one that is there by now; ``None`` if the object is gone since.

        Raises:
            LostObjectError: the record is damaged or gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        parts, attempts = self._parts, 0
        found: Head | None = head
        while found is not None:
            try:
                manifest = await parts.manifest.with_number(found.number)
                await parts.values.check_header(key, found, manifest)
            except (SegmentNotFoundError, SegmentTruncatedError) as error:
                attempts += 1  # its record is elsewhere by now, or another one is the newest
                if attempts == READS_MAX:
                    where = parts.names.value_segment(found.number)
                    raise lost(key, found, where, str(error)) from error
                await parts.manifest.now()
                found = await parts.ledger.head(key)
            else:
                return found
        return None
