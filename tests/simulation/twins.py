"""Two rows that are only ever set together: any one version of the table shows them equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from siltstone.container.models.segments import TableValue
from tests.simulation.facts import Attempt, State, ViolationError

KEYS = (b"twin-first", b"twin-second")


@dataclass(eq=False)
class Pair(Attempt):
    """What both were set to by one update."""

    value: bytes = b""


class Twins:
    """All updates of both rows."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, Pair] = {}

    def asked(self, value: bytes, epoch: int) -> Pair:
        """Note an update."""
        pair = self._pairs[value] = Pair(what=f"twins {value!r}", epoch=epoch, value=value)
        return pair

    def seen(self, found: Mapping[bytes, TableValue], version: int, *, exact: bool) -> None:
        """Compare what one version shows with what is known.

        Args:
            found: entries of that version.
            version: of the table.
            exact: it is just that version; otherwise that one or a later one.
        """
        first, second = (found.get(key) for key in KEYS)
        if first != second:
            raise ViolationError(f"two versions at once: {first} and {second}")
        if first is not None:
            pair = self._pairs.get(first.value)
            if pair is None:
                raise ViolationError(f"twins that no client wrote: {first}")
            pair.done(first.version)
            if exact and first.version > version:
                raise ViolationError(f"version {version} shows {pair.what} of {first.version}")
        shown = 0 if first is None else first.version
        for pair in self._pairs.values():
            done = pair.done_version
            if pair.state is State.HAPPENED and done is not None and shown < done <= version:
                raise ViolationError(f"version {version} shows {shown}, not {pair.what} of {done}")
