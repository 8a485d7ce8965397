"""The check of backups while generations are removed and made.

What must hold: in a sound place, nothing is reported as wrong, wherever the check was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.migration.backup.admin import backups_of, collect_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store.admin.generations import Generations
from tests.support.migration.backups import tmp_path as tmp_path

Steps = Callable[[Path, Path], Iterator[None]]
"""An act in several steps on a place with backups of a store."""

CALLS_BETWEEN = 16
"""More calls than the records of three generations need to be read."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two generations; the older one has objects that the newer one lacks."""
    siltstone.init(tmp_path / "store")
    for name in ("a", "b"):
        with siltstone.open(tmp_path / "store") as store:
            store.create(name).append(name.encode() * 1_000)
            if name == "b":
                store.segment("a").delete()
            store.flush()
        create_backup(tmp_path / "store", tmp_path / "place")
    return tmp_path / "place"


def remove(place: Path, store: Path) -> Iterator[None]:
    with backups_of(place, None) as opened:
        older = opened.numbers()[0]
        for name in reversed(opened._generations._records(older)):
            opened.storage.delete(name)
            yield
    assert collect_backups(place).count
    yield


def make(place: Path, store: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        later: list[tuple[Path, Path]] = []
        state = Generations._records

        def first(self: Generations[Any], number: int) -> tuple[str, ...]:
            copy, record = state(self, number)
            path = place / record
            later.append((place / copy, path))
            return (copy,)

        patch.setattr(Generations, "_records", first)
        create_backup(store, place)
    yield from [None] * CALLS_BETWEEN
    shutil.copyfile(*later[-1])
    yield


@contextmanager
def meanwhile(steps: Iterator[None], number: int) -> Iterator[list[int]]:
    """From the ``number``-th call of storage on, each call comes after a step."""
    calls: list[int] = [0]
    busy: list[bool] = []

    def after_a_step(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not busy:
                calls[0] += 1
                if calls[0] >= number:
                    busy.append(True)
                    next(steps, None)
                    busy.pop()
            return plain(*arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("stat", "read_into", "list"):
            patch.setattr(NfsChunkStorage, name, after_a_step(getattr(NfsChunkStorage, name)))
        yield calls


@pytest.mark.slow
@pytest.mark.parametrize("steps", [remove, make])
def test_what_is_removed_or_made_meanwhile_is_not_wrong(place: Path, steps: Steps) -> None:
    number, calls = 0, [1]
    while number < calls[0]:
        number += 1
        copy = place.with_name("copy")
        shutil.copytree(place, copy, dirs_exist_ok=True)
        with meanwhile(steps(copy, place.with_name("store")), number) as calls:
            report = verify_backups(copy, executor=LocalExecutor(1))
        assert (number, report.findings) == (number, ())
        shutil.rmtree(copy)
    assert number > 10
