"""Bringing chunks to an import session: on any host, without owning the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.container.models.imports import ImportedChunk, ImportTicket
from siltstone.core.bytes_like import byte_view
from siltstone.core.chunk_names import imported_chunk
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.closed_on_exit import Closing
from siltstone.core.constants import MIB, Buffer
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import ChunkError, ChunkExistsError, ChunkStorageFullError, Outcome
from siltstone.core.storage.block_sums import extend_sums, summed
from siltstone.core.storage.optional_verbs import PieceError, create_from
from siltstone.core.whole_number import whole_number
from siltstone.store.manifest import check_uuid, read_manifest
from siltstone.store.settings.effective import load_settings
from siltstone.store.store_assembly import open_storage

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike

CHUNK_BYTES: Final = 32 * MIB
"""A writer holds this many bytes in memory; more would not be written faster."""
ATTEMPTS_MAX: Final = 3
"""Names that are burnt for one chunk before its write fails."""
NONCE_BYTES: Final = 8


class ImportPart:
    """A sequence of bytes on its way into chunks of its own. Made by ``ImportWriter``."""

    def __init__(
        self, create: Callable[[Sequence[Buffer], int], ImportedChunk], chunk_bytes: int
    ) -> None:
        self._create = create
        self._chunk_bytes = chunk_bytes
        self._buffers: list[memoryview] = []
        self._chunks: list[ImportedChunk] = []
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that are in memory only."""
        return self._held

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return sum(chunk.length for chunk in self._chunks) + self._held

    def write(self, data: BytesLike) -> None:
        """Add bytes, which must not change until the part is finished. Raises ``ChunkError``."""
        view = byte_view(data)
        while len(view):
            some = view[: self._chunk_bytes - self._held]
            self._buffers.append(some)
            self._held += len(some)
            view = view[len(some) :]
            if self._held == self._chunk_bytes:
                self.roll()

    def roll(self) -> None:
        """Make a chunk of what is held in memory, durably. Raises ``ChunkError``."""
        if self._held:
            self._chunks.append(self._create(self._buffers, self._held))
            self._buffers, self._held = [], 0

    def finish(self) -> tuple[ImportedChunk, ...]:
        """Make a chunk of what is left; return all chunks, durable, in order."""
        self.roll()
        return tuple(self._chunks)


class ImportTarget(Closing):
    """Long-term storage that is opened once, for any number of writers. Thread-safe.

    Making a client of a service takes a tenth of a second of the processor.

    Args:
        storage: a client of its own, which is closed here.
        chunk_bytes: most bytes of a chunk, by the settings of the store.
        environment: gives what makes names unique.
        closes: an environment that is closed here; ``None`` for none.

    Attributes:
        storage: the client.
        chunk_bytes_max: most bytes of a chunk.
    """

    def __init__(
        self,
        storage: ChunkStorage,
        chunk_bytes: int,
        environment: Environment,
        closes: Environment | None = None,
    ) -> None:
        self.storage = storage
        self.chunk_bytes_max = min(chunk_bytes, storage.capabilities.chunk_bytes_max)
        self._environment = environment
        self._closes = closes

    def nonce(self) -> str:
        """What makes the name of a chunk unique."""
        return self._environment.random_bytes(NONCE_BYTES).hex()

    def close(self) -> None:
        """Free what it holds; its writers can no longer be used. Idempotent."""
        self.storage.close()
        if self._closes is not None:
            self._closes.close()


def open_import_target(store: Path | str, uuid: str = "") -> ImportTarget:
    """Open the long-term storage of a store, and nothing else of it.

    Args:
        store: the settings file of the store, or its folder.
        uuid: of the store that is meant; nothing means that of the settings file.

    Raises:
        StoreNotFoundError: there is no store, or none that this host can see.
        StoreError: another store is there.
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage refuses or does not answer.
    """
    settings = load_settings(store)
    environment = SystemEnvironment()
    storage = open_storage(settings, environment)
    target = ImportTarget(storage, settings.container.chunk_bytes, environment, environment)
    try:
        # An empty mount point must not take chunks that no other host ever sees.
        check_uuid(read_manifest(target.storage), uuid or settings.uuid)
    except BaseException:
        target.close()
        raise
    return target


