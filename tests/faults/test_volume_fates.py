"""A push whose every call meets every fate, with and without a rival, and what is found after it.

What may fail: each call to the place is refused, done without an answer, not done without an
answer, or done later; the client dies before or after it; the same befalls all later calls of its
kind. A create that is late takes effect before the rival pushes, after it, or after the recovery.
What must hold after: the client says published if and only if its record has the slot; the log has
one record for each LSN; all clients agree on the pages; local commits are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from siltstone.core.errors import ChunkError, OutcomeUnknownError
from siltstone.volumes import RejectedCommitError, Volume
from tests.support.volumes.page_model import Pages, commit, pages_of
from tests.support.volumes.synced_world import DiedError, Fate, SyncedWorld

KINDS = ("dies before", "dies after", "refused", "lost", "late", "never")
CALLS = 4
"""More than a push makes that is not the first of an opening; the check of the place is apart."""

MOMENTS = ("before the rival", "after the rival", "after the recovery")
BASE = [("write", index, 1) for index in range(1, 67)]
MINE = [("write", 2, 5), ("truncate", 60, 0), ("write", 66, 6)]
RIVAL = [("write", 3, 7)]


@dataclass(frozen=True)
class Case:
    """What befalls a push.

    Attributes:
        fate: of its calls.
        rival: whether another client pushes before the recovery.
        moment: when creates that are late take effect.
    """

    fate: Fate
    rival: bool
    moment: str


CASES = [
    Case(Fate(at, kind, every), rival, moment)
    for at, kind, every, rival, moment in product(
        range(CALLS), KINDS, (False, True), (False, True), MOMENTS
    )
    if kind == "late" or moment == MOMENTS[0]
]


def test_a_push_ends_as_the_log_says(tmp_path: Path) -> None:
    for number, case in enumerate(CASES):
        play(tmp_path / f"{number}", case)


def play(folder: Path, case: Case) -> None:
    world = SyncedWorld(folder)
    client, other = world.open("a"), world.open("b")
    volume = client.create("v")
    base = committed(volume, Pages(), BASE)
    volume.push()
    rival = other.clone("v", volume.log)
    mine = committed(volume, base, MINE)
    try:
        world.run(volume.push_steps(), case.fate)
    except DiedError:
        client.close()
        client = world.open("a")
        volume = client.volume("v")
    except (ChunkError, OutcomeUnknownError):
        pass
    assert pages_of(volume, 70) == mine, case
    if case.moment == "before the rival":
        let_all_through(world)
    rivals = committed(rival, base, RIVAL)
    is_first = case.rival and is_published(rival)
    if case.moment == "after the rival":
        let_all_through(world)
    is_mine = is_published(volume)
    let_all_through(world)
    assert is_mine is not is_first, case
    compare(world, volume, rival, mine if is_mine else rivals, case)
    for each in (client, other):
        each.close()


def is_published(volume: Volume) -> bool:
    """Whether a push is published, now or before."""
    try:
        volume.push()
    except RejectedCommitError:
        return False
    return True


def compare(world: SyncedWorld, volume: Volume, rival: Volume, expected: Pages, case: Case) -> None:
    """Everybody has what the second record says, also who comes new."""
    for each in (volume, rival):
        each.reset()
        assert pages_of(each, 70) == expected, case
        assert each.info().remote == 2, case
        assert not each.push(), case
    with world.open("c") as new:
        assert pages_of(new.clone("v", volume.log), 70) == expected, case


def let_all_through(world: SyncedWorld) -> None:
    while world.let_one_through(0):
        pass


def committed(volume: Volume, pages: Pages, operations: list[tuple[str, int, int]]) -> Pages:
    commit(volume, *operations)
    return pages.written(operations)
