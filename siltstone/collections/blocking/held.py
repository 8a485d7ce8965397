"""All collections of a store held for a caller that blocks, while it copies their objects."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from siltstone.collections.held_collections import HeldCollection, HeldCollections
from siltstone.collections.opened_place import opened_place
from siltstone.collections.owned_place import viewed_place
from siltstone.core.closed_on_exit import Closing
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.opening import open_async_store

Hold = Callable[[Path | str, Environment], Coroutine[Any, Any, HeldCollections]]


def hold_collections(path: Path | str) -> BlockingHold:
    """Hold every collection of the store whose settings file, or folder, is ``path``.

    Needs the right to write. Raises like ``open_collections`` and ``HeldCollections.held``.
    """
    return _opened(path, _held)


async def _held(path: Path | str, environment: Environment) -> HeldCollections:
    return await HeldCollections.held(opened_place(path, environment, None))


def show_collections(path: Path | str) -> BlockingHold:
    """Show every collection of a store that has them in a table of its owner, who may work.

    The caller has pinned what the store shows, which keeps what these states name. Raises like
    ``open_async_store``.
    """
    return _opened(path, _shown)


async def _shown(path: Path | str, environment: Environment) -> HeldCollections:
    store = await open_async_store(path, read_only=True, environment=environment)
    try:
        place = await viewed_place(store)
    except BaseException:
        await store.close()
        raise
    return await HeldCollections.held(place, store, by_leases=False)


def _opened(path: Path | str, hold: Hold) -> BlockingHold:
    environment = SystemEnvironment()
    loop = BackgroundLoop("siltstone-hold")
    try:
        held = loop.run(hold(path, environment))
    except BaseException:
        loop.close()
        environment.close()
        raise
    return BlockingHold(loop, held, environment)


class BlockingHold(Closing):
    """See ``HeldCollections``. Leases are renewed on a thread of its own."""

    def __init__(
        self, loop: BackgroundLoop, held: HeldCollections, environment: SystemEnvironment
    ) -> None:
        self._loop = loop
        self._held = held
        self._environment = environment

    @property
    def store_id(self) -> bytes:
        """Of the store, 16 bytes."""
        return self._held.store_id

    @property
    def found(self) -> Sequence[HeldCollection]:
        """The collections, each at one entry."""
        return self._held.found

    @property
    def damaged(self) -> Mapping[str, str]:
        """Why the others cannot be read, by their names."""
        return self._held.damaged

    def check(self) -> None:
        """Raise ``LeaseExpiredError`` if a lease ended."""
        self._held.check()

    def close(self) -> None:
        """Give all leases back. Idempotent."""
        try:
            self._loop.run(self._held.close())
        finally:
            self._loop.close()
            self._environment.close()
