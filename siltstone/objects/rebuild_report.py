"""What a rebuild did, and which objects it could not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.objects.changes import name_text
from siltstone.objects.records.keys import DOUBTFUL, after_prefix, decode_doubtful_key
from siltstone.objects.records.rebuild_rows import decode_doubt

if TYPE_CHECKING:
    from siltstone.objects.records.space_backup import AbsentBytes
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulObject:
    """An object that was there, and whose newest change cannot be known.

    Attributes:
        bucket: of the object.
        key: its name in the bucket.
        tag: of its kind.
        number: of the value segment that is damaged.
    """

    bucket: str
    key: str
    tag: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """What a rebuild did.

    Attributes:
        records: records that this call looked at.
        doubtful: objects whose newest change may be in bytes that are damaged. They are absent:
            what they were before is not taken for what they are.
        unnamed: changes in such bytes of objects of which nothing else is known.
        unknown: value segments with damage that nothing tells the objects of. Never without
            ``accept_loss``.
        missing: of a restore, bytes that the backup lacks or that are damaged or gone in it. Never
            without ``allow_missing``.
    """

    records: int
    doubtful: tuple[DoubtfulObject, ...]
    unnamed: int
    unknown: tuple[str, ...]
    missing: tuple[AbsentBytes, ...] = ()


async def doubtful_objects(store: AsyncStore, names: SpaceNames) -> AsyncIterator[DoubtfulObject]:
    """Yield the doubtful objects of the last rebuild of a keyspace whose names are known."""
    async for row_key, row in store.table(names.ledger).scan(DOUBTFUL, after_prefix(DOUBTFUL)):
        key = decode_doubtful_key(row_key)[1]
        if key is not None:
            doubt = decode_doubt(row.value, where=row_key.hex())
            yield DoubtfulObject(
                bucket=name_text(key.bucket),
                key=name_text(key.key),
                tag=name_text(key.tag),
                number=doubt.number,
            )
