"""Blocks of code of the pages under docs, and how they are run in a folder of a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.architecture.source_tree import ROOT

PLACES = ("/data", "/mnt", "/var/log", "/tmp")
PLACE = re.compile(rf'(?:^|(?<="))({"|".join(PLACES)})(?=/)')


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language, in order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def moved(text: str, here: Path) -> str:
    """The same, with places of a machine in the folder ``here``."""
    return PLACE.sub(rf"{here}\1", text)


def follow(here: Path, page: str, **names: object) -> dict[str, Any]:
    """Run the Python of a page as one program, with names that it takes for given."""
    for code in blocks(page, "python"):
        exec(compile(moved(code, here), page, "exec"), names)
    return names
