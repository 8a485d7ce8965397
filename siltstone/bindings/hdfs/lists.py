"""The ordered listing of a folder tree.

The NameNode's order within a folder is not that of keys: it compares bytes with a sign, and a
folder sorts as its name with a slash after it. In memory are the names of one folder a level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.bindings.hdfs.errors import translated
from siltstone.bindings.hdfs.service import Service
from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.drafts import DRAFTS

if TYPE_CHECKING:
    from hdfs_native import FileStatus


@dataclass(frozen=True, slots=True)
class _Range:
    """Which keys are wanted: those that start with ``prefix`` and are above ``start_after``."""

    prefix: bytes
    start_after: bytes

    def has(self, key: bytes) -> bool:
        return key.startswith(self.prefix) and key > self.start_after

    def may_have_below(self, folder: bytes) -> bool:
        fits = folder.startswith(self.prefix) or self.prefix.startswith(folder)
        return fits and (folder > self.start_after or self.start_after.startswith(folder))


def chunk_stat(name: str, status: FileStatus) -> ChunkStat:
    """What the NameNode says of one file."""
    return ChunkStat(
        name=name,
        length=status.length,
        version=f"{status.modification_time:x}-{status.length:x}",
        modified_s=status.modification_time / 1000,
    )


def list_chunks(service: Service, prefix: str, start_after: str) -> Iterator[ChunkStat]:
    """Yield the chunks below ``prefix`` and after ``start_after``, in the order of their bytes."""
    base = prefix[: prefix.rfind("/") + 1]
    if any(part in ("", ".", "..") or "\0" in part for part in base.split("/")[:-1]):
        return  # No key has such a part.
    wanted = _Range(prefix.encode(), start_after.encode())
    levels = [_folder(service, base, wanted, prefix)]
    while levels:
        name, status = next(levels[-1], (None, None))
        if name is None:
            levels.pop()
        elif status is None:
            levels.append(_folder(service, name, wanted, prefix))
        else:
            service.check_open()
            yield chunk_stat(name, status)
            service.check_open()


def _folder(
    service: Service, base: str, wanted: _Range, prefix: str
) -> Iterator[tuple[str, FileStatus | None]]:
    """What one folder holds, in order: chunks, and folders with a slash and without a status."""
    deadline = service.deadline(0)
    listed = service.run(
        lambda _: _listed(service, service.folder + base, prefix), deadline, prefix, "list"
    )
    found: list[tuple[bytes, str, FileStatus | None]] = []
    for status in listed:
        name = base + status.path.rpartition("/")[2]
        key = name.encode()
        if name == DRAFTS or len(service.folder.encode()) + len(key) > CHUNK_NAME_BYTES_MAX:
            continue
        if status.isdir:
            if wanted.may_have_below(key + b"/"):
                found.append((key + b"/", f"{name}/", None))
        elif wanted.has(key):
            found.append((key, name, status))
    found.sort(key=lambda entry: entry[0])
    return iter([(name, status) for _, name, status in found])


def _listed(service: Service, path: str, prefix: str) -> list[FileStatus]:
    """All entries of a folder; none of one that is not there, or that is a file."""
    path = path.rstrip("/")
    with translated(prefix, "list"):
        try:
            listed = list(service.client.list_status(path, False))
        except FileNotFoundError:
            return []
    return [status for status in listed if status.path != path]
