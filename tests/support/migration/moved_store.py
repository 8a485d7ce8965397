"""A store that is moved."""

from __future__ import annotations

from pathlib import Path


def moved_settings(folder: Path, name: str, chunks: Path) -> Path:
    chunks.mkdir(exist_ok=True)
    text = (folder / "siltstone.yaml").read_text(encoding="utf-8")
    found = folder / name
    found.write_text(text.replace("path: ./chunks", f"path: {chunks}"), encoding="utf-8")
    return found
