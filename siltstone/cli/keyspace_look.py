"""What ``health`` finds in the keyspaces of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.constants import KEYSPACES_PREFIX
from siltstone.core.errors import SiltstoneError

if TYPE_CHECKING:
    from siltstone.store.store import Store


class KeyspaceLook:
    """Collects what is to be looked at, of one container after the other or of all at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, str], str] = {}

    def look(self, store: Store) -> None:
        """Look at the keyspaces of a store; where that fails, one row of no keyspace says why."""
        try:
            if next(iter(store.list_tables(KEYSPACES_PREFIX)), None) is None:
                return
            from siltstone import objects  # Only a store with keyspaces pays for it.

            for each in objects.warnings(store):
                self._found[each.keyspace, each.kind.value] = each.message
        except (SiltstoneError, OSError) as error:
            self._found[None, "unknown"] = str(error)

    def rows(self) -> list[dict[str, str | None]]:
        """What was found, for JSON."""
        return [
            {"keyspace": name, "kind": kind, "message": message}
            for (name, kind), message in self._found.items()
        ]
