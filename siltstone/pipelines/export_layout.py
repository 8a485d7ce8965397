"""How an export lies in its folder: a folder for each segment, and in it a file for each range.

::

    segment=<name>/_export.json
    segment=<name>/<start, 20 digits>-<stop, 20 digits>.<ending>

The name of the segment is written as readers of partitioned tables expect it: as in a URL, except
that what is not ASCII stays as it is, for Spark takes every escape for a character. A file holds
the records that begin in ``[start, stop)``; files that are there are never changed, so a later
export writes what is missing and no more.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, unquote

from siltstone.core.errors import CapabilityError, SettingsError, StoreError
from siltstone.pipelines.export_place import Place, draft_of, names_in, publish

VERSION: Final = 1
HEAD_NAME: Final = "_export.json"
_FOLDER: Final = "segment="
_FOLDER_BYTES_MAX: Final = 255
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null there; pyarrow takes it so however it is escaped."""
_ASCII: Final = re.compile(r"[\x00-\x7f]+")
_RANGE: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.([a-z]+)")


class Form(StrEnum):
    """How the files of an export are written."""

    PARQUET = "parquet"
    FILES = "files"


class Records(StrEnum):
    """What the bytes of a segment are taken for."""

    LINES = "lines"
    EVENTS = "events"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHead:
    """What the folder of one segment says of itself.

    Attributes:
        store: uuid of the store.
        segment: name of the segment.
        segment_id: its id, which tells it from a later one of the same name.
        lineage: of its container, which is another one after a recovery with loss.
        form: how files are written.
        records: what the bytes were taken for.
        version: of this layout.
    """

    store: str
    segment: str
    segment_id: int
    lineage: str
    form: Form
    records: Records
    version: int = VERSION

    @property
    def ending(self) -> str:
        """The ending of the files."""
        return "parquet" if self.form is Form.PARQUET else "bin"


def folder_name(segment: str) -> str:
    """The folder of one segment. Raises ``CapabilityError`` when no folder can have its name."""
    if segment == _NULL:
        raise CapabilityError("readers of partitions take this name for null", segment=segment)
    name = _FOLDER + _ASCII.sub(lambda found: quote(found[0], safe=""), segment)
    if len(name.encode()) > _FOLDER_BYTES_MAX:
        raise CapabilityError("the name is too long for a folder of an export", segment=segment)
    return name


def range_name(head: ExportHead, start: int, stop: int) -> str:
    """Name of the file of one range."""
    return f"{start:020d}-{stop:020d}.{head.ending}"


def exported_ranges(folder: Place, head: ExportHead) -> list[tuple[int, int]]:
    """The ranges that the folder of a segment holds, in order."""
    found = []
    for name in names_in(folder):
        match = _RANGE.fullmatch(name)
        if match is not None and match[3] == head.ending:
            found.append((int(match[1]), int(match[2])))
    return sorted(found)


def write_head(folder: Place, head: ExportHead) -> None:
    """Say what a folder holds, or find that it says so.

    Raises:
        StoreError: it holds an export of something else, or in another form, or from before a
            recovery with loss.
        SettingsError: what it says cannot be read.
    """
    path = folder / HEAD_NAME
    if not path.exists():
        with draft_of(path) as draft:
            draft.write_text(json.dumps(asdict(head)), encoding="utf-8")
            publish(draft, path)
    found = read_head(folder)
    if found == head:
        return
    if replace(found, lineage=head.lineage) == head:
        what = "the store was recovered since this export was begun, and may have other bytes now"
        raise StoreError(f"{what}: export into another folder", folder=folder)
    raise StoreError("the folder holds another export", folder=folder, found=found, wanted=head)


def read_head(folder: Place) -> ExportHead:
    """What the folder of a segment says of itself. Raises ``SettingsError``."""
    path = folder / HEAD_NAME
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        value["form"] = Form(value["form"])
        value["records"] = Records(value["records"])
        head = ExportHead(**value)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{path} does not tell what the folder holds") from error
    if head.version != VERSION:
        raise SettingsError(f"{path} was written by another version: {head.version}, not {VERSION}")
    return head


def exported_segments(folder: Place) -> list[str]:
    """Names of the segments that a folder has exports of, in order."""
    return sorted(
        unquote(name.removeprefix(_FOLDER))
        for name in names_in(folder)
        if name.startswith(_FOLDER) and (folder / name / HEAD_NAME).exists()
    )
