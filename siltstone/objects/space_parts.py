"""What all that works on an open keyspace has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.objects.changes import Name, object_key
from siltstone.objects.errors import UnsupportedError

if TYPE_CHECKING:
    from siltstone.objects.ledger import Ledger
    from siltstone.objects.losses import Losses
    from siltstone.objects.manifest import LiveManifest
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.space_rows import Space
    from siltstone.objects.snapshots import LedgerSnapshots
    from siltstone.objects.space_names import SpaceNames
    from siltstone.objects.value_log import ValueLog
    from siltstone.store.async_store import AsyncStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceParts:
    """The parts of an open keyspace.

    Attributes:
        store: of the keyspace.
        names: of the keyspace.
        space: what it is.
        ledger: its rows.
        manifest: its value segments.
        values: reads them.
        snapshots: of its rows.
        losses: what was found lost.
    """

    store: AsyncStore
    names: SpaceNames
    space: Space
    ledger: Ledger
    manifest: LiveManifest
    values: ValueLog
    snapshots: LedgerSnapshots
    losses: Losses

    def check_tag(self, tag: str) -> None:
        """Refuse a tag that the keyspace does not have. Raises ``UnsupportedError``."""
        if tag not in self.space.tags:
            raise UnsupportedError(
                f"the keyspace has no tag {tag!r}, only {', '.join(self.space.tags)}",
                keyspace=self.names.name,
            )

    def key_of(self, tag: str, bucket: Name, key: Name) -> ObjectKey:
        """Return the key of an object of this keyspace.

        Raises:
            ObjectLimitError: a part is empty or too long.
            UnsupportedError: the keyspace has no such tag.
        """
        self.check_tag(tag)
        return object_key(tag, bucket, key)
