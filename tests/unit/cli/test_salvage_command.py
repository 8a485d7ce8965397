"""The verb ``salvage``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


@pytest.mark.slow
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
    assert "there: 2 segments; written: " in ran.err
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


@pytest.mark.slow
def test_it_tells_what_it_does_not_bring(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a")
        store.segment("a").writer("w").append(b"first", sequence=7)
        store.set_retention("a", bytes_max=1 << 30)
        store.set_retention("logs/", prefix=True, age_max=60)
        store.flush()
    shutil.rmtree(folder / "tier1")
    ran = command("salvage")
    assert (ran.code, "the numbers of 1 writer; --json tells them" in ran.err) == (0, True)
    left = [line for line in command("salvage", "--json").values if "left_out" in line]
    assert all(line["proven"] for line in left)
    rules = [rule for line in left for rule in line["left_out"]["retention"]]
    assert {"segment": "a", "bytes_max": 1 << 30, "age_max_ms": None} in rules
    assert {"prefix": "logs/", "bytes_max": None, "age_max_ms": 60_000} in rules
    writers = [writer for line in left for writer in line["left_out"]["writers"]]
    assert writers == [{"segment": "a", "writer": "w", "sequence": 7}]
    for path in (folder / "chunks" / "system").rglob("journal-*"):
        path.unlink()
    told = command("salvage").err
    assert "its retention rules and the numbers of its writers are lost" in told
