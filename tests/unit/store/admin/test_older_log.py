"""A log that was replaced by an older copy of itself, from the same life of an owner.

What must hold: no reader shows and no owner continues with less than was acknowledged, if that can
be known by the last owner's end statement or the local index. ``recover`` sees what an open sees.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.recovery_report import RecoveryState
from siltstone.store.admin.doctor import diagnose
from siltstone.store.admin.recovery import recover_store


def _life(store: siltstone.Store) -> list[Callable[[], object]]:
    """The acts of an owner, some of them flushed and most of them not."""
    store.create("a")
    table = store.create_table("t")
    return [
        lambda: store.segment("a").append(b"first"),
        lambda: table.put(b"k", b"1"),
        lambda: store.flush(),
        lambda: store.segment("a").append(b"second"),
        lambda: store.segment("a").append(b"third"),
        lambda: store.create("b").append(b"fourth"),
        lambda: table.put(b"k", b"2"),
        lambda: store.segment("a").append(b"last"),
    ]


def _put_back(place: Path, copy: Path) -> None:
    shutil.rmtree(place / "tier1")
    shutil.copytree(copy, place / "tier1")


@pytest.mark.slow
@pytest.mark.parametrize("with_index", [True, False], ids=["here", "on another machine"])
def test_every_older_copy_is_refused_by_all_after_a_clean_close(
    tmp_path: Path, with_index: bool
) -> None:
    place = tmp_path / "store"
    siltstone.init(place)
    copies = []
    with siltstone.open(place) as store:
        for number, act in enumerate(_life(store)):
            copies.append(shutil.copytree(place / "tier1", tmp_path / f"copy-{number}"))
            act()
    whole = shutil.copytree(place / "tier1", tmp_path / "whole")
    if not with_index:
        shutil.rmtree(place / "index")
    for copy in copies:
        _put_back(place, copy)
        with pytest.raises(siltstone.LogLostError):
            siltstone.open(place, read_only=True)
        (report,) = recover_store(place)
        assert report.state is RecoveryState.LOST, copy
        assert any(probe.outcome == "failed" for probe in diagnose(place)), copy
        with pytest.raises(siltstone.LogLostError):
            siltstone.open(place)
    _put_back(place, whole)
    with siltstone.open(place) as store:
        assert store.segment("a").read(0, 100) == b"firstsecondthirdlast"
        assert store.segment("b").read(0, 100) == b"fourth"


@pytest.mark.slow
def test_what_continues_long_term_storage_is_kept_by_a_recovery(tmp_path: Path) -> None:
    place = tmp_path / "store"
    siltstone.init(place)
    with siltstone.open(place) as store:
        acts = _life(store)
        for act in acts[:5]:
            act()
        copy = shutil.copytree(place / "tier1", tmp_path / "copy")
        for act in acts[5:]:
            act()
    _put_back(place, copy)
    (report,) = recover_store(place, accept_loss=True)
    assert report.done
    with siltstone.open(place) as store:
        assert store.segment("a").read(0, 100) == b"firstsecondthird"
        assert [info.name for info in store.list()] == ["a"]
        assert not list(store.check())


@pytest.mark.slow
def test_what_the_next_owner_appends_and_loses_is_missed_too(tmp_path: Path) -> None:
    place = tmp_path / "store"
    siltstone.init(place)
    with siltstone.open(place) as store:
        store.create("a").append(b"first")
    with siltstone.open(place) as store:
        copy = shutil.copytree(place / "tier1", tmp_path / "copy")
        store.segment("a").append(b"second")
    _put_back(place, copy)
    with pytest.raises(siltstone.LogLostError):
        siltstone.open(place, read_only=True)


@pytest.mark.slow
def test_an_owner_whose_log_file_is_gone_leaves_no_shorter_log(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        store.create("a").append(b"first")
        file = max((tmp_path / "tier1" / "c0").glob("*-00000000.log"))
        older = shutil.copyfile(file, tmp_path / "older")
        store.segment("a").append(b"second")
        older.rename(file)
        with pytest.raises(siltstone.SiltstoneError):
            store.segment("a").append(b"third")
    for read_only in (True, False):
        with pytest.raises(siltstone.LogLostError):
            siltstone.open(tmp_path, read_only=read_only)


@pytest.mark.slow
@pytest.mark.parametrize("recovered", [True, False])
def test_what_the_local_index_has_seen_is_missed_in_an_older_store(
    tmp_path: Path, *, recovered: bool
) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        store.create("a").append(b"in the copy")
        shutil.copytree(tmp_path / "tier1", tmp_path / "copy")
        store.create("b").append(b"acknowledged")
        before = {path for path in (tmp_path / "chunks").rglob("*") if path.is_file()}
        shutil.copytree(tmp_path / "chunks", tmp_path / "chunks-then")
    assert before
    for name, copy in (("tier1", "copy"), ("chunks", "chunks-then")):
        shutil.rmtree(tmp_path / name)
        (tmp_path / copy).rename(tmp_path / name)
    with pytest.raises(siltstone.LogLostError, match="table updates that the local index holds"):
        siltstone.open(tmp_path)
    assert [probe.area for probe in diagnose(tmp_path) if probe.outcome == "failed"] == [
        "container"
    ]
    (report,) = recover_store(tmp_path)
    assert report.state is RecoveryState.LOST
    assert "table updates that the local index holds" in report.reason
    if recovered:
        (report,) = recover_store(tmp_path, accept_loss=True)
        assert report.done
    else:
        shutil.rmtree(tmp_path / "index")
    with siltstone.open(tmp_path) as store:
        assert [info.name for info in store.list()] == ["a"]
