"""Deletes a chunk while it is open, as may happen to a reader next to the sweep.

The guest runs it: FOLDER. The client keeps such a file under a name of its own until it is closed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage

PATIENCE_S = 60.0


def main(folder: Path) -> None:
    storage = NfsChunkStorage(folder)
    storage.create("d/a", [b"abc"])
    with (folder / "d" / "a").open("rb") as reading:
        storage.delete("d/a")
        left = os.listdir(folder / "d")
        assert len(left) == 1, left
        assert left[0].startswith(".nfs"), left
        assert list(storage.list()) == []
        assert storage.used_space() == 0
        assert reading.read() == b"abc"
        storage.create("d/a", [b"again"])
        assert [chunk.length for chunk in storage.list()] == [5]
    # The client removes what it kept some time after the file was closed.
    until = time.monotonic() + PATIENCE_S
    while os.listdir(folder / "d") != ["a"]:
        assert time.monotonic() < until, os.listdir(folder / "d")
        time.sleep(0.01)
    storage.delete("d/a")
    assert os.listdir(folder) == []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
