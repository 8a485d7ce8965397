"""What all that works on an open keyspace has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from siltstone.core.errors import (
    ClosedError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SnapshotExpiredError,
)
from siltstone.objects.changes import STANDARD, Name, name_bytes, object_key
from siltstone.objects.errors import UnsupportedError
from siltstone.objects.object_views import READS_MAX, lost
from siltstone.objects.records.limits import SUBKEY_BYTES_MAX
from siltstone.objects.records.space_rows import ENTRY_TAG, HeadOnly

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from siltstone.objects.large_values import LargeValues
    from siltstone.objects.ledger import Ledger
    from siltstone.objects.losses import Losses
    from siltstone.objects.manifest import LiveManifest, Manifest
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.space_rows import Space
    from siltstone.objects.snapshots import LedgerSnapshots
    from siltstone.objects.space_meter import SpaceMeter
    from siltstone.objects.space_names import SpaceNames
    from siltstone.objects.value_log import ValueLog
    from siltstone.store.async_store import AsyncStore

T = TypeVar("T")


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
        meter: measures what is done.
    """

    store: AsyncStore
    names: SpaceNames
    space: Space
    ledger: Ledger
    manifest: LiveManifest
    values: ValueLog
    snapshots: LedgerSnapshots
    losses: Losses
    meter: SpaceMeter

    @property
    def large(self) -> LargeValues:
        """Its large values."""
        return self.values.large

    def check_living(self) -> None:
        """Raise ``ClosedError`` once the keyspace was closed, though a caller still works on it.

        It may be open again, and knows nothing of those snapshots, readers and uploads.
        """
        if self.snapshots.ended:
            raise ClosedError("the keyspace was closed")

    async def check_unchanged(self, key: ObjectKey, head: Head, error: Exception) -> None:
        """Tell a large value that is lost from one that the owner, another process, deleted.

        It does not know of snapshots and readers here.

        Raises:
            SnapshotExpiredError: the object was changed since this head.
        """
        if not self.store.read_only:
            return
        current = await self.ledger.head(key)
        if current is None or current.sqn != head.sqn:
            raise SnapshotExpiredError(
                "the object was changed, and its value deleted",
                table=self.names.ledger,
                sqn=head.sqn,
            ) from error

    def check_values(self, verb: str) -> None:
        """Refuse what a keyspace of heads only does not have. Raises ``UnsupportedError``."""
        if self.space.head_only is not None:
            raise UnsupportedError(
                f"a keyspace of heads only has no {verb}: mput changes it, and heads, keys and"
                " buckets go through it",
                keyspace=self.names.name,
            )

    def check_lookup(self, what: str) -> None:
        """Refuse what needs look-up where there is none. Raises ``UnsupportedError``."""
        if self.space.head_only is HeadOnly.NO_LOOKUP:
            raise UnsupportedError(
                f"a keyspace without look-up has no {what}: use a fold, or a keyspace that was"
                " made with head_only='with_lookup'",
                keyspace=self.names.name,
            )

    def check_tag(self, tag: str) -> str:
        """Return a tag of the keyspace; ``STANDARD`` is the one of a keyspace of heads only.

        Raises:
            UnsupportedError: the keyspace does not have it.
        """
        if tag == STANDARD and self.space.head_only is not None:
            return ENTRY_TAG
        if tag not in self.space.tags:
            raise UnsupportedError(
                f"the keyspace has no tag {tag!r}, only {', '.join(self.space.tags)}",
                keyspace=self.names.name,
            )
        return tag

    def key_of(self, tag: str, bucket: Name, key: Name) -> ObjectKey:
        """Return the key of an object of this keyspace.

        Raises:
            ObjectLimitError: a part is empty or too long.
            UnsupportedError: the keyspace has no such tag, or no values.
        """
        if self.space.head_only is not None:
            self.check_values("objects with values")
        return object_key(self.check_tag(tag), bucket, key)

    def head_key_of(self, tag: str, bucket: Name, key: Name, subkey: Name = b"") -> ObjectKey:
        """Return the key of an object, or of an entry of heads only, that is looked at.

        Raises:
            ObjectLimitError: a part is too short or too long.
            UnsupportedError: the keyspace has no such tag, no subkeys, or no look-up.
        """
        if self.space.head_only is not None:
            self.check_lookup("look at a single head")
        found = object_key(self.check_tag(tag), bucket, key)
        if not subkey:
            return found
        if self.space.head_only is None:
            raise UnsupportedError(
                "only keyspaces of heads only have subkeys", keyspace=self.names.name
            )
        return found._replace(
            subkey=name_bytes(subkey, what="subkey", most=SUBKEY_BYTES_MAX, least=0)
        )

    async def read_by_head(
        self,
        key: ObjectKey,
        head_of: Callable[[], Awaitable[Head | None]],
        read: Callable[[ObjectKey, Head, Manifest], Awaitable[T]],
    ) -> tuple[Head, T] | None:
        """Read something of the record that the head of an object names, wherever it is by now.

        Args:
            key: of the object.
            head_of: looks for its head; again when the segment of the record was gone.
            read: reads it.

        Returns:
            The head, and what was read; ``None`` when there is no head.

        Raises:
            LostObjectError: the record is damaged or gone.
            ChunkError: long-term storage refused, or did not answer.
        """
        attempts = 0
        while (head := await head_of()) is not None:
            try:
                manifest = await self.manifest.with_number(head.number)
                return head, await read(key, head, manifest)
            except (SegmentNotFoundError, SegmentTruncatedError) as error:
                attempts += 1  # its record is elsewhere by now, or another one is the newest
                if attempts == READS_MAX:
                    where = self.names.value_segment(head.number)
                    raise lost(key, head, where, str(error)) from error
                await self.manifest.now()
        return None
