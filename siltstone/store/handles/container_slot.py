"""The place of one container in a store: what its handles hold at the moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from siltstone.core.errors import StoreError
from siltstone.store.handles.stand_ins import refusing_container
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.health.monitor import ContainerHealth
    from siltstone.container.models.health import HealthReason

Remark = Callable[[], Iterable["HealthReason"]]
"""Tells what to know of what rests on a container, now."""


class Handle(LivingHandle):
    """A segment, table or writer: what calls a container, which is exchanged meanwhile."""

    __slots__ = ("__weakref__", "_container")

    def __init__(self, slot: ContainerSlot) -> None:
        self._container: Container
        slot.bind_handle(self)

    def _rebind(self, container: Container) -> None:
        """Let every call from now on go to ``container``."""
        self._container = container


class ContainerSlot:
    """Holds a container and knows the living handles to it, so that all can be given another.

    Thread-safe, since handles are made by any thread.

    Attributes:
        index: of the container.
        container: what serves its calls now.
        epoch: of this store's newest ownership, or of what a reader saw first.
        remarks: ask for these what to know of what rests on the container.
    """

    def __init__(self, index: int, container: Container, epoch: int) -> None:
        self.index = index
        self.epoch = epoch
        self.container = container
        self.remarks: set[Remark] = set()
        self._handles: WeakSet[Handle] = WeakSet()
        self._lock = threading.Lock()

    async def health(self) -> ContainerHealth:
        """What the container tells, and what those who use it add."""
        found = await self.container.health()
        added = [reason for remark in list(self.remarks) for reason in remark()]
        return replace(found, reasons=(*found.reasons, *added)) if added else found

    def bind_handle(self, handle: Handle) -> None:
        """Give a new handle its container, now and whenever that is exchanged."""
        with self._lock:
            handle._rebind(self.container)
            self._handles.add(handle)

    def bind(self, container: Container) -> None:
        """Let every call from now on go to ``container``."""
        with self._lock:
            self.container = container
            for handle in list(self._handles):
                handle._rebind(container)

    def bind_after_fork(self, container: Container) -> None:
        """``bind`` in a forked child, where the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()
        self.bind(container)


def all_slots(here: Iterable[ContainerSlot], count: int) -> tuple[ContainerSlot, ...]:
    """The slots of all containers by their indexes; those that are not open here refuse calls."""
    found = {slot.index: slot for slot in here}
    opened = ",".join(map(str, found))
    return tuple(found.get(index) or _elsewhere(index, opened) for index in range(count))


def _elsewhere(index: int, opened: str) -> ContainerSlot:
    make_error = partial(
        StoreError, "the container is not open here", container=index, opened=opened
    )
    return ContainerSlot(index, refusing_container(make_error), 0)
