"""What a claim leaves to the writer."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.log_file_header import LogFileHeader
from siltstone.core.records.marker_slot import MarkerSlot
from siltstone.tier1.file.chain import FileRange
from siltstone.tier1.file.folder import OpenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedFolder:
    """What a claim leaves to the writer.

    Attributes:
        slot: the claim in the marker.
        marker_data: both slots as they were right after it.
        older: the frames of older epochs, oldest first.
        older_bytes: size of the files that hold them.
        dropped_tail: bytes after the newest of them that are no frame.
        file: the first file, open; its header is durable.
        header: of that file.
    """

    slot: MarkerSlot
    marker_data: bytearray
    older: tuple[FileRange, ...]
    older_bytes: int
    dropped_tail: int
    file: OpenFile
    header: LogFileHeader
