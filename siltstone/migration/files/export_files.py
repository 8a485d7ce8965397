"""Segments as plain files again: verified, durable, and whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EEXIST, ENOTDIR
from pathlib import Path
from typing import Final

from siltstone.container.reads.same_segment import same_segment
from siltstone.core.errors import OffsetError, SegmentNameError, SegmentNotFoundError
from siltstone.core.posix import SystemFileCalls, make_folder
from siltstone.core.storage.durable_writes import OUT_BYTES, write_stream_durably
from siltstone.migration.files.file_errors import naming
from siltstone.migration.files.name_rule import PATH, check_path, check_way_back, path_for
from siltstone.pipelines.folder_files import draft_of, is_left, publish, publish_over
from siltstone.store.blocking.segment import Segment
from siltstone.store.store import Store

READ_BYTES: Final = OUT_BYTES
"""Bytes that were read go to the disk while the next ones are read and compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file that is to be written.

    Attributes:
        segment: its name.
        start: first offset.
        end: offset after the last byte.
        target: the file.
        segment_id: of the segment that had the name when it was planned.
        overwrite: whether a file that is there is replaced.
    """

    segment: str
    start: int
    end: int
    target: Path
    segment_id: int
    overwrite: bool = False

    @property
    def length(self) -> int:
        """Bytes of the file."""
        return self.end - self.start


def plan_export(
    store: Store,
    segments: Sequence[str],
    target: Path,
    *,
    overwrite: bool = False,
    start: int | None = None,
    end: int | None = None,
) -> list[PlannedFile]:
    """Plan files for segments; changes nothing.

    Args:
        store: open, read-only will do.
        segments: one name, for the file ``target``, unless that is a folder; or several, or rules
            with ``{path}``, for files below the folder ``target``, each where its name or the rule
            says.
        target: a file or folder.
        overwrite: files that are there may be replaced.
        start: first offset, of one segment; ``None``: the first readable one.
        end: offset after the last byte, of one segment; ``None``: the acknowledged end.

    Raises:
        SegmentNotFoundError: there is none, or none that a rule fits.
        SegmentNameError: no file below a folder can be called so, or one would be the folder of
            another.
        OffsetError: the range does not lie in the segment.
        FileExistsError: a file is there.
        ValueError: a range of several segments, or a rule with no way back.
    """
    places = _places(store, segments, target)
    if (start, end) != (None, None) and len(places) != 1:
        raise ValueError("a range is of one segment")
    planned = [
        replace(_planned(store, name, place, start, end), overwrite=overwrite)
        for name, place in places
    ]
    _check_folders(planned)
    for number, file in enumerate(planned):
        if file.target.is_dir():
            raise _exists(file.target)
        if not overwrite and file.target.exists():
            if not is_left(file.target):
                raise _exists(file.target)
            # A call that was killed had just made it, and this one does so again.
            planned[number] = replace(file, overwrite=True)
    return planned


def _check_folders(planned: Sequence[PlannedFile]) -> None:
    """Raise ``SegmentNameError`` if two segments would be one file, or one the other's folder."""
    files: dict[Path, str] = {}
    for file in planned:
        if file.target in files:
            raise SegmentNameError(
                "two segments would be one file: export one of them elsewhere",
                segment=files[file.target],
                other=file.segment,
                file=str(file.target),
            )
        files[file.target] = file.segment
    for file in planned:
        above = next((folder for folder in file.target.parents if folder in files), None)
        if above is not None:
            raise SegmentNameError(
                "a file cannot be the folder of another one: export one of the two elsewhere",
                segment=files[above],
                other=file.segment,
            )
        folder = next((each for each in file.target.parents if each.exists()), None)
        if folder is not None and not folder.is_dir():
            raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder))


def export_files(
    store: Store, planned: Sequence[PlannedFile], progress: Callable[[int], None] = lambda _: None
) -> Iterator[PlannedFile]:
    """Write files, and yield each once it is there, durably.

    Every block is verified; a segment that cannot be verified leaves no file. Memory is constant.

    Args:
        store: the same as when it was planned.
        planned: of ``plan_export``; a file that was planned without ``overwrite`` and has appeared
            meanwhile stays as it is.
        progress: called with the bytes of each step.

    Raises:
        CorruptDataError, LostDataError: bytes of a segment are damaged or gone.
        SegmentTruncatedError: they were truncated meanwhile.
        SegmentNotFoundError: the segment was deleted meanwhile, whether or not its name is used
            again.
        FileExistsError: a file appeared meanwhile.
        OSError: a file cannot be written.
    """
    for file in planned:
        make_folder(SystemFileCalls(), str(file.target.absolute().parent))
        replaces = file.overwrite and file.target.exists()
        with draft_of(file.target) as draft:
            _write(store.segment(file.segment), file, draft, progress)
            if replaces:
                publish_over(draft, file.target)
            elif not publish(draft, file.target):
                raise _exists(file.target)
        yield file


def _write(
    segment: Segment, file: PlannedFile, draft: Path, progress: Callable[[int], None]
) -> None:
    pieces = _pieces(segment, file, progress)
    with naming(str(file.target)), draft.open("wb", buffering=0) as stream:
        write_stream_durably(SystemFileCalls(), stream.fileno(), pieces, 0)
        same_segment(file.segment_id, segment.info())
        os.fsync(stream.fileno())


def _pieces(
    segment: Segment, file: PlannedFile, progress: Callable[[int], None]
) -> Iterator[memoryview]:
    room = memoryview(bytearray(min(READ_BYTES, max(file.length, 1))))
    position = file.start
    while position < file.end:
        view = room[: min(len(room), file.end - position)]
        count = segment.read_into(position, view)
        assert count, "what is below the acknowledged end can be read"
        yield view[:count]
        position += count
        progress(count)


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(EEXIST, os.strerror(EEXIST), str(target))


def _places(store: Store, segments: Sequence[str], target: Path) -> list[tuple[str, Path]]:
    if len(segments) == 1 and PATH not in segments[0]:
        name = segments[0]
        return [(name, target / check_path(name, name) if target.is_dir() else target)]
    found: dict[str, Path] = {}
    for text in segments:
        if PATH not in text:
            found[text] = target / check_path(text, text)
            continue
        check_way_back(text)
        fitting = [
            (info.name, path)
            for info in store.list(text.partition(PATH)[0])
            if (path := path_for(text, info.name)) is not None
        ]
        if not fitting:
            raise SegmentNotFoundError("there is no segment that the rule fits", segment=text)
        found.update((name, target / check_path(name, path)) for name, path in fitting)
    return list(found.items())


def _planned(
    store: Store, name: str, target: Path, start: int | None, end: int | None
) -> PlannedFile:
    info = store.segment(name).info()
    begin = info.start_offset if start is None else start
    stop = info.length if end is None else end
    if not info.start_offset <= begin <= stop <= info.length:
        raise OffsetError(
            "the range does not lie in what is readable",
            segment=name,
            expected=info.length,
            actual=stop if begin >= info.start_offset else begin,
        )
    return PlannedFile(
        segment=name, start=begin, end=stop, target=target, segment_id=info.segment_id
    )
