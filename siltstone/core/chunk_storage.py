"""The contract of long-term storage: what a binding must do, and what it may be able to do.

Only the contract lives here. Bindings are synchronous and thread-safe, and never see an event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from siltstone.core.constants import MIB
from siltstone.core.constants import Buffer as Buffer

UNLIMITED = 2**63 - 1
"""The value of a limit that a service does not have."""

WHOLE_CREATE_BYTES_MAX: Final = 16 * MIB
"""The most that ``create_whole`` of ``optional_verbs`` takes: every service takes this much in one
request, and it is little enough to be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a service can do in addition to the six verbs. A wrapper forwards it unchanged.

    Attributes:
        append: ``write`` is supported; without it every chunk is written once, by ``create``.
        concat: ``concat`` makes a new chunk of existing ones on the service; the sources stay.
        seal: ``seal`` makes the service refuse further writes.
        used_space: ``used_space`` is known.
        free_space: ``free_space`` is known.
        offset_checked: the service itself refuses a ``write`` at a wrong offset.
        concat_part_bytes_min: smallest part of a concat but the last, in bytes.
        concat_part_bytes_max: largest part of a concat, in bytes.
        concat_parts_max: most parts of a concat.
        appends_max: most writes to one chunk, the create included.
        chunk_bytes_max: largest chunk, in bytes.
        bulk_delete_max: most chunks that one request deletes; above 1, ``delete_many`` of
            ``optional_verbs`` is there.
        streams: ``create_from`` of ``optional_verbs`` is there, and holds one piece at a time.
        overwrite: ``overwrite`` of ``optional_verbs`` is there.
        whole: ``create_whole`` of ``optional_verbs`` is there.
    """

    append: bool
    concat: bool = False
    seal: bool = False
    used_space: bool = False
    free_space: bool = False
    offset_checked: bool = False
    concat_part_bytes_min: int = 1
    concat_part_bytes_max: int = UNLIMITED
    concat_parts_max: int = UNLIMITED
    appends_max: int = UNLIMITED
    chunk_bytes_max: int = UNLIMITED
    bulk_delete_max: int = 1
    streams: bool = False
    overwrite: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkStat:
    """What the service says of one chunk.

    Attributes:
        name: the exact key.
        length: physical length in bytes; never less than what was acknowledged.
        version: opaque; changes whenever the content may have changed (inode, mtime and size, or an
            ETag).
        modified_s: time of the last change, seconds since 1970, as far as the service tells;
            else 0.
    """

    name: str
    length: int
    version: str
    modified_s: float = 0.0


@runtime_checkable
class ChunkStorage(Protocol):
    """Chunks under exact keys. What is acknowledged is durable and visible to every client at once.

    Every method is thread-safe and raises only ``ChunkError`` (with ``outcome``),
    ``CapabilityError``, ``ValueError``/``TypeError`` for arguments that no service could take, and
    ``ClosedError``. An empty name, one over 1,024 bytes of UTF-8, one with NUL or with an empty,
    ``.`` or ``..`` part is ``ChunkNameError``. No method retries a mutation.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this service can do; constant for the life of the object."""
        ...

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Make a chunk that did not exist, with its first bytes, durable with its name on return.

        Raises:
            ChunkExistsError: the name is taken, whatever its content (``NOT_APPLIED``).
            ChunkStorageFullError: no room. The name is burnt if the outcome is unknown.
            ValueError: ``buffers`` hold no byte at all, or more than ``chunk_bytes_max``.
        """
        ...

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Append at exactly the physical end, durable on return.

        Raises:
            ChunkOffsetError: ``offset`` is not the physical end; nothing was written.
            ChunkNotFoundError: there is no such chunk.
            ChunkAccessDeniedError: the chunk was sealed.
            CapabilityError: the service cannot append.
            ValueError: no byte at all, or the chunk would exceed ``chunk_bytes_max`` or
                ``appends_max``.
        """
        ...

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the chunk's end.

        At the physical end that is 0; beyond it ``ChunkOffsetError``. An empty buffer is allowed.
        """
        ...

    def stat(self, name: str) -> ChunkStat:
        """Return the chunk of exactly this name. Raises ``ChunkNotFoundError``."""
        ...

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """Yield the chunks whose key starts with ``prefix`` and is above ``start_after``.

        Order is that of the keys' UTF-8 bytes. The prefix may end inside a part. Memory is constant
        in the count of chunks. A chunk created or deleted meanwhile may or may not be seen;
        all others are seen exactly once.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove the chunk durably. Raises ``ChunkNotFoundError`` when there is none."""
        ...

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """Make the new chunk ``target`` of the first ``length`` bytes of each ``(name, length)``.

        Needs the capability. Sources stay as they are. Raises ``ChunkExistsError`` like ``create``.
        """
        ...

    def seal(self, name: str) -> None:
        """Let the service refuse further writes. Idempotent. Needs the capability."""
        ...

    def used_space(self) -> int:
        """Bytes that this storage's own prefix holds. Needs the capability."""
        ...

    def free_space(self) -> int:
        """Bytes that may still be written here; ``UNLIMITED`` where the service sets no limit.

        Needs the capability. Cheap: it is asked again and again.
        """
        ...

    def close(self) -> None:
        """Free what this object made. Idempotent; every later call raises ``ClosedError``."""
        ...
