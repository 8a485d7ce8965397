"""Whether the kernel can tell what it holds in memory."""

from __future__ import annotations

import os
from pathlib import Path


def can_tell(folder: Path) -> bool:
    """Whether the file system of a folder says what it has in memory."""
    path = folder / "probe"
    path.write_bytes(b"x")
    with path.open("rb") as file:
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
