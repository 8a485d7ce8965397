"""Which files or objects become which segments, in which order. Looks, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.core.chunk_arguments import is_chunk_name
from siltstone.core.chunk_names import is_ours
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import GIB
from siltstone.core.errors import StoreError
from siltstone.core.storage.optional_verbs import Addresses, list_every
from siltstone.migration.files.file_errors import naming
from siltstone.migration.files.name_rule import check_rule, segment_for
from siltstone.pipelines.import_sessions import session_name
from siltstone.segments.simplified_layout import SIMPLIFIED, is_simplified

SEGMENTS_MAX: Final = 1_000
FILES_MAX: Final = 10_000
COPIED_BYTES_MAX: Final = GIB
"""What one session brings, and the most a killed import repeats, except for one segment."""
_FILE: Final = "file://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or object.

    Attributes:
        path: of the file as a person knows it; the key of an object.
        length: bytes.
        version: what changes when the content may have changed.
        key: where long-term storage has it; ``None`` for what is copied.
    """

    path: str
    length: int
    version: str
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFileSegment:
    """A segment that is to be made of some sources, in this order."""

    name: str
    sources: tuple[Source, ...]

    @property
    def length(self) -> int:
        """Bytes of all sources."""
        return sum(source.length for source in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Segments of one container that appear together.

    Attributes:
        segments: at most 1,000.
        session: name of the session; the same for the same sources and choices.
    """

    segments: tuple[PlannedFileSegment, ...]
    session: str


def plan_files(
    rule: str, paths: Sequence[Path | str], *, root: Path | None = None
) -> list[PlannedFileSegment]:
    """Plan files in the given order, those of a folder in that of the bytes of their paths.

    Args:
        rule: gives the names, see ``name_rule``. The path of a file that is given is its last part,
            that of one in a folder that is given is what comes below it.
        paths: files and folders.
        root: of long-term storage, for files that are taken in place.

    Raises:
        OSError: one cannot be looked at; it is named.
        StoreError: something is no regular file, does not lie where it must, or is of the layout
            that Pravega has had since 0.9.
        SegmentNameError: no segment can have the name that the rule gives.
        ValueError: the rule seems to misspell a field.
    """
    return _by_segment(rule, _walked(paths, root))


def plan_objects(
    rule: str, storage: ChunkStorage, prefixes: Sequence[str]
) -> list[PlannedFileSegment]:
    """Plan objects whose keys begin with prefixes, in the order of their keys.

    What lies where the store makes chunks of its own is left out, and so are the empty objects
    that stand for folders, whose keys end with ``/``. The path of an object is what comes after the
    last ``/`` of its prefix.

    Raises:
        StoreError: there is none of a prefix, or one has a key that no chunk can have, or is of the
            layout that Pravega has had since 0.9.
        ChunkError: long-term storage did not answer.
    """
    return _by_segment(rule, _listed(storage, prefixes))


def version_of(status: os.stat_result) -> str:
    """What changes when the content of a file may have changed.

    A program may set the time of the last change of the bytes back, but not that of the inode.
    """
    times = f"{status.st_mtime_ns}-{status.st_ctime_ns}"
    return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{times}"


def local_root(storage: ChunkStorage) -> Path | None:
    """The folder that long-term storage lies in, if this machine has it as one."""
    uri = storage.uri_of("x") if isinstance(storage, Addresses) else None
    if uri is None or not uri.startswith(_FILE):
        return None
    return Path(uri.removeprefix(_FILE)).parent


def grouped(
    segments: Iterable[PlannedFileSegment], container_of: Callable[[str], int], choices: str
) -> Iterator[Group]:
    """Put together what one session brings.

    Args:
        segments: in order.
        container_of: index of the container of a segment.
        choices: what else tells this import from another one.
    """
    held: dict[int, list[PlannedFileSegment]] = {}
    for segment in segments:
        index = container_of(segment.name)
        group = held.setdefault(index, [])
        if group and not _fits(group, segment):
            yield _group(group, choices)
            group = held[index] = []
        group.append(segment)
    for index in sorted(held):
        yield _group(held[index], choices)


def _fits(group: Sequence[PlannedFileSegment], more: PlannedFileSegment) -> bool:
    files = sum(len(each.sources) for each in group) + len(more.sources)
    copied = sum(s.length for each in (*group, more) for s in each.sources if s.key is None)
    return len(group) < SEGMENTS_MAX and files <= FILES_MAX and copied <= COPIED_BYTES_MAX


def _group(segments: Sequence[PlannedFileSegment], choices: str) -> Group:
    facts = (
        (segment.name, [(one.path, one.length, one.version) for one in segment.sources])
        for segment in segments
    )
    return Group(segments=tuple(segments), session=session_name("files", (choices, *facts)))


def _by_segment(rule: str, found: Iterable[tuple[str, Source]]) -> list[PlannedFileSegment]:
    check_rule(rule)
    segments: dict[str, list[Source]] = {}
    for path, source in found:
        # By the whole path: the name of a journal says nothing without the folders above.
        if is_simplified(source.path):
            raise StoreError(f"a file is no segment: {SIMPLIFIED}", file=source.path)
        segments.setdefault(segment_for(rule, path), []).append(source)
    return [PlannedFileSegment(name=name, sources=tuple(some)) for name, some in segments.items()]


def _walked(paths: Sequence[Path | str], root: Path | None) -> Iterator[tuple[str, Source]]:
    real_root = None if root is None else Path(os.path.realpath(root))
    for given in map(Path, paths):
        if not given.is_dir():
            yield given.name, _source(given, real_root)
            continue
        for path in _files_below(given):
            yield path.relative_to(given).as_posix(), _source(path, real_root)


def _files_below(folder: Path) -> list[Path]:
    found: list[Path] = []

    def fail(error: OSError) -> None:
        raise error

    for above, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        found += (Path(above, name) for name in names)
        for linked in (Path(above, name) for name in folders):
            _check_no_circle(linked)
    return sorted(found, key=lambda path: os.fsencode(path.relative_to(folder).as_posix()))


def _check_no_circle(folder: Path) -> None:
    """Raise ``StoreError`` if a folder is a link to one that it lies in."""
    if folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve()):
        raise StoreError(
            "a link leads to a folder that it lies in: remove it, or name the files one by one",
            file=str(folder),
            target=str(folder.resolve()),
        )


def _source(path: Path, root: Path | None) -> Source:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise StoreError("not a regular file", file=str(path))
    if not status.st_size:
        _check_empty(path)
    key = None if root is None else _key(path, root)
    return Source(
        path=str(path.absolute()), length=status.st_size, version=version_of(status), key=key
    )


def _check_empty(path: Path) -> None:
    """Raise ``StoreError`` if a file that says 0 bytes has some, as those of ``/proc`` do."""
    with naming(str(path)), path.open("rb", buffering=0) as file:
        if file.read(1):
            raise StoreError(
                "the file says that it has 0 bytes, and has some: append it as a stream",
                file=str(path),
            )


def _key(path: Path, root: Path) -> str:
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise StoreError(
            "a file in place lies below the folder of long-term storage, and this one does not",
            file=str(path),
            folder=str(root),
        )
    key = real.relative_to(root).as_posix()
    if is_ours(key):
        raise StoreError("the file belongs to the store itself", file=str(path))
    return key


def _listed(storage: ChunkStorage, prefixes: Sequence[str]) -> Iterator[tuple[str, Source]]:
    for prefix in prefixes:
        above = prefix[: prefix.rfind("/") + 1]
        count = 0
        for found in list_every(storage, prefix):
            if is_ours(found.name):
                continue
            if not is_chunk_name(found.name):
                if found.name.endswith("/") and not found.length:
                    continue  # It stands for a folder, and has no bytes.
                raise StoreError(
                    "no chunk can have this key, as a part of it is empty, '.' or '..', or it is"
                    " too long: give the object another one, or name prefixes that leave it out",
                    key=found.name,
                )
            count += 1
            source = Source(
                path=found.name, length=found.length, version=found.version, key=found.name
            )
            yield found.name.removeprefix(above), source
        if not count:
            raise StoreError("long-term storage has no object of this prefix", prefix=prefix)
