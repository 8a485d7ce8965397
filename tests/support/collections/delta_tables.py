"""Tables of Delta that ``deltalake`` does not write: their logs are written here, by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def committed(table: Path) -> list[dict[str, Any]]:
    """The actions of all commits of a table, in order."""
    files = sorted((table / "_delta_log").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def commit(table: Path, actions: Sequence[dict[str, Any]]) -> None:
    """Add a commit to the log of a table."""
    version = len(list((table / "_delta_log").glob("*.json")))
    lines = [json.dumps(action) for action in ({"commitInfo": {"timestamp": version}}, *actions)]
    (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines))


def protocol(*features: str) -> dict[str, Any]:
    """The action after which readers need to know ``features``."""
    names = list(features)
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": names, "writerFeatures": names}}


def without_rows(added: dict[str, Any], rows: Sequence[int]) -> list[dict[str, Any]]:
    """The actions that take rows out of a file by a deletion vector.

    Args:
        added: the action that added the file, of fewer than 65,536 rows.
        rows: which ones, in ascending order, from 0 on.
    """
    gone = {key: added[key] for key in ("path", "partitionValues", "size")}
    removed = {**gone, "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}
    return [{"remove": removed}, {"add": {**added, "deletionVector": _deletion_vector(rows)}}]


def renamed_by_mapping(table: Path, column: str, name: str) -> None:
    """Give a column of the first commit another name, as a table of readers of version 2 does."""
    log = table / "_delta_log" / f"{0:020d}.json"
    actions = committed(table)
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for index, field in enumerate(schema["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": index,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = name if field["name"] == column else field["name"]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": str(len(schema["fields"])),
            }
    log.write_text("\n".join(map(json.dumps, actions)))


def written_again(table: Path) -> None:
    """Let the first commit of a table say how long its files are now."""
    actions = committed(table)
    for action in actions:
        if "add" in action:
            del action["add"]["stats"]
            action["add"]["size"] = (table / action["add"]["path"]).stat().st_size
    (table / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def _deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """Inline: a 64-bit bitmap of one 32-bit Roaring bitmap, which has one container of an array."""
    array = struct.pack(f"<{len(rows)}H", *rows)
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + array
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    size = len(data)
    text = _z85(data + bytes(-size % 4))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": size,
        "cardinality": len(rows),
    }


def _z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits = [number // 85**power % 85 for power in range(4, -1, -1)]
        text += "".join(_Z85[digit] for digit in digits)
    return text
