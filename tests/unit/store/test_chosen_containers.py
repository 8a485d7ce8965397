"""Several stores share the containers of one by explicit lists."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import container_of
from siltstone.core.errors import StoreError, StoreInUseError

COUNT = 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return siltstone.init(tmp_path / "store", containers=COUNT)


def name_in(container: int) -> str:
    """A name that belongs to a container."""
    return next(f"s{n}" for n in range(1000) if container_of(f"s{n}", COUNT) == container)


@pytest.mark.slow
def test_each_store_has_its_own_containers(file: Path) -> None:
    names = [name_in(container) for container in range(COUNT)]
    with (
        siltstone.open(file, containers=[2, 0]) as some,
        siltstone.open(file, containers=[1]) as other,
    ):
        assert (some.containers, other.containers) == ((0, 2), (1,))
        assert (some.container_count, other.container_count) == (COUNT, COUNT)
        some.create(names[0]).append(b"zero")
        some.create(names[2]).append(b"two")
        other.create(names[1]).append(b"one")
        assert [info.name for info in other.list()] == [names[1]]
        assert {info.name for info in some.list()} == {names[0], names[2]}
        assert [one.container for one in some.stats()] == [0, 2]
        some.flush()
        assert [one.container for one in some.health()] == [0, 2]
        assert list(other.check()) == []
    with siltstone.open(file) as store:
        assert [store.segment(name).read(0, 9) for name in names] == [b"zero", b"one", b"two"]


def test_names_of_other_containers_are_refused(file: Path) -> None:
    with siltstone.open(file, containers=[1]) as store:
        for call in (
            lambda: store.create(name_in(0)),
            lambda: store.segment(name_in(2)).append(b"x"),
            lambda: store.set_retention("", prefix=True, bytes_max=1),
        ):
            with pytest.raises(StoreError, match=r"not open here container=\d opened=1"):
                call()


@pytest.mark.slow
def test_a_container_has_one_owner(file: Path) -> None:
    with siltstone.open(file, containers=[0, 1]), pytest.raises(StoreInUseError):
        siltstone.open(file, containers=[1, 2])
    siltstone.open(file, containers=[1, 2]).close()


def test_a_reader_may_look_at_some(file: Path) -> None:
    with (
        siltstone.open(file, containers=[1]) as owner,
        siltstone.open(file, read_only=True, containers=[1]) as reader,
    ):
        owner.create(name_in(1)).append(b"x")
        assert reader.segment(name_in(1)).read(0, 9) == b"x"
        with pytest.raises(StoreError, match="not open here"):
            reader.segment(name_in(0)).read(0, 9)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [[], [COUNT], [-1], [0, 7]])
def test_containers_that_are_none_are_refused(file: Path, wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="container"):
        siltstone.open(file, containers=wrong)
    siltstone.open(file).close()
