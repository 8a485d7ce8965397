"""Collections that each version wrote, over objects and in a table, are read and continued here."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

import siltstone
from tests.golden.collection_store import Consensus, content, gust_rows, opened
from tests.golden.make import ARCHIVE, COLLECTIONS, FOLDER, WHOLE

VERSIONS = sorted({path.parent.parent.name for path in FOLDER.glob(f"*/collections-*/{ARCHIVE}")})

EACH = [(version, consensus) for version in VERSIONS for consensus in COLLECTIONS]


def unpacked(version: str, consensus: Consensus, folder: Path) -> Path:
    packed = lzma.decompress((FOLDER / version / COLLECTIONS[consensus] / ARCHIVE).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_this_version_has_both() -> None:
    assert siltstone.__version__ in VERSIONS


@pytest.mark.parametrize(("version", "consensus"), EACH)
def test_collections_show_what_they_held(
    version: str, consensus: Consensus, tmp_path: Path
) -> None:
    place = FOLDER / version / COLLECTIONS[consensus]
    with opened(unpacked(version, consensus, tmp_path), consensus) as collections:
        assert content(collections) == json.loads((place / WHOLE).read_text(encoding="utf-8"))
        assert [one for one in collections.check(deep=True) if one.severity == "damage"] == []


@pytest.mark.parametrize(("version", "consensus"), EACH)
def test_collections_are_continued(version: str, consensus: Consensus, tmp_path: Path) -> None:
    folder = unpacked(version, consensus, tmp_path)
    with opened(folder, consensus) as collections:
        gusts = collections.collection("gusts")
        before = gusts.snapshot().to_arrow().num_rows
        loader = gusts.writer("loader")
        assert loader.append(gust_rows(4, 1), sequence=7).repeated, "the last one is known"
        assert not loader.append(gust_rows(2_000, 600), sequence=8).repeated
        gusts.append(gust_rows(2_700, 2), remove=gust_rows(2_000, 1))
        gusts.compact()
        gusts.collect()
    with opened(folder, consensus) as collections:
        gusts = collections.collection("gusts")
        assert gusts.snapshot().to_arrow().num_rows == before + 601
        assert gusts.bookmark("billing").since == 2
        assert list(collections.check(deep=True)) == []
