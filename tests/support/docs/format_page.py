"""The worked examples of the pages in ``docs/formats``, as bytes."""

from __future__ import annotations

import re
from pathlib import Path

FORMATS = Path(__file__).resolve().parents[3] / "docs" / "formats"


def example(page: str) -> bytes:
    """Return the bytes of the one ``hex`` block of a page; ``#`` begins a comment."""
    text = (FORMATS / page).read_text(encoding="utf-8")
    (block,) = re.findall(r"```hex\n(.*?)```", text, re.DOTALL)
    return bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
