"""A rebuild as it is asked for: the keyspace is closed, its ledger goes, and is made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from siltstone.core.errors import CorruptDataError, ReadOnlyError
from siltstone.objects.errors import KeyspaceNotFoundError, RebuildingError, UnsupportedError
from siltstone.objects.ledger_rebuild import LedgerRebuild
from siltstone.objects.lost_changes import pass_lost_sqns
from siltstone.objects.open_spaces import space_closed
from siltstone.objects.rebuild_plan import Recalc, check_recalc
from siltstone.objects.rebuild_report import RebuildReport
from siltstone.objects.rebuild_start import begin_rebuild, space_to_rebuild
from siltstone.objects.space_setup import find_space
from siltstone.store.system_table import for_keyspaces

if TYPE_CHECKING:
    from siltstone.objects.records.space_rows import Strategy
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore


async def rebuild_space(
    store: AsyncStore,
    names: SpaceNames,
    tags: Mapping[str, Strategy] | None,
    recalc: Mapping[str, Recalc],
    *,
    accept_loss: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> RebuildReport:
    """Rebuild the ledger of a keyspace.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        tags: strategies by tag from now on; ``None`` means as they were.
        recalc: how the index is made of the objects of each tag whose strategy is ``recalc``.
        accept_loss: whether older records count where damage hides which objects were changed.
        progress: told how much is done, from 0 to 1.

    Raises what the steps of it raise, and:
        ReadOnlyError: the store was opened read-only.
    """
    if store.read_only:
        raise ReadOnlyError("the store was opened read-only", keyspace=names.name)
    store = for_keyspaces(store)
    space = await space_to_rebuild(store, names, tags)
    if space.head_only is not None:
        raise UnsupportedError(
            "a keyspace of heads only has no values, so its ledger cannot be made again from them;"
            " a backup of the store has it",
            keyspace=names.name,
        )
    check_recalc(space, recalc)
    async with space_closed(store, names):
        # A ledger with damage, or without a state, is made again from what records say.
        with suppress(KeyspaceNotFoundError, CorruptDataError, RebuildingError):
            await pass_lost_sqns(store, names, await find_space(store, names))
        await begin_rebuild(store, names, space)
    rebuild = LedgerRebuild(store, names, space, recalc, accept_loss=accept_loss, progress=progress)
    return await rebuild.run()
