"""Checkpoints of the local index on long-term storage: taken, uploaded, restored.

The files of an index never change once they are written, so a later checkpoint names large ones
that are there already, and uploads only the others. Small ones it uploads all: two checkpoints
share none of them, so no small file decides alone whether an index can be restored.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_names import index_file
from siltstone.core.constants import KIB
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkUnavailableError,
    CorruptDataError,
    Outcome,
    StoreError,
)
from siltstone.core.records.checkpoint import IndexFile
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.metadata.index import Index
from siltstone.metadata.position import Position

logger = logging.getLogger(__name__)

INDEX_POOL = Pool(name="index", threads=1)
"""Where file I/O of indexes runs."""

SORTED_FILE = ".sst"
"""Suffix of the files that are never written again once they are whole."""

SMALL_BYTES = 64 * KIB
"""Up to this many bytes a file is uploaded with each checkpoint. An index has a handful of them."""

UPLOAD_ATTEMPTS = 5
LINKS_MAX = 3
_NONCE_BYTES = 8

_CURRENT = "CURRENT"
"""The file that names the manifest. A checkpoint has one manifest alone, so that file is made."""
_MANIFEST = "MANIFEST-"
_CONFIG = "rocksdict-config.json"
_OPTIONS = "OPTIONS-"

FileSums = dict[tuple[str, int, int, int], int]
"""CRC32C of files that never change, by name, inode, length and time of their last change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedIndex:
    """An index checkpoint that is durable on long-term storage.

    Attributes:
        files: what to restore it from; empty for an empty index.
        position: the table version that the files hold, exactly; ``None`` for an empty index.
        uploaded_bytes: length of those that were not on long-term storage before.
    """

    files: tuple[IndexFile, ...]
    position: Position | None
    uploaded_bytes: int = 0


def take_index(index: Index, folder: Path) -> tuple[Position | None, tuple[Path, ...]]:
    """Copy ``index`` as it is into ``folder``; what was there goes. Blocking.

    Returns:
        The position of the copy and its files; ``None`` and no files for an empty index.

    Raises:
        CorruptDataError: the index is damaged.
    """
    shutil.rmtree(folder, ignore_errors=True)
    position = index.checkpoint(folder)
    return position, () if position is None else tuple(_needed(folder))


async def upload_index(
    index: Index,
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    epoch: int,
    known: Sequence[IndexFile],
    scratch: Path,
    sums: FileSums,
) -> UploadedIndex:
    """Take a checkpoint of ``index`` and make it durable. The index may be written meanwhile.

    Args:
        index: what to copy.
        storage: where to.
        environment: gives threads and randomness.
        container: index of the container.
        epoch: of the owner.
        known: files of earlier checkpoints that are durable and will not be deleted meanwhile;
            large ones are named again.
        scratch: folder of the local copy on the file system of the index; what is there goes,
            before and after.
        sums: of files that were read for an earlier checkpoint, so that the time one takes does not
            grow with the index; brought up to date here.

    Raises:
        ChunkError: long-term storage refused, or did not answer ``UPLOAD_ATTEMPTS`` times.
        CorruptDataError: the index is damaged.
    """
    async with _copied(index, scratch, environment) as (position, paths):
        if position is None:
            return UploadedIndex(files=(), position=None)
        durable = {(file.file_name, file.length, file.crc): file for file in known}
        files: list[IndexFile] = []
        seen: FileSums = {}
        uploaded = 0
        for path in paths:
            identity = await environment.run_blocking(INDEX_POOL, partial(_identity, path))
            file = durable.get((path.name, identity[2], sums.get(identity, -1)))
            if file is None or file.length <= SMALL_BYTES:
                data, crc = await environment.run_blocking(INDEX_POOL, partial(_read, path))
                file = durable.get((path.name, len(data), crc))
                if file is None:
                    uploaded += len(data)
                if file is None or file.length <= SMALL_BYTES:
                    name = await _upload(storage, environment, container, epoch, data, crc)
                    file = IndexFile(
                        file_name=path.name, chunk_name=name, length=len(data), crc=crc
                    )
            files.append(file)
            if path.suffix == SORTED_FILE:
                seen[identity] = file.crc
        sums.clear()
        sums.update(seen)
        return UploadedIndex(files=tuple(files), position=position, uploaded_bytes=uploaded)


@asynccontextmanager
async def _copied(
    index: Index, folder: Path, environment: Environment
) -> AsyncIterator[tuple[Position | None, tuple[Path, ...]]]:
    """What ``take_index`` gives, whose files are gone afterwards."""
    try:
        yield await environment.run_blocking(INDEX_POOL, partial(take_index, index, folder))
    finally:
        await run_whole(environment, INDEX_POOL, partial(shutil.rmtree, folder, True))


async def restore_index(
    files: Sequence[IndexFile],
    storage: AsyncChunkStorage,
    folder: Path,
    environment: Environment,
) -> None:
    """Download and verify the files of a checkpoint into ``folder``; what was there goes.

    What is the same in every index is made here. Nothing is synced: an index is a cache.

    Raises:
        CorruptDataError: a file is missing, has another length, or does not match its sum.
        ChunkError: long-term storage did not answer.
    """
    files = fetched(files)

    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    await run_whole(environment, INDEX_POOL, clear)
    for file in files:
        data = await _download(storage, file)
        await run_whole(environment, INDEX_POOL, partial(_keep, folder, file, data))
    await run_whole(environment, INDEX_POOL, partial(_point_at_manifest, folder))


