"""Objects of which a read found that their value is lost: told to callers, counted, and logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from siltstone.objects.errors import LostObjectError
    from siltstone.objects.ledger import Ledger
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.space_meter import SpaceMeter

_log = logging.getLogger(__name__)

KNOWN_MAX: Final = 10_000
"""Lost objects that are remembered. More are only counted, until some of these are put again."""

LOGGED_MAX: Final = 1_000
"""Lost objects that are logged: more names are no help any more."""


class Losses:
    """What this process found lost of one keyspace. On the loop of its store.

    Args:
        keyspace: its name.
        meter: counts them.
        missing: whether readers are told that such an object is absent.
    """

    def __init__(self, keyspace: str, meter: SpaceMeter, *, missing: bool) -> None:
        self._keyspace = keyspace
        self._meter = meter
        self._missing = missing
        self._known: dict[ObjectKey, int] = {}

    def tell(self, key: ObjectKey, error: LostObjectError) -> None:
        """Note that a read found this; it is raised, unless readers are told of an absent object.

        Raises:
            LostObjectError: the same.
        """
        self.note(key, error)
        if not self._missing:
            raise error

    def note(self, key: ObjectKey, error: LostObjectError) -> None:
        """Count a loss; log it when it is a new one."""
        self._meter.lost()
        if self._known.get(key) == error.sqn or len(self._known) >= KNOWN_MAX:
            return
        self._known[key] = error.sqn
        if len(self._known) <= LOGGED_MAX:
            _log.warning("keyspace %s: %s", self._keyspace, error)

    @property
    def known(self) -> list[tuple[ObjectKey, int]]:
        """The objects that were found lost, and the SQN that each had; some may be whole by now."""
        return list(self._known.items())

    def current(self, ledger: Ledger) -> int:
        """How many objects are known to be lost and were not put again or deleted since then."""
        for key, sqn in list(self._known.items()):
            seen = ledger.head_now(key)
            if seen is not None and not _is(seen[0], sqn):
                del self._known[key]
        return len(self._known)


def _is(head: Head | None, sqn: int) -> bool:
    return head is not None and head.sqn == sqn
