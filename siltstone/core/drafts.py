"""Drafts: where a file system keeps the bytes of a chunk until it can be seen as a whole.

They are in one folder of the root, so to look for those that are left takes one listing. The name
of a draft tells for which chunk it was made, as far as it fits, and no two have the same.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import quote

DRAFTS: Final = ".siltstone-drafts"
"""The folder, in the root. No chunk's name begins with it."""

_DRAFT: Final = re.compile(r"[0-9a-f]{16}-([A-Za-z0-9._~%-]*)", re.ASCII)
_TOLD_BYTES_MAX: Final = 120
"""Of the chunk's name: a part of a path has 255 bytes at most, and on some file systems 143."""


def draft_name(name: str) -> str:
    """Return a new name, in the folder of drafts, for the bytes of the chunk ``name``."""
    return f"{os.urandom(8).hex()}-{quote(name, safe='')[:_TOLD_BYTES_MAX]}"


def is_draft_below(draft: str, prefix: str) -> bool:
    """Whether a file in the folder of drafts was made for a chunk whose name begins so.

    Never of a longer prefix than the file's name tells, nor of what is no draft.
    """
    found = _DRAFT.fullmatch(draft)
    return found is not None and found[1].startswith(quote(prefix, safe=""))


def is_reserved(name: str) -> bool:
    """Whether a name is that of the folder of drafts, or lies in it."""
    return name.startswith(DRAFTS) and name.partition("/")[0] == DRAFTS
