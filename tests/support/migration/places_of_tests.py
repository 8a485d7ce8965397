"""Places in memory, and copies of the golden layout with the modes that git does not keep."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siltstone.migration.legacy.findings import LegacyFinding
from siltstone.migration.source.places import LegacyPlace, PlacedFile
from tests.support.migration.rolling_model import ModelFile

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "rolling-0.5.0"


@dataclass
class MemoryPlace:
    """Files by key; ``None`` for sealed where the place does not tell."""

    held: Mapping[str, tuple[bytes, bool | None]]
    broken: frozenset[str] = frozenset()
    where: str = "memory"
    piece_bytes: int = 7
    told_sealed: frozenset[str] = frozenset()

    def files(self) -> Iterator[PlacedFile]:
        for key, (data, sealed) in self.held.items():
            yield PlacedFile(key=key, length=len(data), sealed=sealed, version="")

    def length_of(self, key: str) -> int:
        return len(self.held[key][0])

    def read_into(self, key: str, offset: int, buffer: memoryview) -> int:
        if key in self.broken:
            raise PermissionError(13, "Permission denied", key)
        some = self.held[key][0][offset : offset + len(buffer)]
        buffer[: len(some)] = some
        return len(some)


def of_texts(files: Mapping[str, str | bytes], *sealed: str) -> MemoryPlace:
    held = {
        key: (data.encode() if isinstance(data, str) else data, key in sealed)
        for key, data in files.items()
    }
    return MemoryPlace(held)


def of_model(files: Mapping[str, ModelFile]) -> MemoryPlace:
    return MemoryPlace({key: (bytes(one.data), one.sealed) for key, one in files.items()})


def bytes_of(place: LegacyPlace, finding: LegacyFinding) -> bytes:
    found = bytearray()
    for piece in finding.pieces:
        assert piece.start == finding.start + len(found)
        buffer = bytearray(piece.length)
        assert place.read_into(piece.key, 0, memoryview(buffer)) == piece.length
        found += buffer
    return bytes(found)


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "MANIFEST.json").read_text("utf-8"))
    return found


def golden_tree(folder: Path) -> Path:
    """Copy the golden layout to a new folder, with the modes of its manifest."""
    shutil.copytree(GOLDEN / "tree", folder)
    for file in manifest()["files"]:
        bits = "".join("0" if letter == "-" else "1" for letter in file["mode"])
        os.chmod(folder / file["path"], int(bits, 2))
    return folder
