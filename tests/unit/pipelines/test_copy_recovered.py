"""Copies and exports of a store that lost its tier 1: other bytes have the lost offsets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import StoreError
from siltstone.pipelines.copy_plan import CONFLICT, MARK, origin_of
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import OK, SAME
from siltstone.store.admin.recovery import recover_store
from tests.support.pipelines import exports
from tests.support.pipelines.copies import content, copied, verified, write
from tests.support.stores import make_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", chunk_bytes=10_000, containers=1)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return make_store(tmp_path / "target", chunk_bytes=10_000, containers=2)


def lose_tier_1(folder: Path) -> None:
    shutil.rmtree(folder / "tier1")
    recover_store(folder, accept_loss=True)


@pytest.mark.slow
def test_a_copy_with_bytes_that_its_source_lost_does_not_continue(
    folder: Path, target: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"abcd")
        store.create("b").append(b"whole")
        store.flush()
        store.segment("a").append(b"lost")
        assert copied(folder, target) == {"a": OK, "b": OK}
    lose_tier_1(folder)
    write(folder, a=b"other bytes", b=b", and more")
    before = content(target)["a"]
    assert copied(folder, target) == {"a": CONFLICT, "b": OK}
    assert content(target)["a"] == before == (b"abcdlost", False)
    with siltstone.open(target) as store:
        store.segment("a").delete()
    assert copied(folder, target) == {"a": OK, "b": SAME}
    assert content(target) == content(folder)
    assert set(verified(folder, target).values()) == {OK}


@pytest.mark.slow
def test_a_copy_that_has_the_bytes_of_its_source_is_read_once(
    folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, a=b"0123456789")
    with siltstone.open(folder) as store:
        store.flush()
        store.segment("a").truncate(4)
        store.flush()
    assert copied(folder, target) == {"a": OK}
    with siltstone.open(target) as store:
        before = origin_of(store.segment("a").info().attributes[MARK])
    lose_tier_1(folder)
    write(folder, a=b", and more")
    assert copied(folder, target) == {"a": OK}
    with siltstone.open(target) as store:
        after = origin_of(store.segment("a").info().attributes[MARK])
    assert before is not None
    assert after is not None
    assert after.lineage != before.lineage
    assert content(target)["a"] == (b"456789, and more", False)
    monkeypatch.delattr(StoreView, "read")
    assert copied(folder, target) == {"a": SAME}


@pytest.mark.slow
def test_an_export_with_bytes_that_its_store_lost_does_not_continue(
    folder: Path, tmp_path: Path
) -> None:
    def exported(name: str) -> set[str]:
        found = exports.exported(folder, tmp_path / name, Form.FILES, Records.BYTES)
        return {one.status for one in found}

    with siltstone.open(folder) as store:
        store.create("a").append(b"abcd")
        store.flush()
        store.segment("a").append(b"lost")
        assert exported("out") == {OK}
    lose_tier_1(folder)
    write(folder, a=b"other bytes")
    before = exports.files_of(tmp_path / "out")
    with pytest.raises(StoreError, match="was recovered since"):
        exported("out")
    assert exports.files_of(tmp_path / "out") == before
    assert exported("new") == {OK}
    assert set(exports.verified(folder, tmp_path / "new").values()) == {OK}
