"""docs/errors.md has a row for every error, and all pages name commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from siltstone.cli.main import siltstone
from siltstone.container.models.imports import AdoptionNotFoundError, ImportSessionError
from siltstone.core import errors
from siltstone.core.errors import ChunkThrottledError, Outcome, SiltstoneError
from siltstone.core.open_files import ChunkOpenFilesError, LogOpenFilesError
from siltstone.migration.legacy.header import ChunkOrderError, HeaderError
from siltstone.migration.legacy.imported import MigrationStateError
from siltstone.migration.legacy.names import LegacyLayoutError, NoLegacyLayoutError
from siltstone.migration.legacy.write_through.layout import LegacyChangedError
from siltstone.objects import errors as object_errors
from siltstone.pipelines.work import PipelineError
from siltstone.store.handles.arguments import SeveralContainersError
from siltstone.store.handles.event_buffer import BufferedWriteError
from siltstone.store.handles.streams import PartialAppendError
from siltstone.volumes import errors as volume_errors

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "errors.md").read_text(encoding="utf-8")
ROWS = {
    name: [cell.strip() for cell in row.split("|")[2:5]]
    for row in PAGE.splitlines()
    if row.startswith("| `")
    for name in re.findall(r"`(\w+Error)`", row.split("|")[1])
}
CLASSES = {
    value.__name__: value
    for value in (
        *vars(errors).values(),
        *vars(object_errors).values(),
        *vars(volume_errors).values(),
        ChunkThrottledError,
        ChunkOpenFilesError,
        LogOpenFilesError,
        SeveralContainersError,
        PartialAppendError,
        BufferedWriteError,
        PipelineError,
        AdoptionNotFoundError,
        ImportSessionError,
        LegacyChangedError,
        LegacyLayoutError,
        NoLegacyLayoutError,
        MigrationStateError,
        HeaderError,
        ChunkOrderError,
    )
    if isinstance(value, type) and issubclass(value, SiltstoneError)
}


def test_every_error_has_its_row() -> None:
    assert set(ROWS) == set(CLASSES) - {"SiltstoneError"}
    named = re.findall(r"(?m)^\| (`.*?) \|", PAGE)
    assert len(re.findall(r"`\w+Error`", " ".join(named))) == len(ROWS), "a row twice"


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_says_of_the_outcome_what_the_class_does(name: str) -> None:
    happened, safe, do = ROWS[name]
    assert happened
    assert do
    told = "not applied" in safe, "unknown" in safe or "the error says it" in safe
    if CLASSES[name].outcome is Outcome.UNKNOWN:
        assert not told[0]
    elif issubclass(CLASSES[name], errors.ChunkError):
        assert any(told)
    elif name not in {"PartialAppendError", "BufferedWriteError"}:
        assert told == (True, False)


@pytest.mark.parametrize("page", ["errors.md", "operations.md", "../README.md"])
def test_commands_that_are_named_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^)siltstone ([a-z][a-z -]*[a-z])", text, re.MULTILINE))
    assert named
    for command in named:
        group: click.Command = siltstone
        for word in command.split():
            if not isinstance(group, click.Group):
                break
            assert word in group.commands, f"{page}: siltstone {command}"
            group = group.commands[word]


def _verbs(group: click.Group, before: str = "") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        path = f"{before}{name}"
        found |= _verbs(command, f"{path} ") if isinstance(command, click.Group) else {path}
    return found


def test_the_page_of_the_command_has_every_verb() -> None:
    rows = re.findall(r"(?m)^\| `([a-z -]+)", (DOCS / "cli.md").read_text(encoding="utf-8"))
    assert _verbs(siltstone) <= {row.strip() for row in rows}


def test_links_lead_to_headings() -> None:
    for page, anchor in re.findall(r"\]\((\w+\.md)#([\w-]+)\)", PAGE):
        text = (DOCS / page).read_text(encoding="utf-8")
        headings = re.findall(r"(?m)^#+ (.*)$", text)
        anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
        assert anchor in anchors, f"{page}#{anchor}"