def fetched(files: Iterable[IndexFile]) -> tuple[IndexFile, ...]:
    """The files of a checkpoint that a restore reads; the others it makes, or does without."""
    return tuple(file for file in without_options(files) if file.file_name != _CURRENT)


def without_options(files: Iterable[IndexFile]) -> tuple[IndexFile, ...]:
    """The files of a checkpoint, but for its options, which are in the code.

    Older versions uploaded these once for all checkpoints of an owner; nothing needs them.
    """
    return tuple(file for file in files if not _is_options(file.file_name))


def linked_index(owned: Path, folder: Path, open_index: Callable[[Path], Index]) -> Index | None:
    """Open a copy in ``folder`` of the index in ``owned``; ``None`` when there is none. Blocking.

    The owner may have it open, and merge its files just now: then the next try finds others.
    """
    for _ in range(LINKS_MAX):
        if not link_owned_index(owned, folder):
            return None
        try:
            return open_index(folder)
        except (CorruptDataError, StoreError) as error:
            logger.info("the index changed while it was linked: where=%s %s", owned, error)
    return None


def link_owned_index(owned: Path, folder: Path) -> bool:
    """Make a copy in ``folder`` of an index that its owner may have open, by hard links.

    The owner writes, merges and deletes files meanwhile, so the copy may lack some: whether it is
    whole, opening it tells. What was not written to a file yet is not in it.

    Returns:
        Whether there is a copy; if not, ``folder`` is missing.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        current = (owned / _CURRENT).read_bytes()
        manifest = current.decode("ascii").strip()
        # Before the files: it must not name one that came later.
        listed = (owned / manifest).read_bytes()
        folder.mkdir(parents=True)
        for path in owned.glob(f"*{SORTED_FILE}"):
            (folder / path.name).hardlink_to(path)
        (folder / manifest).write_bytes(listed)
        (folder / _CURRENT).write_bytes(current)
    except (OSError, ValueError):
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


async def _upload(
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    epoch: int,
    data: bytes,
    crc: int,
) -> str:
    """Create a chunk of ``data`` and return its name; whenever in doubt under a new name."""
    for attempt in range(1, UPLOAD_ATTEMPTS + 1):
        nonce = environment.random_bytes(_NONCE_BYTES).hex()
        name = index_file(container, epoch, crc, len(data), nonce)
        try:
            await storage.create(name, [data])
        except ChunkError as error:
            passing = isinstance(error, ChunkUnavailableError | ChunkExistsError)
            if attempt == UPLOAD_ATTEMPTS or not (passing or error.outcome is Outcome.UNKNOWN):
                raise
        else:
            return name
    raise AssertionError("the last attempt returns or raises")


async def _download(storage: AsyncChunkStorage, file: IndexFile) -> bytearray:
    """Read one file; what is damaged is found by its sum, which the caller compares."""
    try:
        return await storage.read_all(file.chunk_name, file.length)
    except (ChunkNotFoundError, ChunkOffsetError) as error:
        raise CorruptDataError("index file is gone", where=file.chunk_name) from error


def _keep(folder: Path, file: IndexFile, data: bytearray) -> None:
    name = file.file_name
    if Path(name).name != name or name in ("", "..") or "\0" in name:
        raise CorruptDataError("impossible name of an index file", where=file.chunk_name)
    if len(data) != file.length or crc32c(data) != file.crc:
        raise CorruptDataError(
            "index file is damaged",
            where=file.chunk_name,
            file=name,
            length=len(data),
            expected_length=file.length,
            crc=crc32c(data),
            expected_crc=file.crc,
        )
    (folder / name).write_bytes(data)


def _identity(path: Path) -> tuple[str, int, int, int]:
    stat = path.stat()
    return path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _read(path: Path) -> tuple[bytes, int]:
    data = path.read_bytes()
    return data, crc32c(data)


def _is_options(name: str) -> bool:
    return name == _CONFIG or name.startswith(_OPTIONS)


def _point_at_manifest(folder: Path) -> None:
    """Make the file that names the manifest; without one, or with several, the open tells."""
    manifests = [path.name for path in folder.iterdir() if path.name.startswith(_MANIFEST)]
    if len(manifests) == 1:
        (folder / _CURRENT).write_text(f"{manifests[0]}\n", encoding="ascii")


def _needed(folder: Path) -> list[Path]:
    """Files that make up a checkpoint. The write-ahead log is off, so it is empty and not one.

    The options are not either; ``CURRENT`` is uploaded for older versions, which do not make it.
    """
    paths = [
        path
        for path in sorted(folder.iterdir())
        if path.stat().st_size > 0 and not _is_options(path.name)
    ]
    assert not any(path.suffix == ".log" for path in paths), "the index wrote a write-ahead log"
    return paths
