"""What a person may set for the log ``file``."""

from __future__ import annotations

from pydantic import BaseModel, ByteSize, ConfigDict, Field

from siltstone.core.constants import GIB, KIB, MIB


class FileLogSettings(BaseModel):
    """Settings of the log ``file``.

    Attributes:
        path: the folder below which every container has a folder of its own, on a local disk;
            ``~`` is the home folder.
        file_bytes: largest size of a file, such as ``64MiB``. Files begin small and take about ten
            seconds of what is appended; room is freed in steps of a file, and one is kept in
            reserve. On ext4 and XFS up to four lie ready. No frame is larger than this less 4 KiB.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1)
    file_bytes: ByteSize = Field(default=ByteSize(64 * MIB), ge=16 * KIB, le=GIB)
