"""Every call of a rebuild, a backup and a restore of a keyspace meets every fault.

What may fail: one call to long-term storage, to the place of backups or to the log: refused; lost;
applied with its reply lost; applied by half; answered too late; no room; or the process dies before
the call or after it. What must hold: each is repeated until it succeeds, and then every object is
there, and nothing that was deleted; until then the keyspace refuses its verbs; a backup is there
whole or not at all; what is restored is what was there when its backup was made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import KeyspaceExistsError
from siltstone.objects.open_spaces import open_space
from siltstone.objects.rebuild_space import rebuild_space
from siltstone.objects.restore_space import restore_space
from siltstone.objects.space_names import space_names
from siltstone.store.async_store import AsyncStore
from tests.support.container.container_world import World, world
from tests.support.faults.failing_calls import SETTINGS, Faults, fates_of, run_watched
from tests.support.objects.compaction_life import (
    BUCKET,
    CompactionLife,
    Model,
    imports_into,
    visible,
)
from tests.support.objects.place_in_world import places_in
from tests.support.objects.space_world import NAMES, SMALL, TAGS, open_owner
from tests.support.soak import shared

SAMPLE = 6
ATTEMPTS_MAX = 14
LATE_S = 300.0
PLACE = "/place"
COPY = space_names("copy")


@dataclass
class RebuildLife:
    """The application, and the fate of its calls.

    Attributes:
        life: what it holds.
        faults: which call fails.
        backups: what the model was at each backup that was told to be made.
        restored: whether the newest of them was restored.
    """

    life: CompactionLife
    faults: Faults
    backups: list[Model] = field(default_factory=list)
    restored: bool = False

    async def again(self, step: Callable[[AsyncStore], Awaitable[Any]]) -> Any:
        """Make a step until it succeeds, in the next process when one has died."""
        failure: SiltstoneError | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                await self.living()
                return await step(self.life.process.store)
            except CorruptDataError:
                raise  # no byte is damaged
            except SiltstoneError as error:
                failure = error
                await self.life.world.environment.sleep(2)
        raise AssertionError("the step never succeeds") from failure

    async def living(self) -> None:
        """A process whose store is open."""
        life = self.life
        if self.faults.dying:
            if life.opened is not None:
                await life.end(dies=True)
            for log in self.faults.logs:
                log.abandon()
            self.faults.dying = False
        if life.opened is None:
            life.opened = await open_owner(life.world, plan=self.faults.log_plan)

    async def open_keyspace(self) -> None:
        """Open the keyspace."""

        async def opened(_: AsyncStore) -> None:
            self.life.keyspace = await self.life.process.keyspace()

        await self.again(opened)

    async def rebuild(self, *, lost: bool) -> None:
        """Rebuild the ledger, or make it again from nothing."""

        async def rebuilt(store: AsyncStore) -> None:
            try:
                await rebuild_space(store, NAMES, TAGS if lost else None, {})
            except SiltstoneError:
                if self.life.keyspace is not None:
                    with pytest.raises(SiltstoneError):
                        await self.life.keyspace.put("b", "k0", b"never")
                raise

        await self.again(rebuilt)
        await self.open_keyspace()

    async def back_up(self) -> None:
        """Make a backup, and then change what is there."""

        async def made(_: AsyncStore) -> None:
            if self.life.keyspace is None:
                self.life.keyspace = await self.life.process.keyspace()
            await self.life.keyspace.backup(PLACE, takeover=True)

        await self.again(made)
        self.backups.append(dict(self.life.model))

    async def restore(self) -> None:
        """Make a keyspace of the newest backup."""

        tried = False

        async def restored(store: AsyncStore) -> None:
            nonlocal tried
            try:
                await restore_space(
                    store, COPY, PLACE, keyspace=None, of=None, generation=None, recalc={}
                )
            except KeyspaceExistsError:
                assert tried, "it was never restored"
            except SiltstoneError:
                tried = True
                await self.check_refused(store)
                raise

        await self.again(restored)
        self.restored = True

    async def check_refused(self, store: AsyncStore) -> None:
        """What a restore that failed has made cannot be opened, unless it is whole."""
        armed, self.faults.armed = self.faults.armed, False
        try:
            await open_space(store, COPY, SMALL)
        except SiltstoneError:
            return
        finally:
            self.faults.armed = armed
        await self.check_copy()

    async def check_copy(self) -> None:
        """The restored keyspace is what was there when its backup was made."""
        copy = AsyncKeyspace(await open_space(self.life.process.store, COPY, SMALL))
        found = {}
        for tag in sorted({tag for tag, _ in self.backups[-1]}):
            async for each in copy.objects(BUCKET, tag=tag):
                found[tag, each.head.key] = each.value
        assert found == visible(self.backups[-1], self.life.now_s)


async def some_objects(life: RebuildLife) -> None:
    """Objects that stay and objects that go, in segments of which some were compacted."""
    app = life.life
    await app.begin(life.faults.log_plan)
    await app.change([(("o", f"k{number}"), b"%d" % number * 60, None) for number in range(8)])
    await app.change([(("o", "ends"), b"e" * 50, 20), (("x", "kept"), b"x" * 100, None)])
    for number in range(4):
        await app.change([(("o", f"k{key}"), b"%d" % number * 80, None) for key in (1, 2, 5)])
    await app.change([(("o", "k0"), None, None), (("x", "kept"), b"y", None)])
    await app.world.environment.sleep(60)
    await app.space.reap()
    await app.compact(8)
    await app.change([(("o", "last"), b"%d" % number * 40, None) for number in range(9)])
    await app.settled()
    await app.process.store.flush()


async def no_ledger(life: RebuildLife) -> None:
    await some_objects(life)
    await life.life.process.store.table(NAMES.ledger, force=True).remove_range()


async def a_backup(life: RebuildLife) -> None:
    await some_objects(life)
    await life.back_up()
    await life.life.change([(("o", "later"), b"later", None), (("o", "k3"), None, None)])


async def rebuild(life: RebuildLife) -> None:
    await life.rebuild(lost=False)


async def make_again(life: RebuildLife) -> None:
    await life.rebuild(lost=True)


async def back_up(life: RebuildLife) -> None:
    await life.back_up()


async def restore(life: RebuildLife) -> None:
    await life.restore()


OPERATIONS = {
    "back_up": (a_backup, back_up),
    "make_again": (no_ledger, make_again),
    "rebuild": (some_objects, rebuild),
    "restore": (a_backup, restore),
}


def play(name: str, number: int = 0, fate: str = "") -> Faults:
    """Play an operation with one of its calls failing, and look at what came of it."""
    before, act = OPERATIONS[name]
    faults = Faults(number, fate)

    async def operated(made: World) -> None:
        life = RebuildLife(CompactionLife(made), faults)
        made.storage_hook = faults.watch
        await before(life)
        faults.armed = True
        await act(life)
        faults.armed = False
        await life.living()
        await life.open_keyspace()
        await life.life.world.environment.sleep(LATE_S)
        await life.life.check()
        if life.backups:
            if not life.restored:
                await life.restore()
            await life.check_copy()
        await life.life.reopen(dies=False)
        await life.life.change([(("o", "after"), b"after", None), (("o", "k5"), None, None)])
        await life.life.check()

    with world(settings=SETTINGS) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr("siltstone.objects.ledger_rebuild.COMMIT_COUNT", 4)
        imports_into(made, patch)
        places_in(made, patch)
        run_watched(made, faults, operated(made))
    return faults


def cases(name: str) -> list[tuple[int, str]]:
    """Every call of an operation with every fate that it may have."""
    return fates_of(play(name))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    every = cases(name)
    for number, fate in Random(name).sample(every, min(SAMPLE, len(every))):
        play(name, number, fate)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    for number, fate in shared(cases(name)):
        play(name, number, fate)


def test_calls_of_log_storage_and_place_meet_faults() -> None:
    seen = {call.split()[0] for name in ("back_up", "restore") for call in play(name).seen}
    assert seen >= {"create", "delete", "list", "log"}
