"""A push that ended before its record was created published nothing, and binds no later verb."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.core.errors import ChunkError
from siltstone.volumes import ConflictError, Volume
from tests.support.volumes.page_model import Pages, commit, pages_of
from tests.support.volumes.synced_world import DiedError, Fate, SyncedWorld


class Given:
    """Two clients with a volume, of which one has a commit that its push did not bring over."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.world = SyncedWorld(folder)
        self.client, self.other = self.world.open("a"), self.world.open("b")
        volume = self.client.create("v")
        commit(volume, ("write", 1, 1))
        volume.push()
        self.rival = self.other.clone("v", volume.log)
        commit(volume, ("write", 1, 2))
        fate = Fate(at=0, kind=kind, every=True)
        with pytest.raises((DiedError, ChunkError)):
            self.world.run(volume.push_steps(), fate)
        if kind.startswith("dies"):
            self.client.close()
            self.client = self.world.open("a")
        self.volume = self.client.volume("v")


@pytest.fixture(params=["dies before", "dies after", "refused", "never"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Given]:
    made = Given(tmp_path, request.param)
    yield made
    made.client.close()
    made.other.close()


def newest(volume: Volume) -> int:
    """The newest record that the place has."""
    volume.fetch()
    return volume.info().remote + volume.info().unpulled


def test_a_reset_gives_its_commit_up(given: Given) -> None:
    assert not given.volume.info().is_pending
    given.volume.reset()
    assert pages_of(given.volume, 3) == Pages(1, ((1, 1),))
    assert newest(given.rival) == 1


def test_a_pull_publishes_nothing(given: Given) -> None:
    commit(given.rival, ("write", 2, 3))
    given.rival.push()
    with pytest.raises(ConflictError):
        given.volume.pull()
    assert newest(given.rival) == 2
    assert pages_of(given.volume, 3) == Pages(1, ((1, 2),))


def test_the_next_push_has_later_commits_too_in_one_record(given: Given) -> None:
    commit(given.volume, ("write", 2, 3))
    assert given.volume.push()
    assert given.volume.info().line == "3 r2"
    assert given.rival.pull()
    assert pages_of(given.rival, 3) == Pages(2, ((1, 2), (2, 3)))
