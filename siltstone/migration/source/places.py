"""Where a legacy layout lies: a folder, or a prefix of a binding's keys. Nothing here writes."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.storage.optional_verbs import PIECE_BYTES, piece_bytes

READ_BYTES: Final = 4 * MIB
"""Of a file, read by one request to a service at the other end of a network."""

OUR_PREFIXES: Final = ("data/", "system/", "import/")
"""What a store keeps next to an old layout when both share a root."""

_LITTER: Final = ".nfs"
"""What an NFS client leaves in place of a file that is removed while it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """One file of a place.

    Attributes:
        key: its path below the place, with ``/`` between parts.
        length: bytes.
        sealed: whether its owner may not write to it; ``None`` where the place does not tell.
        version: opaque; another one whenever its content may have changed, also while its length
            stayed.
        is_link: it is a link, of which nothing else is told; to a folder, if ``key`` ends with
            ``/``.
    """

    key: str
    length: int
    sealed: bool | None
    version: str
    is_link: bool = False


class LegacyPlace(Protocol):
    """Read access to all files of a layout."""

    @property
    def where(self) -> str:
        """The place, for messages."""
        ...

    @property
    def told_sealed(self) -> frozenset[str]:
        """Keys of which a person said that their files are sealed."""
        ...

    @property
    def piece_bytes(self) -> int:
        """How many bytes are best read at a time by code that moves them on."""
        ...

    def files(self) -> Iterator[PlacedFile]:
        """Yield every file, in any order. Raises ``OSError`` or ``ChunkError``."""
        ...

    def length_of(self, key: str) -> int:
        """Bytes that a file has now. Raises ``OSError`` or ``ChunkError``."""
        ...

    def read_into(self, key: str, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

        Raises:
            OSError, ChunkError: the file cannot be read.
        """
        ...


class FolderPlace:
    """A folder of this machine. Links are told and not followed; pipes and the like are nothing.

    Args:
        folder: all of the layout.
        sealed: keys of files that are sealed in addition to those whose modes say so, as a copy
            that keeps no modes has them.
    """

    def __init__(self, folder: Path, sealed: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self._sealed = sealed

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    @property
    def told_sealed(self) -> frozenset[str]:
        """See ``LegacyPlace.told_sealed``."""
        return self._sealed

    @property
    def piece_bytes(self) -> int:
        """See ``LegacyPlace.piece_bytes``."""
        return PIECE_BYTES

    def files(self) -> Iterator[PlacedFile]:
        """Walk the folder. Raises ``OSError`` for one that cannot be listed."""

        def fail(error: OSError) -> None:
            # A folder goes with its last file.
            if not isinstance(error, FileNotFoundError):
                raise error

        shared = (self._folder / "system" / "store").is_file()
        for folder, folders, names in os.walk(self._folder, onerror=fail):
            folders.sort()
            linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted((*names, *linked)):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except FileNotFoundError:
                    continue  # deleted since the folder was listed
                key = Path(path).relative_to(self._folder).as_posix()
                ours = shared and key.startswith(OUR_PREFIXES)
                if name.startswith(_LITTER) or ours:
                    continue
                if modes.S_ISLNK(status.st_mode):
                    key = f"{key}/" if name in linked else key
                    yield PlacedFile(key=key, length=0, sealed=None, version="", is_link=True)
                if not modes.S_ISREG(status.st_mode):
                    continue
                sealed = not status.st_mode & modes.S_IWUSR or key in self._sealed
                version = f"{status.st_mtime_ns}/{status.st_ctime_ns}"
                yield PlacedFile(key=key, length=status.st_size, sealed=sealed, version=version)

    def length_of(self, key: str) -> int:
        """See ``LegacyPlace.length_of``."""
        return os.lstat(self._folder / key).st_size

    def read_into(self, key: str, offset: int, buffer: memoryview) -> int:
        """See ``LegacyPlace.read_into``."""
        done = 0
        with (self._folder / key).open("rb", buffering=0) as file:
            file.seek(offset)
            while done < len(buffer):
                count = file.readinto(buffer[done:])
                if not count:
                    break
                done += count
        return done


class StoragePlace:
    """A prefix of the keys of a binding, such as of a bucket. It does not tell what is sealed.

    Args:
        storage: what reads; the code that made it closes it.
        prefix: of the keys; empty, or with ``/`` at its end.
        sealed: keys below the prefix that are sealed, and all others are not; ``None`` when it is
            not known.
    """

    def __init__(
        self, storage: ChunkStorage, prefix: str, sealed: frozenset[str] | None = None
    ) -> None:
        self._sealed = sealed
        self._storage = storage
        self._prefix = prefix

    @property
    def where(self) -> str:
        """The prefix."""
        return self._prefix or "long-term storage"

    @property
    def told_sealed(self) -> frozenset[str]:
        """See ``LegacyPlace.told_sealed``."""
        return self._sealed or frozenset()

    @property
    def piece_bytes(self) -> int:
        """See ``LegacyPlace.piece_bytes``."""
        return piece_bytes(self._storage, READ_BYTES)

    def files(self) -> Iterator[PlacedFile]:
        """List the prefix, without what a store has at its root. Raises ``ChunkError``."""
        for found in self._storage.list(self._prefix):
            if not self._prefix and found.name.startswith(OUR_PREFIXES):
                continue
            key = found.name.removeprefix(self._prefix)
            sealed = None if self._sealed is None else key in self._sealed
            yield PlacedFile(key=key, length=found.length, sealed=sealed, version=found.version)

    def length_of(self, key: str) -> int:
        """See ``LegacyPlace.length_of``."""
        return self._storage.stat(self._prefix + key).length

    def read_into(self, key: str, offset: int, buffer: memoryview) -> int:
        """See ``LegacyPlace.read_into``."""
        return self._storage.read_into(self._prefix + key, offset, buffer)
