"""Heads compared with their records: when that is asked for, and for one in some afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from siltstone.core.errors import SiltstoneError
from siltstone.objects.errors import LostObjectError

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

    def sample(self, key: ObjectKey) -> None:
        """A head was given to a caller, on any thread: perhaps compare that object, after that.

        One at a time: what storage cannot keep up with is left out.
        """
        if not self._every or next(self._seen) % self._every or self._busy:
            return
        self._busy = True
        try:
            self._loop.call_soon_threadsafe(lambda: self._begin(self._compare(key)))
        except RuntimeError:  # the store was closed meanwhile
            return

    async def _compare(self, key: ObjectKey) -> None:
        try:
            await self.check(key, partial(self._parts.ledger.head, key))
        except LostObjectError as error:
            self._parts.losses.note(key, error)
        except SiltstoneError as error:  # the next one may get an answer
            _log.debug("head was not compared: %s", error)
        finally:
            self._busy = False

    async def check(
        self, key: ObjectKey, head_of: Callable[[], Awaitable[Head | None]]
    ) -> Head | None:
        """Compare the head that ``head_of`` finds with the header of its record, and return it.

        Raises:
            LostObjectError: the record is damaged or gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        parts = self._parts
        seen = await parts.read_by_head(key, head_of, parts.values.check_header)
        return None if seen is None else seen[0]
