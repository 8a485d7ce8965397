"""The objects of collections as a folder has them, for tests that look from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def objects(store: Path) -> dict[str, bytes]:
    """Every object below ``collections/`` of a store in a folder."""
    return {
        path.relative_to(store / "chunks").as_posix(): path.read_bytes()
        for path in _files(store)
    }  # fmt: skip


def paths(store: Path, kind: str, collection_id: str = "") -> list[Path]:
    """The objects of a kind (``entries``, ``rollups``, ``parts``), writable, in their order."""
    found = sorted(path for path in _files(store) if f"{collection_id}/{kind}/" in path.as_posix())
    for path in found:
        path.chmod(0o644)
    return found


def _files(store: Path) -> Iterator[Path]:
    return (path for path in (store / "chunks" / "collections").rglob("*") if path.is_file())
