"""The sources of a join, which are looked at before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from siltstone.core.errors import ChunkOffsetError
from siltstone.core.remote.remote_client import RemoteClient

T = TypeVar("T")


def looked_at(
    client: RemoteClient,
    sources: Sequence[tuple[str, int]],
    look: Callable[[str, str], T],
    length_of: Callable[[T], int],
) -> dict[str, T]:
    """Look at every source once, several at a time: how long it is, and which object it is.

    Args:
        client: of the service.
        sources: the name of each, and how many bytes of it are wanted.
        look: what the service says of a name and its key.
        length_of: the length in that.

    Raises:
        ChunkOffsetError: a source is too short.
        ChunkError: whatever ``look`` raises.
    """
    keys = {name: client.key(name, "concat") for name, _ in sources}
    found = client.side_by_side([partial(look, name, key) for name, key in keys.items()])
    known = dict(zip(keys, found, strict=True))
    for name, length in sources:
        actual = length_of(known[name])
        if length > actual:
            raise ChunkOffsetError(chunk=name, operation="concat", expected=actual, actual=length)
    return known
