"""The index of formats lists every page, and every page has an example that a test reads."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.docs.format_page import FORMATS

INDEX = "README.md"
PAGES = {path.name for path in FORMATS.glob("*.md")} - {INDEX}


def test_every_page_is_listed() -> None:
    text = (FORMATS / INDEX).read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", text)) == PAGES


def test_every_page_is_read_by_a_test() -> None:
    tests = Path(__file__).parent.glob("test_*.py")
    named = set(re.findall(r"\"([\w-]+\.md)\"", "".join(path.read_text("utf-8") for path in tests)))
    assert named >= PAGES


def test_every_page_has_an_example() -> None:
    without = [
        name
        for name in sorted(PAGES)
        if not re.search(r"^```hex", (FORMATS / name).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert without == []
