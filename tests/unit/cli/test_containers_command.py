"""The verb ``containers``: owners, what is unflushed, and what holds the log."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.session import Session
from siltstone.container.health.monitor import ContainerHealth
from siltstone.container.models.health import HealthState
from siltstone.core.constants import container_of
from siltstone.core.errors import ChunkUnavailableError
from siltstone.store.admin import inspection
from siltstone.store.store import Store
from tests.support.command import Command


@pytest.mark.slow
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


@pytest.mark.slow
def test_changes_of_tables_hold_the_log_until_they_are_flushed(
    command: Command, folder: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a")
        held = {row["held_by"] for row in command("containers", "--json").values}
        assert "tables" in held
        store.flush()
        assert {stats.log_held_by for stats in store.stats()} == {""}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_container_whose_log_is_lost_hides_no_other(
    command: Command, folder: Path, lost: int
) -> None:
    siltstone.open(folder).close()
    shutil.rmtree(folder / "tier1" / f"c{lost}")
    ran = command("containers", "--json")
    assert ran.code == 6
    bad, good = ran.values[lost], ran.values[1 - lost]
    assert (bad["container"], bad["state"], bad["log_end"]) == (lost, "failed", None)
    assert f"there is no folder {folder}/tier1/c{lost}" in bad["error"]
    assert (good["container"], good["state"], good["error"]) == (1 - lost, "ok", None)
    assert f"pid={os.getpid()}" in good["owner"]
    shown = command("containers")
    assert shown.code == 6
    rows = shown.out.splitlines()[1:3]
    assert "failed: there is no folder" in rows[lost]
    assert rows[1 - lost].endswith("ok")


@pytest.mark.slow
def test_a_container_whose_log_cannot_be_looked_at_hides_no_other(
    command: Command, folder: Path
) -> None:
    siltstone.open(folder).close()
    shutil.rmtree(folder / "tier1" / "c1")
    (folder / "tier1" / "c1").write_bytes(b"a file where a folder was")
    ran = command("containers", "--json")
    assert ran.code != 0
    assert [row["state"] for row in ran.values] == ["ok", "failed"]
    assert ran.values[1]["log_end"] is None
    assert f"there is no folder {folder}/tier1/c1" in ran.values[1]["error"]
    shown = command("containers")
    assert shown.code == ran.code
    assert "container 0: pid=" in shown.out


@pytest.mark.slow
@pytest.mark.parametrize("flushed", [True, False])
def test_a_container_whose_journal_is_gone_was_opened_before(
    command: Command, folder: Path, *, flushed: bool
) -> None:
    with siltstone.open(folder) as store:
        segment = store.create(next(f"s{n}" for n in range(100) if container_of(f"s{n}", 2) == 1))
        segment.append(b"acknowledged")
        if flushed:
            store.flush()
    shutil.rmtree(folder / "chunks" / "system" / "c1")
    told = "the journal is gone"
    for verb in ("containers", "health", "stat"):
        ran = command(verb, "--json")
        assert ran.code == 6
        row = ran.values[1] if verb == "containers" else ran.values[0]["containers"][1]
        assert row["state"] == "failed"
        assert told in row["error"]
    (log,) = (v for v in command("doctor", "--json").values if v["name"] == "container 1")
    assert (log["outcome"], told in log["detail"]) == ("failed", True)
    ran = command("journal", "verify", "--container", "1")
    assert told in ran.out
    for arguments in (["recover"], ["create", "x"], ["ls"]):
        ran = command(*arguments)
        assert (ran.code, told in ran.err) == (6, True)


def _away(*arguments: object) -> Store:
    raise ChunkUnavailableError("no route to host", chunk="c", operation="stat")


@pytest.mark.parametrize("where", [(inspection, "assembled"), (Session, "open_reader")])
def test_storage_that_is_away_ends_with_the_code_of_health(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[object, str]
) -> None:
    siltstone.open(folder).close()
    monkeypatch.setattr(*where, _away)
    ran = command("containers", "--json")
    assert (ran.code, ran.out) == (8, "")
    assert ran.err.startswith("siltstone: no route to host")


@pytest.mark.slow
def test_storage_that_goes_away_under_an_open_store_ends_so_too(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siltstone.open(folder).close()
    look = Store.health

    def health(store: Store) -> Sequence[ContainerHealth]:
        ok, other = look(store)
        return [ok, dataclasses.replace(other, state=HealthState.UNAVAILABLE)]

    monkeypatch.setattr(Store, "health", health)
    ran = command("containers", "--json")
    assert (ran.code, [row["state"] for row in ran.values]) == (8, ["ok", "unavailable"])
