"""How a keyspace is made, and what is looked at when it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.container.models.segments import LengthIs, Put, VersionIs
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    LostDataError,
    SegmentNotFoundError,
    TableNotFoundError,
)
from siltstone.objects.errors import KeyspaceExistsError, KeyspaceNotFoundError
from siltstone.objects.ledger import Ledger, Versioned
from siltstone.objects.records.keys import SPACE, STATE, manifest_key
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    SpaceState,
    ValueStatus,
    encode_manifest_row,
    encode_space,
    encode_state,
)
from siltstone.objects.space_removal import end_removal
from siltstone.objects.value_segments import active_row

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore


@dataclass(frozen=True, slots=True)
class FoundSpace:
    """A keyspace as it is found.

    Attributes:
        space: what it is.
        found: what the next batch begins with.
        manifest: its value segments, in the order of their SQNs.
    """

    space: Space
    found: Versioned
    manifest: tuple[ManifestRow, ...]


async def make_space(store: AsyncStore, names: SpaceNames, space: Space) -> None:
    """Make a keyspace: its table and first segment, and then what says so, in one commit.

    No other call makes or removes one of this name meanwhile.

    Raises:
        KeyspaceExistsError: there is one of this name, or values of one whose ledger was lost.
    """
    state = SpaceState(next_sqn=1, number=1, first_sqn=1, length=0, records=0, next_number=2)
    segment = names.value_segment(state.number)
    await store.create_table(names.ledger, exist_ok=True)
    if await Ledger(store, names).space() is not None:
        raise KeyspaceExistsError("there is such a keyspace", keyspace=names.name)
    await end_removal(store, names)
    await store.create(segment, exist_ok=True)
    row = active_row(state)
    try:
        await store.commit(
            [
                Put(names.ledger, SPACE, encode_space(space)),
                Put(names.ledger, STATE, encode_state(state)),
                Put(names.ledger, manifest_key(row.first_sqn), encode_manifest_row(row)),
            ],
            [VersionIs(names.ledger, SPACE, None), LengthIs(segment, 0)],
        )
    except ConditionFailedError as error:
        raise KeyspaceExistsError("there is such a keyspace", keyspace=names.name) from error


async def find_space(store: AsyncStore, names: SpaceNames, *, changing: bool = False) -> FoundSpace:
    """Look at a keyspace: its rows, and whether the bytes are there that they speak of.

    ``changing`` says that it may be open in this store; it is true of one that is only read.

    Raises:
        KeyspaceNotFoundError: there is none of this name.
        LostDataError: bytes of acknowledged changes are gone.
        CorruptDataError: rows are damaged, or do not fit the segments.
        FormatError: it was made by a newer version.
    """
    ledger = Ledger(store, names)
    try:
        space = await ledger.space()
    except TableNotFoundError:
        space = None
    if space is None:
        raise KeyspaceNotFoundError("no such keyspace", keyspace=names.name)
    found = await ledger.state()
    manifest = await ledger.manifest()
    if found is None or not manifest:
        raise CorruptDataError("keyspace has no state", where=names.name)
    state = found.state
    # An owner may change it while a reader looks: what the reader sees later is at least as new.
    exact = not (store.read_only or changing)
    active = [(row.number, row.first_sqn) for row in manifest if row.status is ValueStatus.ACTIVE]
    if len(active) != 1 or (exact and active != [(state.number, state.first_sqn)]):
        raise CorruptDataError("state and manifest of a keyspace disagree", where=names.name)
    await _check_length(store, names, state.number, state.length, exact=exact)
    for row in manifest:
        if row.status is ValueStatus.ROLLING:
            await _check_length(store, names, row.number, row.length, exact=False)
    return FoundSpace(space, found, tuple(manifest))


async def _check_length(
    store: AsyncStore, names: SpaceNames, number: int, length: int, *, exact: bool
) -> None:
    segment = names.value_segment(number)
    try:
        info = await store.segment(segment).info()
    except SegmentNotFoundError as error:
        raise LostDataError("a value segment is gone", where=segment) from error
    if info.length < length:
        raise LostDataError(
            "a value segment is shorter than its records",
            where=segment,
            length=info.length,
            records=length,
        )
    if exact and info.length > length:
        raise CorruptDataError(
            "something else appended to a value segment",
            where=segment,
            length=info.length,
            records=length,
        )
