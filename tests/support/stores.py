"""Making stores, and damaging what they hold, for the tests of jobs."""

from __future__ import annotations

from pathlib import Path

import siltstone

CHUNK_BYTES = 4096


def make_store(
    folder: Path, *, chunk_bytes: int = CHUNK_BYTES, containers: int = 2, more: str = ""
) -> Path:
    """Make a store whose garbage goes at once; return its folder."""
    settings = siltstone.init(folder, containers=containers)
    text = settings.read_text(encoding="utf-8")
    text = text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 4MiB")
    text += f"\nsegments:\n  chunk_size: {chunk_bytes}\nflush:\n  age: 1h\n"
    text += f"garbage:\n  delay: 0s\n{more}"
    settings.write_text(text, encoding="utf-8")
    return folder


def chunk_path(folder: Path, name: str) -> Path:
    """The file of a chunk, writable."""
    path = folder / "chunks" / name
    path.chmod(0o644)
    return path


def flip(path: Path, offset: int) -> None:
    """Damage one byte of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)
        file.seek(offset)
        file.write(bytes((old[0] ^ 0x40,)))
