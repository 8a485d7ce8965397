"""Segments and tables that belong to a keyspace: handles that read them, and refuse to change them.

A keyspace knows lengths, versions and names of what it has. Whatever else changes them loses
objects, and is noticed later, if at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from siltstone.core.constants import keyspace_of
from siltstone.core.errors import SegmentNameError
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.handles.async_table import AsyncTable
from siltstone.store.handles.read_calls import ReadCalls

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.store.handles.container_slot import ContainerSlot
    from siltstone.store.handles.segment_home import SegmentHome

HARMLESS: Final = frozenset({*vars(ReadCalls), "flush", "frame_data_max", "pins"})
"""What a handle asks of a container without changing what the segment or the table holds."""


def check_unowned(name: str) -> None:
    """Refuse a change of what belongs to a keyspace.

    Raises:
        SegmentNameError: it does.
    """
    keyspace = keyspace_of(name)
    if keyspace is not None:
        raise SegmentNameError(
            "it belongs to a keyspace, whose objects would be lost; a handle that is made with "
            "force=True does it all the same",
            segment=name,
            keyspace=keyspace,
        )


class _ReadContainer:
    """A container as a handle to something that belongs to a keyspace may use it."""

    def __init__(self, container: Container, name: str) -> None:
        self._container = container
        self._name = name

    def __getattr__(self, verb: str) -> Any:
        if verb not in HARMLESS:
            check_unowned(self._name)
        found = getattr(self._container, verb)
        if callable(found):  # found here from now on, since reads are many
            setattr(self, verb, found)
        return found


class ProtectedSegment(AsyncSegment):
    """A handle to a segment of a keyspace."""

    __slots__ = ()

    def _rebind(self, container: Container) -> None:
        super()._rebind(cast("Container", _ReadContainer(container, self._name)))


class ProtectedTable(AsyncTable):
    """A handle to the table of a keyspace."""

    __slots__ = ()

    def _rebind(self, container: Container) -> None:
        super()._rebind(cast("Container", _ReadContainer(container, self._name)))


def segment_handle(
    store: SegmentHome, slot: ContainerSlot, name: str, *, force: bool
) -> AsyncSegment:
    """Return a handle to a segment; with ``force`` it changes those of keyspaces, too."""
    is_free = force or keyspace_of(name) is None
    return (AsyncSegment if is_free else ProtectedSegment)(store, slot, name)


def table_handle(slot: ContainerSlot, name: str, *, force: bool) -> AsyncTable:
    """Return a handle to a table; with ``force`` it changes those of keyspaces, too."""
    is_free = force or keyspace_of(name) is None
    return (AsyncTable if is_free else ProtectedTable)(slot, name)
