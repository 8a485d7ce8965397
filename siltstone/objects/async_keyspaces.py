"""The keyspaces of an open store, for asyncio: made, opened and listed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.changes import STANDARD, name_bytes
from siltstone.objects.open_space import open_space
from siltstone.objects.records.limits import TAG_BYTES_MAX
from siltstone.objects.records.space_rows import Space, Strategy
from siltstone.objects.space_names import PREFIX, name_in, space_names
from siltstone.objects.space_setup import make_space

if TYPE_CHECKING:
    from siltstone.store.async_store import AsyncStore


async def create_async(
    store: AsyncStore,
    name: str,
    *,
    tags: Mapping[str, str] | None = None,
) -> AsyncKeyspace:
    """Make a keyspace in an open store, and open it.

    Args:
        store: where it is to be.
        name: printable, without braces and slashes, at most 200 bytes of UTF-8.
        tags: kinds of objects, each 1 to 8 bytes of UTF-8, and what value compaction keeps of
            changes of such objects that were replaced: ``recovr`` nothing, ``retain`` all but the
            values. ``None`` means ``{"o": "recovr"}``.

    Raises:
        KeyspaceExistsError: there is one of this name.
        KeyspaceNameError: no keyspace can have this name.
        ReadOnlyError: the store was opened read-only.
        BackPressureError, SafeModeError, StorageFullError: no room; it may be half made, and a
            repeat makes it whole.
        OutcomeUnknownError: the log failed; a repeat tells.
    """
    names = space_names(name)
    found = {STANDARD: "recovr"} if tags is None else tags
    if not found:
        raise ValueError("a keyspace has at least one tag")
    space = Space(tags={check_tag(tag): _strategy(each) for tag, each in found.items()})
    await make_space(store, names, space)
    return AsyncKeyspace(await open_space(store, names))


async def open_async(store: AsyncStore, name: str) -> AsyncKeyspace:
    """Open a keyspace of an open store.

    Raises:
        KeyspaceNotFoundError: there is none of this name.
        KeyspaceNameError: no keyspace can have this name.
        LostDataError: bytes of acknowledged changes are gone.
        CorruptDataError: rows are damaged.
        FormatError: it was made by a newer version.
    """
    return AsyncKeyspace(await open_space(store, space_names(name)))


async def names_async(store: AsyncStore) -> AsyncIterator[str]:
    """Yield the names of the keyspaces of an open store, in the order of their bytes."""
    async for table in store.list_tables(PREFIX):
        name = name_in(table)
        if name is not None:
            yield name


def check_tag(tag: str) -> str:
    """Return a tag. Raises ``ValueError`` for what can be none."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag is text, not {type(tag).__name__}")
    if not tag.isprintable():
        raise ValueError(f"a tag is printable text, not {tag!r}")
    name_bytes(tag, what="tag", most=TAG_BYTES_MAX)
    return tag


def _strategy(name: str) -> Strategy:
    known = {each.name.lower(): each for each in (Strategy.RECOVR, Strategy.RETAIN)}
    if name not in known:
        raise ValueError(f"a strategy is {' or '.join(known)}, not {name!r}")
    return known[name]
