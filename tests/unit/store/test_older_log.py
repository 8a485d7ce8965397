"""A log that was replaced by an older copy, which long-term storage has not seen more of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone.store.doctor import diagnose


def test_what_the_local_index_has_seen_is_missed_in_an_older_log(tmp_path: Path) -> None:
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
    shutil.rmtree(tmp_path / "index")
    with siltstone.open(tmp_path) as store:
        assert [info.name for info in store.list()] == ["a"]
