"""The part that all wrappers of a chunk storage share: every verb, delegated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.errors import ChunkError
from siltstone.core.storage.optional_verbs import (
    create_from,
    create_whole,
    delete_many,
    list_every,
    overwrite,
    sweep_leftovers,
    uri_of,
)

T = TypeVar("T")


class WrappedChunkStorage:
    """Delegates every verb of ``ChunkStorage`` and the optional verbs as well to ``inner``.

    A wrapper that does the same around each call overrides ``_call``; one that changes some verbs
    overrides these.

    Attributes:
        inner: closed by ``close``.
    """

    def __init__(self, inner: ChunkStorage) -> None:
        self.inner = inner

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        """Every call but ``close`` goes through here.

        Args:
            operation: the verb.
            name: the chunk, the target of a concat, the prefix of a listing, the first of many.
            action: makes the call to ``inner``.
        """
        return action()

    @property
    def capabilities(self) -> Capabilities:
        """Those of ``inner``."""
        return self.inner.capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._call("create", name, lambda: self.inner.create(name, buffers))

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``; a create for wrappers that count or repeat."""
        self._call("create", name, lambda: create_from(self.inner, name, length, pieces))

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``; a create, too."""
        self._call("create", name, lambda: create_whole(self.inner, name, buffers))

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._call("write", name, lambda: self.inner.write(name, offset, buffers))

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``."""
        return self._call("read_into", name, lambda: self.inner.read_into(name, offset, buffer))

    def stat(self, name: str) -> ChunkStat:
        """``ChunkStorage.stat``."""
        return self._call("stat", name, lambda: self.inner.stat(name))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``: one call, made when it is asked for its first chunk."""
        return self._first_called(prefix, self.inner.list(prefix, start_after))

    def list_every(self, prefix: str, start_after: str = "") -> Iterator[ChunkStat]:
        """``list_every`` of ``optional_verbs``, as ``list``."""
        return self._first_called(prefix, list_every(self.inner, prefix, start_after))

    def _first_called(self, prefix: str, listing: Iterator[ChunkStat]) -> Iterator[ChunkStat]:
        def listed() -> Iterator[ChunkStat]:
            first = self._call("list", prefix, lambda: next(listing, None))
            if first is not None:
                yield first
                yield from listing

        return listed()

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``."""
        self._call("delete", name, lambda: self.inner.delete(name))

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``optional_verbs``, one call."""
        first = names[0] if names else ""
        return self._call("delete_many", first, lambda: delete_many(self.inner, names))

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """``sweep_leftovers`` of ``optional_verbs``."""
        return self._call(
            "sweep_leftovers", prefix, lambda: sweep_leftovers(self.inner, prefix, age_s)
        )

    def overwrite(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``overwrite`` of ``optional_verbs``."""
        self._call("overwrite", name, lambda: overwrite(self.inner, name, offset, buffers))

    def uri_of(self, name: str) -> str | None:
        """``uri_of`` of ``optional_verbs``, which makes no call."""
        return uri_of(self.inner, name)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``."""
        self._call("concat", target, lambda: self.inner.concat(target, sources))

    def seal(self, name: str) -> None:
        """``ChunkStorage.seal``."""
        self._call("seal", name, lambda: self.inner.seal(name))

    def used_space(self) -> int:
        """``ChunkStorage.used_space``."""
        return self._call("used_space", "", lambda: self.inner.used_space())

    def free_space(self) -> int:
        """``ChunkStorage.free_space``."""
        return self._call("free_space", "", lambda: self.inner.free_space())

    def close(self) -> None:
        """``ChunkStorage.close``."""
        self.inner.close()
