"""Pragmas that a database in a volume answers itself: the verbs of the volume, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import apsw

from siltstone.volumes.records.page_row import PAGE_BYTES
from siltstone.volumes.volume import Volume

PREFIX: Final = "siltstone_"


def _said(done: bool, yes: str, no: str) -> str:
    return yes if done else no


VERBS: Final[Mapping[str, Callable[[Volume], str]]] = {
    "status": lambda volume: volume.info().line,
    "log": lambda volume: volume.log,
    "push": lambda volume: _said(volume.push(), "pushed", "nothing to push"),
    "pull": lambda volume: _said(volume.pull(), "pulled", "nothing to pull"),
    "fetch": lambda volume: f"{volume.fetch()} to pull",
    "sync": lambda volume: volume.sync().value,
    "recover": lambda volume: _said(volume.recover(), "recovered", "nothing to recover"),
    "reset": lambda volume: f"reset to {volume.reset().mapping.remote}",
    "hydrate": lambda volume: f"{volume.hydrate()} slabs fetched",
}


def answer(volume: Volume, name: str, value: str | None) -> str | None:
    """Answer a pragma; ``None`` leaves it to SQLite.

    Raises:
        apsw.SQLError: a volume cannot do what it asks for.
        SiltstoneError: see the verbs of ``Volume``.
    """
    if name.startswith(PREFIX):
        verb = VERBS.get(name.removeprefix(PREFIX))
        if verb is None:
            known = ", ".join(PREFIX + each for each in VERBS)
            raise apsw.SQLError(f"no such pragma: {name}; there are {known}")
        return verb(volume)
    if value is None:
        return None
    asked = value.strip("'\"").lower()
    if name == "journal_mode" and asked not in {"memory", "off"}:
        raise apsw.SQLError(f"journal_mode of a volume is memory, not {asked}: commits are whole")
    if name == "locking_mode" and asked == "exclusive":
        raise apsw.SQLError("locking_mode of a volume is normal: others pull and push meanwhile")
    if name == "page_size" and asked != str(PAGE_BYTES):
        raise apsw.SQLError(f"page_size of a volume is {PAGE_BYTES}, not {asked}")
    return None
