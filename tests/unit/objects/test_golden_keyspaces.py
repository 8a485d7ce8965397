"""Keyspaces that each version wrote are read and continued here."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from tests.golden.keyspace_store import content
from tests.golden.make import ARCHIVE, FOLDER, KEYSPACES, WHOLE

VERSIONS = sorted(path.parent.parent.name for path in FOLDER.glob(f"*/{KEYSPACES}/{ARCHIVE}"))


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    packed = lzma.decompress((FOLDER / version / KEYSPACES / ARCHIVE).read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_this_version_has_one() -> None:
    assert siltstone.__version__ in VERSIONS


def test_keyspaces_show_what_they_held(version: str, folder: Path) -> None:
    kept = json.loads((FOLDER / version / KEYSPACES / WHOLE).read_text(encoding="utf-8"))
    with siltstone.open(folder, read_only=True) as store:
        assert content(store) == kept
    with siltstone.open(folder) as store:
        assert content(store) == kept


def test_keyspaces_are_continued(folder: Path) -> None:
    with siltstone.open(folder) as store:
        photos = objects.open(store, "photos")
        before = photos.head("2026", "long.jpg")
        assert before is not None
        assert photos.reap() == 1
        put = photos.put("2026", "long.jpg", b"for ever", expected=before.sqn)
        last = max(row["sqn"] for row in content(store)["photos"]["objects"])
        assert (put.sqn, put.replaced) == (last, before.sqn)
        assert photos.delete("2026", "a.jpg") == put.sqn + 1
        assert objects.open(store, "empty").put("b", "k", b"v", tag="é").sqn == 1
    with siltstone.open(folder, read_only=True) as store:
        photos = objects.open(store, "photos")
        found = photos.get("2026", "long.jpg")
        assert found is not None
        assert (found.value, found.head.expires, found.head.index) == (b"for ever", None, {})
        assert photos.get("2026", "a.jpg") is None
        rows = content(store)["photos"]
        assert rows["expiries"] == []
        indexed = {key for _, key, _ in rows["index"]}
        assert indexed == {"6f 32303236 622e6a7067 "}
