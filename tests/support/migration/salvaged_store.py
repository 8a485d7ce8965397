"""A store to be salvaged."""

from __future__ import annotations

from pathlib import Path

import siltstone

SMALL_LOG = ("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB")


def made(folder: Path) -> Path:
    settings = siltstone.init(folder)
    settings.write_text(settings.read_text(encoding="utf-8").replace(*SMALL_LOG))
    return folder


def chunks(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in (folder / "chunks").rglob(pattern) if path.is_file())
