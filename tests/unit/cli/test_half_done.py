"""Verbs with several targets that end half-way: what they say about targets that are done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.migration.backup.place import BackupPlace
from siltstone.store.admin import recovery
from siltstone.store.blocking.segment import Segment
from tests.support.command import Command


@pytest.mark.slow
def test_rm_says_what_is_gone_when_it_fails(command: Command) -> None:
    for name in ("a", "b\n"):
        command("create", name)
    ran = command("rm", "a", "b\n", "no", "c")
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "; removed before that: a, b\\n (" in ran.err
    assert "no" in ran.err
    assert "before that" not in command("rm", "no", "a").err


@pytest.mark.slow
def test_of_many_the_first_ones_and_a_count_are_told(command: Command, folder: Path) -> None:
    names = [f"s{number:02}" for number in range(23)]
    with siltstone.open(folder) as store:
        for name in names:
            store.create(name)
    ran = command("rm", *names, "no")
    assert f"removed before that: {', '.join(names[:20])}, 3 more (" in ran.err


@pytest.mark.slow
def test_rm_says_what_is_gone_when_it_is_interrupted(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        command("create", name)
    real = Segment.delete

    def delete(segment: Segment) -> None:
        if segment.name == "b":
            raise KeyboardInterrupt
        real(segment)

    monkeypatch.setattr(Segment, "delete", delete)
    ran = command("rm", "a", "b")
    assert (ran.code, ran.err) == (130, "siltstone: interrupted; removed before that: a\n")


@pytest.mark.slow
def test_generations_that_are_gone_are_told(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("create", "a")
    place = str(tmp_path / "backups")
    for _ in range(2):
        assert command("backup", "create", place).code == 0
    real = BackupPlace.forget

    def forget(opened: Any, number: int) -> None:
        if number == 2:
            raise OSError(5, "the disk is gone")
        real(opened, number)

    monkeypatch.setattr(BackupPlace, "forget", forget)
    ran = command("backup", "remove", place, "1", "2")
    assert ran.code == 1
    assert ran.err.endswith("; removed before that: 1\n")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_container_that_was_recovered_is_told_though_the_next_one_fails(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"lost")
    shutil.rmtree(folder / "tier1")
    real = recovery._one

    async def one(assembly: Any, index: int, **given: Any) -> Any:
        if index == 1:
            raise siltstone.ChunkError("gone", chunk="c", operation="read")
        return await real(assembly, index, **given)

    monkeypatch.setattr(recovery, "_one", one)
    ran = command("recover", "--accept-loss", *options)
    assert ran.code == 1
    assert ("done: lineage" if not options else '"done": true') in ran.out
