"""A sync gives a side the values back that it lost, although both have the same heads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects import LostObjectError
from siltstone.objects.sync import Preference
from tests.support.objects.damaged_values import damage_values
from tests.support.stores import make_store

KEYS = [f"k{number}" for number in range(20)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with objects, of which one is large."""
    folder = make_store(tmp_path_factory.mktemp("filled") / "store", containers=1)
    with siltstone.open(folder) as store:
        photos = objects.create(store, "photos")
        for key in KEYS:
            photos.put("b", key, key.encode() * 500, metadata=b"m", index={"f": [key]})
        photos.put("b", "large", b"large" * 1_000_000)
        store.flush()
    return folder


@pytest.fixture
def folders(filled: Path, tmp_path: Path) -> dict[str, Path]:
    """Two copies of that store."""
    sides = ("left", "right")
    return {side: Path(shutil.copytree(filled, tmp_path / side)) for side in sides}


@pytest.fixture
def opened(folders: dict[str, Path]) -> Iterator[dict[str, objects.Keyspace]]:
    """Both keyspaces; k3, k4 and the large value are damaged on the left."""
    damage_values(folders["left"], "photos", ["k3", "k4", "large"])
    with ExitStack() as stack:
        yield {
            side: objects.open(stack.enter_context(siltstone.open(folder)), "photos")
            for side, folder in folders.items()
        }


def values(keyspace: objects.Keyspace) -> dict[str, bytes]:
    return {each.head.key: each.value for each in keyspace.objects("b")}


def find(keyspace: objects.Keyspace, *keys: str) -> None:
    """Notice losses as an application does: by reading."""
    for key in keys:
        with pytest.raises(LostObjectError):
            keyspace.get("b", key)


def lost(keyspace: objects.Keyspace) -> set[str]:
    """The keys of the objects of which a deep check tells that their values are lost."""
    return {
        each.where.rpartition("key=")[2]
        for each in keyspace.check(deep=True)
        if "value" in each.message and "lost" in each.message
    }


@pytest.mark.parametrize("preference", ["left", "right"])
def test_lost_values_come_back_whichever_side_is_preferred(
    opened: dict[str, objects.Keyspace], preference: Preference
) -> None:
    left, right = opened["left"], opened["right"]
    before, other = left.head("b", "k3"), right.head("b", "k3")
    find(left, "k3", "large")
    report = left.sync(right, prefer=preference, deletes=True)
    assert report == objects.SyncReport(repaired=2, exchanged_bytes=report.exchanged_bytes)
    assert report.exchanged_bytes > 5_000_000
    after = left.head("b", "k3")
    assert before is not None
    assert after is not None
    assert after.sqn > before.sqn
    assert (after.metadata, after.index, after.modified, after.value_hash) == (
        *(before.metadata, before.index, before.modified, before.value_hash),
    )
    assert right.head("b", "k3") == other
    find(left, "k4")  # which nothing had read until now
    assert left.sync(right, prefer=preference).repaired == 1
    assert values(left) == values(right)
    assert left.sync(right, prefer=preference).repaired == 0


def test_a_deep_check_finds_all_that_the_next_sync_repairs(
    opened: dict[str, objects.Keyspace],
) -> None:
    left, right = opened["left"], opened["right"]
    assert right.sync(left, prefer="left").repaired == 0  # nothing was found yet
    assert lost(left) == {"k3", "k4", "large"}
    assert right.sync(left, prefer="left", dry_run=True).repaired == 3
    shares: list[float] = []
    assert right.sync(left, prefer="left", progress=shares.append).repaired == 3
    assert (shares == sorted(shares), shares[-1]) == (True, 1.0)
    assert values(left) == values(right)
    assert lost(left) == set()


def test_a_bucket_without_the_lost_object_is_left_alone(
    opened: dict[str, objects.Keyspace],
) -> None:
    left, right = opened["left"], opened["right"]
    find(left, "k3")
    assert left.sync(right, "other", prefer="left").repaired == 0
    assert left.sync(right, "b", start="k4", prefer="left").repaired == 0
    assert left.sync(right, "b", end="k4", prefer="left").repaired == 1


def test_what_was_changed_elsewhere_or_is_lost_on_both_sides_stays(
    opened: dict[str, objects.Keyspace], folders: dict[str, Path]
) -> None:
    left, right = opened["left"], opened["right"]
    find(left, "k3", "k4")
    right.put("b", "k4", b"newer")
    report = left.sync(right, prefer="left")
    assert (report.differences, report.lost, report.repaired) == (1, 1, 1)
    with pytest.raises(LostObjectError):
        left.get("b", "k4")
    found = right.get("b", "k4")
    assert found is not None
    assert found.value == b"newer"
    assert left.sync(right, prefer="right").copied_to_left == 1
    assert left.get("b", "k4") is not None


def test_a_value_that_both_sides_lost_is_counted_once(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        damage_values(folder, "photos", ["k3"])
    with siltstone.open(folders["left"]) as here, siltstone.open(folders["right"]) as there:
        left, right = objects.open(here, "photos"), objects.open(there, "photos")
        find(left, "k3")
        find(right, "k3")
        report = left.sync(right, prefer="left")
        assert (report.lost, report.repaired, report.differences) == (1, 0, 0)


def test_progress_of_a_comparison_is_told(opened: dict[str, objects.Keyspace]) -> None:
    left, right = opened["left"], opened["right"]
    left.put("b", "new", b"")
    shares: list[float] = []
    assert len(list(left.differences(right, progress=shares.append))) == 1
    assert (shares == sorted(shares), shares[0], shares[-1]) == (True, 0.0, 1.0)
