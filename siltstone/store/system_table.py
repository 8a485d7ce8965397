"""What rests on an open store: tables of its own, and what is closed before it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from siltstone.container.models.health import HealthState
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import check_segment_name, container_of
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.async_table import AsyncTable

if TYPE_CHECKING:
    from siltstone.container.reader.read_container import ReadContainer
    from siltstone.store.handles.async_segment import AsyncSegment
    from siltstone.store.handles.container_slot import Remark


def close_before(store: AsyncStore, user: AsyncClosing) -> None:
    """Let what uses the store be closed when the store is, before that."""
    store._users.add(user)


def is_pressed(store: AsyncStore, name: str) -> bool:
    """Whether appends to a segment wait for room, or will soon: callers should slow down.

    Raises ``ClosedError`` and ``FencedError`` once its container has ended.
    """
    return store._slots[store.container_index(name)].container.pressed


async def is_well(store: AsyncStore, name: str) -> bool:
    """Whether long-term storage does well, as the container of this name finds it.

    Raises ``ClosedError`` and ``FencedError`` once that has ended.
    """
    found = await store._slots[store.container_index(name)].container.health()
    return found.state is HealthState.OK


def tell_health(store: AsyncStore, name: str, remark: Remark) -> Callable[[], None]:
    """Let the health of the container of this name tell this too; return what ends that."""
    remarks = store._slots[store.container_index(name)].remarks
    remarks.add(remark)
    return partial(remarks.discard, remark)


class KeyspacesStore(AsyncStore):
    """An open store as those use it to whom keyspaces belong; it shares all that the store has."""

    def __init__(self, store: AsyncStore) -> None:
        self.__dict__ = store.__dict__

    def segment(self, name: str, *, force: bool = True) -> AsyncSegment:
        """See ``AsyncStore.segment``."""
        return super().segment(name, force=force)

    def table(self, name: str, *, force: bool = True) -> AsyncTable:
        """See ``AsyncStore.table``."""
        return super().table(name, force=force)

    def _check_changeable(self, name: str) -> None:
        """Raise ``SegmentNameError`` for what is no name. Hides that of ``AsyncStore``."""
        check_segment_name(name)


def for_keyspaces(store: AsyncStore) -> KeyspacesStore:
    """Return an open store as those use it to whom keyspaces belong: always the same object."""
    if isinstance(store, KeyspacesStore):
        return store
    if store._for_keyspaces is None:
        store._for_keyspaces = KeyspacesStore(store)
    found = store._for_keyspaces
    assert isinstance(found, KeyspacesStore), "it is made here"
    return found


class SystemTable:
    """A table of a store that is open here. Made by ``system_table``, or to read what is there.

    Attributes:
        table: a handle to it.
    """

    def __init__(self, store: AsyncStore, name: str) -> None:
        index = container_of(name, store.container_count)
        self._slot = store._slots[index]
        self.table = AsyncTable(self._slot, name)

    async def create(self) -> None:
        """Make it, unless it is there."""
        await self._slot.container.create_table(self.table.name, exist_ok=True, reserved=True)

    async def look(self) -> None:
        """Let a store that is open to be read only show all that was acknowledged in it before.

        Raises:
            ChunkError, LogError: they did not answer.
        """
        reader = cast("ReadContainer", self._slot.container)
        await reader.refresh()

    async def flush(self) -> None:
        """Bring what is acknowledged in it to long-term storage.

        Raises:
            ChunkError: long-term storage failed; nothing is lost.
        """
        await self._slot.container.flush_tables()

    async def trim(self) -> None:
        """Bring all of its container to long-term storage, and let tier 1 go of it.

        Raises:
            ChunkError: long-term storage failed; nothing is lost.
        """
        await self._slot.container.flush()

    async def is_pinned(self) -> bool:
        """Whether a reader pins what the container of the table shows.

        Raises:
            ChunkError: long-term storage did not answer.
        """
        return bool((await self._slot.container.garbage.status()).pins)


async def system_table(store: AsyncStore, name: str) -> SystemTable:
    """Return the table of a reserved name, and make it if it is not there.

    Raises:
        StoreError: its container is not open here.
        LogError, OutcomeUnknownError: it could not be made.
    """
    found = SystemTable(store, name)
    await found.create()
    return found
