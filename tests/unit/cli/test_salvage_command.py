"""The verb ``salvage``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import siltstone
from tests.unit.cli.conftest import Command


def test_it_looks_first_and_then_brings(command: Command, folder: Path, tmp_path: Path) -> None:
    with siltstone.open(folder) as store:
        for name in ("a", "b"):
            store.create(name).append(b"bytes of " + name.encode())
            store.segment(name).flush()
        store.create_table("t").put(b"k", b"v")
        store.flush()
    shutil.rmtree(folder / "tier1")
    assert command("salvage").code == 0
    (chunk,) = (path for path in (folder / "chunks").rglob("*/b/*") if path.is_file())
    chunk.unlink()
    ran = command("salvage", "--json")
    assert ran.code == 6
    whole, lost, table = ran.values
    assert (table["table"], table["verdict"], table["keys"]) == ("t", "exact", 1)
    assert (whole["verdict"], whole["ranges"]) == ("exact", [{"offset": 0, "length": 10}])
    assert (lost["segment"], lost["verdict"], lost["targets"]) == ("b", "guessed", [])
    assert [(one["offset"], one["length"]) for one in lost["missing"]] == [(0, 10)]
    new = str(siltstone.init(tmp_path / "new"))
    ran = command("salvage", "--into", new)
    assert ran.code == 6
    assert "none of its bytes are there" in ran.out
    assert "2 segments are there, " in ran.err
    assert command("cat", "salvage/a", store=new).out == "bytes of a"
    line = json.loads(command("cat", "salvage/t.table", store=new).out)
    assert (line["key"], line["value"]) == ("k", "v")
    for path in (folder / "chunks" / "system").rglob("journal-*"):
        path.unlink()
    ran = command("recover")
    assert (ran.code, "siltstone salvage" in ran.err) == (6, True)
    ran = command("salvage")
    assert (ran.code, "no checkpoint proves its end" in ran.out) == (6, True)
    assert "no checkpoint proves its last update" in ran.out
    assert "the journal is gone" in ran.err
