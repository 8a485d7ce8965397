"""The keyspaces of an open store, for asyncio: made, opened and listed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import TYPE_CHECKING

from siltstone.core.constants import KEYSPACES_PREFIX
from siltstone.core.errors import TableNotFoundError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.changes import STANDARD, name_bytes
from siltstone.objects.errors import KeyspaceNotFoundError
from siltstone.objects.open_spaces import destroy_space, new_space, open_space, snapshots_of
from siltstone.objects.rebuild_space import rebuild_space
from siltstone.objects.records.keys import SPACE
from siltstone.objects.records.limits import TAG_BYTES_MAX
from siltstone.objects.records.space_rows import ENTRY_TAG, HeadOnly, Space, Strategy
from siltstone.objects.restore_space import restore_space
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_check import SpaceCheck
from siltstone.objects.space_names import name_in, space_names
from siltstone.objects.space_place import Progress, no_progress
from siltstone.objects.space_warnings import KeyspaceWarning, warnings_of

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.container.models.segments import Finding
    from siltstone.objects.rebuild_plan import Recalc
    from siltstone.objects.rebuild_report import RebuildReport
    from siltstone.objects.segment_copies import MakeCopies
    from siltstone.objects.space_removal import RemovedKeyspace
    from siltstone.objects.value_compaction import CompactionReport
    from siltstone.store.async_store import AsyncStore


async def create_async(
    store: AsyncStore,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
    head_only: str | None = None,
) -> AsyncKeyspace:
    """Make a keyspace in an open store, and open it.

    Args:
        store: where it is to be.
        name: printable, without braces and slashes, at most 200 bytes of UTF-8.
        tags: kinds of objects, each 1 to 8 bytes of UTF-8, and what value compaction keeps of
            changes of such objects that were replaced: ``recovr`` and ``recalc`` nothing,
            ``retain`` all but the values. After ``recalc`` a rebuild makes the index by a function
            of the application. ``None`` means ``{"o": "recovr"}``.
        head_only: ``with_lookup`` or ``no_lookup`` for a keyspace of entries without values, whose
            one tag is ``h``; see ``AsyncEntries``. It never changes.

    Raises:
        KeyspaceExistsError: there is one of this name, or values of one whose ledger was lost.
        KeyspaceNameError: no keyspace can have this name.
        ReadOnlyError: the store was opened read-only.
        BackPressureError, SafeModeError, StorageFullError: no room; it may be half made, and a
            repeat makes it whole.
        OutcomeUnknownError: the log failed; a repeat tells.
    """
    names = space_names(name)
    if head_only is not None:
        space = _space_of_heads(head_only, tags)
    else:
        space = Space(tags=tag_strategies({STANDARD: "recovr"} if tags is None else tags))
    await new_space(store, names, space)
    return AsyncKeyspace(await open_space(store, names))


def _space_of_heads(head_only: str, tags: Mapping[str, str] | None) -> Space:
    known = {each.name.lower(): each for each in HeadOnly}
    if head_only not in known:
        raise ValueError(f"head_only is {' or '.join(known)}, not {head_only!r}")
    if tags is not None:
        raise ValueError(f"a keyspace of heads only has the one tag {ENTRY_TAG!r}")
    return Space(tags={ENTRY_TAG: Strategy.RECOVR}, head_only=known[head_only])


async def open_async(store: AsyncStore, name: str) -> AsyncKeyspace:
    """Open a keyspace of an open store.

    Raises:
        KeyspaceNotFoundError: there is none of this name.
        KeyspaceNameError: no keyspace can have this name.
        LostDataError: bytes of acknowledged changes are gone.
        CorruptDataError: rows are damaged.
        FormatError: it was made by a newer version.
        BackPressureError, SafeModeError, StorageFullError, OutcomeUnknownError: the log failed, or
            had no room, when what is left of earlier owners was to be tidied up. A repeat goes on.
    """
    return AsyncKeyspace(await open_space(store, space_names(name)))


async def rebuild_async(
    store: AsyncStore,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
    recalc: Mapping[str, Recalc] | None = None,
    accept_loss: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> RebuildReport:
    """Make the ledger of a keyspace again from its values: heads, index and what expires.

    For a ledger that is damaged or was lost, and to index everything again by a changed function.
    It is in the order of SQNs, of headers alone. Until it ends the keyspace refuses all verbs with
    ``RebuildingError``, those of open handles too; after a failure or a death a repeat goes on.

    Args:
        store: of the keyspace; it may be open.
        name: of the keyspace.
        tags: as for ``create_async``, for a ledger that is lost; ``None`` means as they were.
        recalc: how the index is made of the objects of each tag whose strategy is ``recalc``.
        accept_loss: whether older records count where damage hides which objects were changed.
        progress: told how much is done, from 0 to 1, on the store's loop.

    Raises:
        KeyspaceNotFoundError: there is neither a ledger nor a value of this name.
        LostDataError: the tags are lost and not given; or the value segments do not tell what
            counts; or damage hides which objects were changed, and that is not accepted.
        LostObjectError: a value is damaged or gone that a function of ``recalc`` asks for.
        UnsupportedError: a tag lacks its function, or a record has a tag that is not known.
        ObjectLimitError: a function gave too many terms, or too long ones.
        RebuildingError: something else rebuilds or restores it.
        ReadOnlyError: the store was opened read-only.
        FormatError: a newer version wrote it.
        ChunkError: long-term storage refused, or did not answer.
        BackPressureError, SafeModeError, StorageFullError, OutcomeUnknownError: the log failed.
    """
    names = space_names(name)
    found = None if tags is None else tag_strategies(tags)
    return await rebuild_space(
        store, names, found, recalc or {}, accept_loss=accept_loss, progress=progress
    )


async def restore_async(
    store: AsyncStore,
    name: str,
    place: Path | str,
    *,
    keyspace: str | None = None,
    of: str | None = None,
    generation: int | None = None,
    recalc: Mapping[str, Recalc] | None = None,
    allow_missing: bool = False,
    progress: Progress = no_progress,
) -> RebuildReport:
    """Make a keyspace of a backup, under a name that none has, in any store.

    Values are imported straight to long-term storage, then the ledger is rebuilt from them. Until
    that is done the keyspace refuses all verbs with ``RebuildingError``. After a failure or a death
    a repeat with the same arguments goes on.

    Args:
        store: where it is to be.
        name: what it is to be called there.
        place: settings file of the place of backups, or a folder.
        keyspace: the name that it had; ``None`` means the only one that the place has backups of.
        of: uuid of the store that it was in; ``None`` means the only one.
        generation: which backup; ``None`` means the newest. A repeat names it where there may be
            newer ones.
        recalc: how the index is made of the objects of each tag whose strategy is ``recalc``.
        allow_missing: make it although bytes of the backup are missing or damaged. The report names
            them. Objects whose values they are stay lost; where even headers are, the rebuild takes
            older records, as with ``accept_loss``.
        progress: told bytes of values that are here, and of how many, on the store's loop.

    Raises:
        StoreNotFoundError: the place has no such backup.
        StoreError: the backup was made without bytes that were damaged then.
        SettingsError: there is no such place; or backups of several keyspaces fit.
        CorruptDataError: the record of the backup, or an object that it names, is damaged or gone;
            the error names it.
        KeyspaceExistsError: there is a keyspace of this name.
        KeyspaceNameError: no keyspace can have this name.
        UnsupportedError: a tag lacks its function.
        ReadOnlyError: the store was opened read-only.
        FormatError: a newer version made the backup.
        ChunkError: place or store refused, or did not answer.
        BackPressureError, SafeModeError, StorageFullError: no room.
        OutcomeUnknownError: the log failed; a repeat tells, and is a ``KeyspaceExistsError`` if the
            restore was done.
    """
    names = space_names(name)
    return await restore_space(
        store,
        names,
        place,
        keyspace=keyspace,
        of=of,
        generation=generation,
        recalc=recalc or {},
        allow_missing=allow_missing,
        progress=progress,
    )


async def names_async(store: AsyncStore) -> AsyncIterator[str]:
    """Yield the names of the keyspaces of an open store, in the order of their bytes."""
    async for table in store.list_tables(KEYSPACES_PREFIX):
        name = name_in(table)
        # Tables stay where keyspaces were removed, or made by half.
        if name is not None and await store.table(table).get(SPACE) is not None:
            yield name


async def warnings_async(store: AsyncStore) -> AsyncIterator[KeyspaceWarning]:
    """Yield what people should know of the keyspaces of an open store, by what rows tell.

    Any process can ask. What was found lost, and whether compaction fails or is needed, is known to
    the process alone that has a keyspace open: its ``store.health()`` and metrics tell.

    Raises:
        SiltstoneError: the store did not answer.
    """
    async for table in store.list_tables(KEYSPACES_PREFIX):
        name = name_in(table)
        if name is not None:
            async for each in warnings_of(store, space_names(name)):
                yield each


async def check_async(
    store: AsyncStore,
    name: str,
    *,
    deep: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> AsyncIterator[Finding]:
    """Yield what is wrong with a keyspace, also with one that does not open. Changes nothing.

    See ``AsyncKeyspace.check``.

    Raises:
        KeyspaceNotFoundError: there is none of this name.
        KeyspaceNameError: no keyspace can have this name.
        FormatError: it was made by a newer version.
        ChunkError: long-term storage refused, or did not answer.
    """
    async for finding in check_space(store, name, deep=deep, progress=progress):
        yield finding


async def check_space(
    store: AsyncStore,
    name: str,
    *,
    deep: bool,
    progress: Callable[[float], None],
    whole: Collection[int] = (),
) -> AsyncIterator[Finding]:
    """``check_async`` for jobs, which have read the records of some value segments themselves.

    Args:
        store: of the keyspace.
        name: of the keyspace.
        deep: as there.
        progress: as there.
        whole: numbers of those segments, if their records are whole; see ``RecordCheck``.
    """
    names = space_names(name)
    try:
        held = await snapshots_of(store, names).take(FOLD_TTL_S)
    except TableNotFoundError:
        raise KeyspaceNotFoundError("no such keyspace", keyspace=name) from None
    try:
        check = SpaceCheck(store, names, held.taken, progress, whole)
        async for finding in check.findings(deep=deep):
            yield finding
    finally:
        held.release()


async def compact_space(
    store: AsyncStore, name: str, make: MakeCopies, *, accept_loss: bool
) -> CompactionReport:
    """``AsyncKeyspace.compact`` for jobs, which write the new value segments elsewhere.

    Args:
        store: of the keyspace.
        name: of the keyspace.
        make: makes what writes them.
        accept_loss: as there.
    """
    space = await open_space(store, space_names(name))
    return await space.compact(accept_loss=accept_loss, make=make)


async def destroy_async(store: AsyncStore, name: str) -> RemovedKeyspace:
    """Remove a keyspace with all of its objects, for ever.

    Handles to it are closed. If it was interrupted there is no keyspace of this name any more, and
    a repeat removes what is left. To repeat it does no harm.

    Raises:
        KeyspaceNotFoundError: there never was one of this name.
        KeyspaceNameError: no keyspace can have this name.
        CompactionBusyError: a value compaction of it is running.
        ReadOnlyError: the store was opened read-only.
        OutcomeUnknownError: the log failed; a repeat tells.
    """
    return await destroy_space(store, space_names(name))


def tag_strategies(tags: Mapping[str, str]) -> dict[str, Strategy]:
    """Return the strategy of each tag. Raises ``ValueError`` for what can be none."""
    if not tags:
        raise ValueError("a keyspace has at least one tag")
    return {check_tag(tag): _strategy(each) for tag, each in tags.items()}


def check_tag(tag: str) -> str:
    """Return a tag. Raises ``ValueError`` for what can be none."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag is text, not {type(tag).__name__}")
    if not tag.isprintable():
        raise ValueError(f"a tag is printable text, not {tag!r}")
    name_bytes(tag, what="tag", most=TAG_BYTES_MAX)
    return tag


def _strategy(name: str) -> Strategy:
    known = {each.name.lower(): each for each in Strategy}
    if name not in known:
        raise ValueError(f"a strategy is {' or '.join(known)}, not {name!r}")
    return known[name]
