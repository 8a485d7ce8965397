"""The head of an export: it is written as the page shows, and nothing else is accepted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.core.errors import CapabilityError, SettingsError, StoreError
from siltstone.pipelines.export_layout import (
    HEAD_NAME,
    ExportHead,
    Form,
    Records,
    exported_ranges,
    exported_segments,
    folder_name,
    range_name,
    read_head,
    write_head,
)
from tests.support.docs.format_page import example

HEAD = ExportHead(
    store="u", segment="a", segment_id=5, lineage="l", form=Form.FILES, records=Records.BYTES
)


def test_the_example(tmp_path: Path) -> None:
    write_head(tmp_path, HEAD)
    assert (tmp_path / HEAD_NAME).read_bytes() == example("export.md")
    assert read_head(tmp_path) == HEAD
    write_head(tmp_path, HEAD)


def test_another_head_is_refused(tmp_path: Path) -> None:
    write_head(tmp_path, HEAD)
    with pytest.raises(StoreError, match="another export"):
        write_head(tmp_path, replace(HEAD, segment_id=6))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"\xff", b'{"form": "files", "records": "words"}']
)
def test_what_is_no_head_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HEAD_NAME).write_bytes(content)
    with pytest.raises(SettingsError, match=HEAD_NAME):
        read_head(tmp_path)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    text = example("export.md").decode().replace('"version": 1', '"version": 2')
    (tmp_path / HEAD_NAME).write_text(text)
    with pytest.raises(SettingsError, match="another version"):
        read_head(tmp_path)


def test_what_is_not_ascii_stays_as_it_is() -> None:
    assert folder_name("ž=% é") == "segment=ž%3D%25%20é"
    assert len(folder_name("é" * 123).encode()) == 254
    with pytest.raises(CapabilityError, match="too long"):
        folder_name("é" * 124)


@pytest.mark.parametrize("name", ["a", "a/b", "ž=% ", "日%C5%BE", ".", "..", "x" * 240])
def test_names_become_folders_and_back(tmp_path: Path, name: str) -> None:
    place = tmp_path / folder_name(name)
    assert place.parent == tmp_path
    place.mkdir()
    write_head(place, HEAD)
    assert exported_segments(tmp_path) == [name]
    (place / range_name(HEAD, 0, 7)).touch()
    (place / range_name(HEAD, 7, 12)).touch()
    (place / ".00000000000000000012-00000000000000000013.bin.x.draft").touch()
    (place / "00000000000000000012-00000000000000000013.parquet").touch()
    assert exported_ranges(place, HEAD) == [(0, 7), (7, 12)]
