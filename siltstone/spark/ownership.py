"""Owning the container of a segment for a moment: at the planning of a write, and at its end.

Spark plans a write in one process and ends it in another, and neither lives meanwhile. So each of
them claims the container, does its one change and gives it up again; the session, which is a row,
is what connects them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from siltstone.core.constants import container_of
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import SettingsError, StoreInUseError
from siltstone.store.store import Store, open_store
from siltstone.store.store_assembly import container_count

PLAN_WAIT_S: Final = 3.0
"""Another write has the container for a moment; an owner that has it for longer is a live one."""

END_WAIT_S: Final = 60.0
"""Much work would be lost, so its end waits longer for an owner that came meanwhile."""

TURNS_WAIT_S: Final = 60.0
"""Other writes may go first for this long, one after another: chance decides whose turn it is."""

_PAUSE_S: Final = 0.1


@contextmanager
def owned(store: str, container: int, wait_s: float) -> Iterator[Store]:
    """Own one container of a store for the block.

    Raises:
        StoreInUseError: one owner has it for longer than ``wait_s``, or several in turn for
            longer than ``TURNS_WAIT_S``.
        SiltstoneError: whatever opening a store raises.
    """
    with (
        closing(SystemEnvironment()) as environment,
        _opened(store, container, wait_s, environment) as opened,
    ):
        yield opened


def _opened(store: str, container: int, wait_s: float, environment: Environment) -> Store:
    begun = since = environment.monotonic()
    owner = None
    while True:
        try:
            return open_store(store, containers=[container])
        except StoreInUseError as error:
            now = environment.monotonic()
            if error.owner != owner:
                owner, since = error.owner, now
            if now >= since + wait_s or now >= begun + max(wait_s, TURNS_WAIT_S):
                raise
            environment.pause(_PAUSE_S)


def container_for(store: str, segment: str, *, several: bool) -> int:
    """The container of what is to be written.

    Args:
        store: settings file or folder.
        segment: name of the segment, or what several names begin with.
        several: whether there are several, which must share a container.

    Raises:
        SettingsError: they might not share one.
        StoreNotFoundError: there is no store.
    """
    count = container_count(store)
    if several and count > 1 and not _has_tag(segment):
        raise SettingsError(
            f"option 'segment': a write into several segments is one step in one container, and "
            f"the store has {count}; give the name a tag in braces, such as '{{{segment}}}'"
        )
    return container_of(segment, count)


def _has_tag(segment: str) -> bool:
    start = segment.find("{")
    return start >= 0 and segment.find("}", start + 1) > start + 1
