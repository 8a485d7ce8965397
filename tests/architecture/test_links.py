"""What the documents point at is there: files, headings, and paths of this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source_tree import ROOT, tracked_files

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
OUR_PATH = re.compile(r"(siltstone|tests|services|docs|bench|examples)(/[\w.-]+)+/?")
"""A path from the root of the repository, without wild cards or places to fill in."""

SHORT_PATHS_IN = ("docs/decisions/", "docs/internals/", "ARCHITECTURE.md")
"""Documents that name files by their paths below ``siltstone/`` or ``tests/``."""
PYTHON_FILE = re.compile(r"[\w.-]+(/[\w.-]+)*\.py")


def documents() -> Iterator[tuple[Path, str]]:
    """Yield every document that git keeps, without its code blocks."""
    for path in tracked_files():
        if path.suffix == ".md":
            yield path, CODE_BLOCK.sub("", path.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """Return the anchors that a forge gives to the headings of a document."""
    made = set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        made.add(plain.strip().replace(" ", "-"))
    return made


def test_links_lead_somewhere() -> None:
    dead = []
    for path, text in documents():
        for target in LINK.findall(CODE_SPAN.sub("", text)):
            if SCHEME.match(target):
                continue
            name, _, anchor = target.partition("#")
            found = (path.parent / name).resolve() if name else path
            if not found.is_relative_to(ROOT) or not found.exists():
                dead.append(f"{path.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
                dead.append(f"{path.relative_to(ROOT)}: no such heading: {target}")
    assert dead == []


def test_paths_in_documents_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in documents()
        for name in CODE_SPAN.findall(text)
        if OUR_PATH.fullmatch(name) and not (ROOT / name).exists()
    ]
    assert missing == []


def test_short_paths_in_documents_exist() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in documents()
        if path.relative_to(ROOT).as_posix().startswith(SHORT_PATHS_IN)
        for name in CODE_SPAN.findall(text)
        if PYTHON_FILE.fullmatch(name)
        and not any((ROOT / folder / name).exists() for folder in ("", "siltstone", "tests"))
    ]
    assert missing == []


def test_every_document_can_be_reached() -> None:
    """From README.md, link by link, as a reader would go."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or not path.is_file():
            continue
        reached.add(path)
        if path.suffix == ".md":
            text = CODE_BLOCK.sub("", path.read_text(encoding="utf-8"))
            links = [target.partition("#")[0] for target in LINK.findall(text)]
            waiting += [(path.parent / name).resolve() for name in links if name]
    lonely = {path for path, _ in documents()} - reached
    assert {path.relative_to(ROOT).as_posix() for path in lonely} == set()


def test_the_site_leads_to_every_document() -> None:
    """Those that an index page lists one by one are reached from it."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    paths = [path.relative_to(ROOT).as_posix() for path, _ in documents()]
    indexed = re.compile(r"(docs/(decisions|formats)|tests|services)/(?!README)")
    assert [path for path in paths if not indexed.match(path) and f": {path}\n" not in listed] == []
