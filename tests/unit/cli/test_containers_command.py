"""The verb ``containers``: owners, what is unflushed, and what holds the log."""

from __future__ import annotations

import os
from pathlib import Path

import siltstone
from siltstone.core.words import container_of
from tests.unit.cli.conftest import Command


def test_an_owner_and_what_it_holds_back_are_shown(command: Command, folder: Path) -> None:
    name = next(f"s{n}" for n in range(100) if container_of(f"s{n}", 2) == 1)
    with siltstone.open(folder) as store:
        store.create(name)
        store.flush()
        store.segment(name).append(b"x" * 1000)
        ran = command("containers", "--json")
        assert ran.code == 0, ran.err
        (_, held) = ran.values
        assert (held["container"], held["alive"], held["state"]) == (1, True, "ok")
        assert held["epoch"] == store.stats()[1].epoch
        assert f"pid={os.getpid()}" in held["owner"]
        assert held["unflushed_bytes"] >= 1000
        assert held["held_by"] == f"segment {name}" == store.stats()[1].log_held_by
        assert held["safe_index"] < held["log_end"]
        shown = command("containers")
        assert f"segment {name}" in shown.out
    left = command("containers", "--json")
    assert [row["alive"] for row in left.values] == [False, False]
    assert f"pid={os.getpid()}" in left.values[0]["owner"]


def test_changes_of_tables_hold_the_log_until_they_are_flushed(
    command: Command, folder: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a")
        held = {row["held_by"] for row in command("containers", "--json").values}
        assert "tables" in held
        store.flush()
        assert {stats.log_held_by for stats in store.stats()} == {""}
