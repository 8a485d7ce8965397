"""Restores, checks and lists of backups while a generation is removed or made.

What must hold: what exists is restored, checked and listed; what was removed is reported so.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import CorruptDataError, StoreNotFoundError
from siltstone.migration.backup.admin import (
    backups_of,
    collect_backups,
    list_backups,
    remove_backups,
)
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store.admin.generations import Generations
from tests.support.migration.backups import content_of, damage, files
from tests.support.migration.backups import tmp_path as tmp_path
from tests.support.stores import make_store

Act = Callable[[Path], None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two generations; the newer one has objects that the older one lacks."""
    store = make_store(tmp_path / "store", containers=1)
    for name in ("a", "b"):
        with siltstone.open(store) as opened:
            opened.create(name).append(name.encode() * 1_000)
            opened.flush()
            opened.create(f"tail of {name}").append(b"not flushed")
        create_backup(store, tmp_path / "place")
    return tmp_path / "place"


def remove_newest(place: Path) -> None:
    remove_backups(place, [2])
    collect_backups(place)


@contextmanager
def stopped(place: Path, act: Act, number: int) -> Iterator[list[str]]:
    """The ``number``-th look into the place comes after ``act``."""
    calls: list[str] = []

    def after_act(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: NfsChunkStorage, *arguments: Any) -> Any:
            if self._tree.path == str(place):
                calls.append(plain.__name__)
                if len(calls) == number:
                    act(place)
            return plain(self, *arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("stat", "read_into", "list"):
            patch.setattr(NfsChunkStorage, name, after_act(getattr(NfsChunkStorage, name)))
        yield calls


def stopped_anywhere(
    place: Path, act: Act, work: Callable[[Path], None], *, step: int = 1
) -> Iterator[int]:
    """Do the work with ``act`` before one of its looks, each time on a copy of the place."""
    for number in count(1, step):
        copy = place.with_name("copy")
        shutil.copytree(place, copy)
        with stopped(copy, act, number) as calls:
            work(copy)
        shutil.rmtree(copy)
        if number > len(calls):
            assert number > 6
            return
        yield number


@pytest.mark.slow
@pytest.mark.parametrize("generation", [None, 1])
def test_a_generation_is_restored_or_said_to_be_removed(
    place: Path, generation: int | None
) -> None:
    new, outcomes = place.with_name("new"), []

    def work(copy: Path) -> None:
        try:
            report = restore_backup(
                copy, new, generation, executor=LocalExecutor(1), allow_missing=generation is None
            )
        except StoreNotFoundError:
            outcomes.append("removed")
        else:
            outcomes.append(f"{report.backup.generation}")
            assert report.missing == {}
            names = {"1": ["a", "tail of a"], "2": ["a", "b", "tail of a", "tail of b"]}
            assert sorted(content_of(new)) == names[outcomes[-1]]
        shutil.rmtree(new, ignore_errors=True)

    for _ in stopped_anywhere(place, remove_newest, work, step=2):
        pass
    assert set(outcomes) == ({"1", "2", "removed"} if generation is None else {"1"})


@pytest.mark.slow
def test_a_check_continues_with_what_is_there(place: Path) -> None:
    def work(copy: Path) -> None:
        report = verify_backups(copy, executor=LocalExecutor(1))
        assert report.findings == ()
        assert 1 in report.generations

    for _ in stopped_anywhere(place, remove_newest, work):
        pass


@pytest.mark.slow
def test_a_list_tells_no_damage_of_what_is_half_made_or_removed(place: Path) -> None:
    steps: list[str] = []

    def remove_half(copy: Path) -> None:
        with backups_of(copy, None) as opened:
            steps.extend(reversed(opened._generations._records(2)))
        (copy / steps[0]).unlink()

    def work(copy: Path) -> None:
        found = []
        with pytest.MonkeyPatch.context() as patch:
            found_of = Generations.found

            def looked(self: Generations[Any]) -> Any:
                found.append(found_of(self))
                if steps:
                    (copy / steps[1]).unlink(missing_ok=True)
                return found[-1]

            patch.setattr(Generations, "found", looked)
            told = list_backups(copy)
        assert [one.damage for one in told] == [()] * len(told)
        steps.clear()

    for _ in stopped_anywhere(place, remove_half, work):
        pass


@pytest.mark.slow
def test_a_list_tells_damage_that_stays_and_no_removal_that_begins_meanwhile(place: Path) -> None:
    with backups_of(place, None) as opened:
        first, second = (opened._generations._records(number) for number in (1, 2))
    damage(place / first[0], 50)
    (told, sound) = list_backups(place)
    assert [(one.name, one.missing) for one in told.damage] == [(first[0], False)]
    assert told.backup is not None
    assert sound.damage == ()
    looks: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        found_of = Generations.found

        def looked(self: Generations[Any]) -> Any:
            looks.append(1)
            if len(looks) == 2:
                (place / second[1]).unlink()
            return found_of(self)

        patch.setattr(Generations, "found", looked)
        assert list_backups(place) == [told, sound]
    damage(place / first[1], 50)
    (told, half) = list_backups(place)
    assert told.backup is None
    assert [one.name for one in told.damage] == list(first)
    assert [(one.name, one.missing) for one in half.damage] == [(second[1], True)]
    before = files(place)
    with pytest.raises(CorruptDataError, match="generation 1 cannot be read"):
        collect_backups(place)
    assert {name for name in before if "/turns/" not in name} == set(files(place))
