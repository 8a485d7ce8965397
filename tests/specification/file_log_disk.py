"""What syncs and power cuts make of marker and files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.specification.file_log_state import (
    DIRTY,
    DURABLE,
    LOST,
    NONE,
    TORN,
    File,
    Marker,
    Reader,
)


def synced(marker: Marker) -> Marker:
    """The marker when what was written to it is durable."""
    disk = [
        marker.shown[slot] if marker.dirty >> slot & 1 else marker.disk[slot] for slot in (0, 1)
    ]
    return marker._replace(disk=(disk[0], disk[1]), dirty=0)


def slot_after_cut(marker: Marker, slot: int) -> tuple[int, ...]:
    """What a slot may hold after a power cut."""
    if not marker.dirty >> slot & 1:
        return (marker.disk[slot],)
    return (marker.disk[slot], marker.shown[slot], TORN)


def file_after_cut(file: File) -> list[File]:
    """What may be left of a file after a power cut."""
    if file.name == NONE:
        return [file]
    headers = [NONE, DURABLE] if file.header == DIRTY else [DURABLE * (file.header == DURABLE)]
    frames = [[NONE, DURABLE] if s == DIRTY else [DURABLE * (s == DURABLE)] for s in file.frames]
    found = [File()] if file.name == DIRTY else []
    for header in headers:
        for kept in product(*frames):
            if header:
                kept_file = file._replace(name=DURABLE, header=header, frames=kept, failed=False)
                found.append(kept_file)
            else:
                found.append(File(name=DURABLE, frames=kept))
    return found


def is_dirty(file: File) -> bool:
    """Whether a sync has anything to do."""
    return DIRTY in file.frames or file.header == DIRTY


def settled(file: File, status: int) -> File:
    """The file when what was dirty of it is so."""
    header = status if file.header == DIRTY else file.header
    frames = tuple(status if s == DIRTY else s for s in file.frames)
    return file._replace(header=header, frames=frames)


def is_sure(file: File, reader: Reader, *, on_disk_only: bool) -> bool:
    """Whether the newest frame, or a header without frames, is where the reader looks."""
    place = reader.known[-1] - 4 * reader.epoch
    if place >= 0:
        status = file.frames[place] if place < len(file.frames) else NONE
    else:
        status = file.header
    return status == DURABLE if on_disk_only else status != NONE


def evicted(file: File) -> File:
    """The file when the page cache drops what only it has."""
    frames = tuple(NONE if status == LOST else status for status in file.frames)
    if file.header == LOST:
        return File(name=file.name, frames=frames, failed=file.failed)
    return file._replace(frames=frames)


def with_file(files: tuple[File, ...], epoch: int, file: File) -> tuple[File, ...]:
    """The files with another one for this epoch."""
    return (*files[: epoch - 1], file, *files[epoch:])


def evictions(files: tuple[File, ...]) -> Iterator[tuple[int, tuple[File, ...]]]:
    """For each epoch whose file the page cache may drop something of: it, and the files then."""
    for epoch, file in enumerate(files, 1):
        dropped = evicted(file)
        if dropped != file:
            yield epoch, with_file(files, epoch, dropped)