class ImportWriter(Closing):
    """Writes a share of an import straight to long-term storage, as chunks of its own.

    Close it, or use it as a context manager. What is written and not committed is deleted when the
    session is closed. Not for several threads.

    Args:
        store: the settings file of the store, or its folder; or what is open already, and stays so
            when the writer is closed.
        ticket: of the session.
        partition: number of this share.
        attempt: number of this attempt at it; no two need the same.
        chunk_bytes: a chunk has this many bytes at most; ``None`` lets the store's settings decide.

    Raises:
        StoreNotFoundError: there is no store, or none that this host can see.
        StoreError: another store is there than that of the ticket.
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage refuses or does not answer.
    """

    def __init__(
        self,
        store: Path | str | ImportTarget,
        ticket: ImportTicket,
        *,
        partition: SupportsIndex,
        attempt: SupportsIndex,
        chunk_bytes: SupportsIndex | None = None,
    ) -> None:
        self._own: ImportTarget | None = None
        if not isinstance(store, ImportTarget):
            store = self._own = open_import_target(store, ticket.uuid)
        self._target = store
        most = CHUNK_BYTES if chunk_bytes is None else whole_number(chunk_bytes, what="chunk_bytes")
        self._chunk_bytes = min(most or CHUNK_BYTES, store.chunk_bytes_max)
        self._prefix = ticket.prefix
        self._partition = whole_number(partition, what="partition")
        self._attempt = whole_number(attempt, what="attempt")
        self._part = self.new_part()

    def new_part(self) -> ImportPart:
        """Begin another sequence of bytes, such as that of another segment."""
        return ImportPart(self._create, self._chunk_bytes)

    @property
    def chunk_bytes(self) -> int:
        """Most bytes of a chunk."""
        return self._chunk_bytes

    @property
    def length(self) -> int:
        """Bytes written so far, without those of other parts."""
        return self._part.length

    def write_chunk(
        self, length: SupportsIndex, pieces: Callable[[], Iterable[Buffer]]
    ) -> ImportedChunk:
        """Make a chunk of pieces as they come, durably; it belongs to no part.

        Where storage takes them so, no more than a piece is in memory.

        Args:
            length: bytes of all pieces: 1 to ``chunk_bytes``.
            pieces: reads them from the first one on, each done with before the next one is asked
                for; called again when a create got no answer.

        Raises:
            ChunkError: storage failed. What ``pieces`` raises comes out as it is.
        """
        count = whole_number(length, what="length")

        def create(name: str) -> tuple[int, ...]:
            sums: list[int] = []
            create_from(self._target.storage, name, count, summed(pieces(), sums))
            return tuple(sums)

        try:
            return self._made(count, create)
        except PieceError as failed:
            raise failed.error from failed.error.__cause__

    def write_chunks(
        self, start: int, stop: int, pieces: Callable[[int, int], Iterable[Buffer]]
    ) -> Iterator[ImportedChunk]:
        """Make chunks of ``[start, stop)`` of something, one after the other; see ``write_chunk``.

        ``pieces`` reads the bytes between two offsets.
        """
        for begin in range(start, stop, self.chunk_bytes):
            end = min(stop, begin + self.chunk_bytes)
            yield self.write_chunk(end - begin, partial(pieces, begin, end))

    def write(self, data: BytesLike) -> None:
        """See ``ImportPart.write``."""
        self._part.write(data)

    def finish(self) -> tuple[ImportedChunk, ...]:
        """See ``ImportPart.finish``."""
        return self._part.finish()

    def close(self) -> None:
        """Free what the writer holds. Idempotent."""
        if self._own is not None:
            self._own.close()

    def _create(self, buffers: Sequence[Buffer], length: int) -> ImportedChunk:
        sums = tuple(extend_sums(buffers, 0, 0))

        def create(name: str) -> tuple[int, ...]:
            self._target.storage.create(name, buffers)
            return sums

        return self._made(length, create)

    def _made(self, length: int, create: Callable[[str], tuple[int, ...]]) -> ImportedChunk:
        """Make a chunk, under another name for as long as outcomes are unknown."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            nonce = self._target.nonce()
            name = imported_chunk(self._prefix, self._partition, self._attempt, nonce)
            try:
                sums = create(name)
            except ChunkError as error:
                again = error.outcome is Outcome.UNKNOWN or isinstance(error, ChunkExistsError)
                full = isinstance(error, ChunkStorageFullError)
                if not again or full or attempt == ATTEMPTS_MAX:
                    raise
            else:
                return ImportedChunk(name=name, length=length, sums=sums)
        raise AssertionError("the last attempt returns or raises")
