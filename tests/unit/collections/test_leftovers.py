"""A sweep removes what creates that never ended left in the folder of drafts."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow

import siltstone
from siltstone.collections.blocking import open_collections
from siltstone.core.drafts import DRAFTS, draft_name

DAY_S = 86_400


def left_draft(folder: Path, name: str, age_s: int) -> Path:
    """What a process that died left, of this age."""
    path = folder / DRAFTS / draft_name(name)
    path.write_bytes(b"half")
    old_s = path.stat().st_mtime - age_s
    os.utime(path, (old_s, old_s))
    return path


def test_drafts_of_dead_processes_are_swept_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    siltstone.init(tmp_path, containers=1)
    schema = pyarrow.schema([pyarrow.field("k", pyarrow.int64(), nullable=False)])
    with open_collections(tmp_path) as collections:
        rows = collections.create("rows", schema, key=["k"])
        rows.append([{"k": 1}])
        (folder,) = {path.parent for path in tmp_path.rglob(DRAFTS)}
        entry = f"collections/{rows.id.hex()}/entries/00000000000000ff"
        dead = left_draft(folder, entry, 2 * DAY_S)
        choice = left_draft(folder, "collections/consensus", 2 * DAY_S)
        living = left_draft(folder, entry, DAY_S // 2)
        foreign = left_draft(folder, "data/chunk", 2 * DAY_S)
        assert rows.sweep() == 1
        assert not dead.exists()
        assert choice.exists(), "it is of no collection"
        assert collections.sweep() == 1
        assert not choice.exists()
        assert living.exists()
        assert foreign.exists()
        assert rows.snapshot().to_arrow().to_pylist() == [{"k": 1}]
