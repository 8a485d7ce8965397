"""The journal under faults.

What may fail: each mutation is applied, applied in part or not applied, and reported as done,
refused or unknown, or has its effect much later; the owner dies at any call; an older owner is
paused at any call and continues while newer ones work; one file is cut or has a changed byte.
What may not fail: acknowledged bytes of undamaged files stay; epochs are never shared.
What must hold after: recovery gives exactly the state after some batch, at least the last
acknowledged and at most the last issued one, with every file that it names, or it says that
something is damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.errors import CorruptDataError, LogError
from siltstone.journal.journal_state import JournalState
from siltstone.journal.retention import journal_number
from tests.support.journal.journal_world import (
    Bucket,
    Client,
    Fate,
    Owner,
    Stage,
    check_journal_state,
    make_owner,
    read_journal_of,
)


@dataclass(frozen=True)
class Step:
    """One thing that an owner does, or that happens to it."""

    verb: str
    length: int = 0

    async def run(self, owner: Owner) -> None:
        match self.verb:
            case "flush":
                await owner.flush(self.length)
            case "trim":
                await owner.trim()
            case "checkpoint":
                await owner.write_checkpoint()
            case "collect":
                owner.collect()
            case "late":
                owner.client.bucket.deliver_late()


STEPS = st.one_of(
    st.builds(Step, st.just("flush"), st.integers(1, 600_000)),
    st.sampled_from([Step("checkpoint"), Step("trim"), Step("collect"), Step("late")]),
)
FATES = st.lists(
    st.one_of(st.just(Fate.DONE), st.just(Fate.DONE), st.sampled_from(Fate)), max_size=40
)
LIVES = st.lists(st.tuples(st.lists(STEPS, max_size=12), FATES), min_size=1, max_size=4)

PROGRAM = [
    Step("flush", 300_000),
    Step("flush", 10),
    Step("checkpoint"),
    Step("flush", 600_000),
    Step("flush", 7),
    Step("trim"),
    Step("checkpoint"),
    Step("flush", 99),
    Step("flush", 1),
    Step("flush", 3),
]


async def live(owner: Owner, steps: list[Step]) -> None:
    """Run the steps until the journal fails."""
    try:
        await owner.begin()
        for step in steps:
            await step.run(owner)
    except LogError:
        with pytest.raises(LogError):
            await owner.write_checkpoint()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(LIVES, st.booleans(), st.integers(1, 4))
async def test_every_life_ends_in_a_state_that_the_next_one_finds(
    lives: list[tuple[list[Step], list[Fate]]], append: bool, page: int
) -> None:
    bucket = Bucket()
    newest: Owner | None = None
    journal_state: JournalState | None = None
    for epoch, (steps, fates) in enumerate(lives, start=1):
        client = Client(bucket, append=append, fates=iter(fates))
        owner = make_owner(client, epoch=epoch, journal_state=journal_state, file_bytes_max=900)
        await live(owner, steps)
        journal_state = await read_journal_of(bucket, epoch + 1, page=page)
        if journal_state is not None and journal_state.epoch == epoch:
            newest = owner
        assert newest is owner or not owner.journal.checkpoints
        if newest is None:
            assert journal_state is None
        else:
            check_journal_state(newest, journal_state)
        assert await read_journal_of(bucket, epoch + 1) == journal_state


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25), FATES, st.booleans(), st.booleans())
async def test_one_damaged_checkpoint_loses_nothing(
    steps: list[Step], fates: list[Fate], append: bool, cut: bool
) -> None:
    bucket = Bucket()
    owner = make_owner(Client(bucket, append=append), file_bytes_max=900)
    await owner.begin()
    owner.client.fates = iter(fates)
    try:
        for step in steps:
            await step.run(owner)
    except LogError:
        pass
    damaged = owner.journal.checkpoints[-1].file_name
    if cut:
        del bucket.chunks[damaged][-9:]
    else:
        bucket.chunks[damaged][20] ^= 1
    journal_state = await read_journal_of(bucket)
    check_journal_state(owner, journal_state)
    assert journal_state
    assert journal_state.checkpoint_file != damaged


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("fate", [Fate.LOST_REPLY, Fate.LOST_CALL, Fate.TORN, Fate.LATE])
def test_the_owner_dies_at_every_mutation(append: bool, fate: Fate) -> None:
    async def run(crash_at: int) -> bool:
        bucket = Bucket()

        def fates(client: Client) -> Iterator[Fate]:
            for _ in range(crash_at):
                yield Fate.DONE
            client.dead = True
            yield fate

        client = Client(bucket, append=append)
        client.fates = fates(client)
        owner = make_owner(client, file_bytes_max=900)
        await live(owner, PROGRAM)
        for _ in range(2):
            journal_state = await read_journal_of(bucket)
            if journal_state is None:
                assert not owner.journal.checkpoints
            else:
                check_journal_state(owner, journal_state)
            bucket.deliver_late()
        return client.dead

    crash_at = 0
    while asyncio.run(run(crash_at)):
        crash_at += 1
    assert crash_at > len(PROGRAM)


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_a_zombie_paused_at_every_call_changes_nothing_that_a_newer_epoch_left(
    append: bool, after: bool
) -> None:
    async def run(pause_at: int) -> bool:
        bucket = Bucket()
        stage = Stage()
        stage.pause_at, stage.pause_after = pause_at, after
        zombie = make_owner(Client(bucket, append=append), stage=stage, file_bytes_max=900)
        life = asyncio.create_task(live(zombie, PROGRAM))
        pause = asyncio.create_task(stage.paused.wait())
        await asyncio.wait([life, pause], return_when=asyncio.FIRST_COMPLETED)
        paused = stage.paused.is_set()
        pause.cancel()
        acknowledged = zombie.acknowledged
        journal_state = await read_journal_of(bucket, 2)
        if journal_state is None:
            assert not zombie.journal.checkpoints
        else:
            assert check_journal_state(zombie, journal_state) >= acknowledged
        # The newer owner opens and works while the older one continues, then boots again.
        owner = make_owner(
            Client(bucket, append=append), epoch=2, journal_state=journal_state, file_bytes_max=900
        )
        stage.resume.set()
        await asyncio.gather(life, live(owner, PROGRAM[:6]))
        check_journal_state(owner, await read_journal_of(bucket, 3))
        return paused

    pause_at = 0
    while asyncio.run(run(pause_at)):
        pause_at += 1
    assert pause_at > len(PROGRAM)


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("page", [1, 2, 1_000])
def test_a_zombie_writes_while_the_next_owner_reads(append: bool, page: int) -> None:
    async def run(pause_at: int) -> bool:
        bucket = Bucket()
        zombie = make_owner(Client(bucket, append=append), file_bytes_max=900)
        await live(zombie, PROGRAM[:4])
        stage = Stage()
        stage.pause_at = pause_at
        reading = asyncio.create_task(read_journal_of(bucket, 2, page=page, stage=stage))
        pause = asyncio.create_task(stage.paused.wait())
        await asyncio.wait([reading, pause], return_when=asyncio.FIRST_COMPLETED)
        paused = stage.paused.is_set()
        pause.cancel()
        acknowledged = zombie.acknowledged
        if paused:
            for step in PROGRAM[4:]:
                await step.run(zombie)
            # What it stated as deletable before it was fenced may go while the next owner reads.
            zombie.collect()
        stage.resume.set()
        journal_state = await reading
        assert journal_state
        assert acknowledged <= journal_state.next_sequence <= zombie.issued
        assert journal_state.layouts == zombie.states[journal_state.next_sequence]
        return paused

    pause_at = 0
    while asyncio.run(run(pause_at)):
        pause_at += 1
    assert pause_at > 2


async def finished_bucket(*, append: bool) -> Owner:
    """The owner of a bucket in which the whole program has run."""
    owner = make_owner(Client(Bucket(), append=append))
    await live(owner, PROGRAM)
    assert owner.acknowledged == 8
    return owner


async def check_damaged(owner: Owner, bucket: Bucket, *, least: int) -> bool:
    """Check that recovery is right or complains; return whether it gave a state."""
    try:
        journal_state = await read_journal_of(bucket)
    except CorruptDataError as error:
        if journal_number(error.where) is None:
            pytest.fail(f"the error names no journal file: {error}")
        return False
    assert journal_state
    reached = journal_state.next_sequence
    assert least <= reached <= owner.acknowledged
    assert journal_state.layouts == owner.states[reached]
    assert journal_state.warnings or reached == owner.acknowledged
    return True


@pytest.mark.parametrize("append", [True, False])
async def test_every_changed_byte_of_every_file_is_survived_or_noticed(append: bool) -> None:
    owner = await finished_bucket(append=append)
    survived: dict[str, bool] = {}
    for name in owner.journal.files:
        content = owner.client.bucket.chunks[name]
        # The end of the very last file may be taken for a batch that was never acknowledged.
        least = owner.acknowledged - (name == owner.journal.files[-1])
        for index in range(len(content)):
            for mask in {1 << index % 8, 3} if index < 8 else {1 << index % 8}:
                content[index] ^= mask
                right = await check_damaged(owner, owner.client.bucket, least=least)
                survived[name] = survived.get(name, True) and right
                content[index] ^= mask
    assert all(survived[durable.file_name] for durable in owner.journal.checkpoints)


@pytest.mark.parametrize("append", [True, False])
async def test_every_cut_of_the_last_file_gives_the_whole_batches_before_it(append: bool) -> None:
    owner = await finished_bucket(append=append)
    name = owner.journal.files[-1]
    content = bytes(owner.client.bucket.chunks[name])
    reached = set()
    for length in range(len(content) + 1):
        owner.client.bucket.chunks[name][:] = content[:length]
        journal_state = await read_journal_of(owner.client.bucket)
        assert journal_state
        assert journal_state.layouts == owner.states[journal_state.next_sequence]
        reached.add(journal_state.next_sequence)
    assert reached == ({5, 6, 7, 8} if append else {7, 8})


@pytest.mark.parametrize("append", [True, False])
async def test_every_cut_and_every_loss_of_an_older_file_is_survived_or_noticed(
    append: bool,
) -> None:
    owner = await finished_bucket(append=append)
    bucket = owner.client.bucket
    for name in owner.journal.files[:-1]:
        content = bytes(bucket.chunks[name])
        for length in range(len(content)):
            bucket.chunks[name][:] = content[:length]
            await check_damaged(owner, bucket, least=owner.acknowledged)
        del bucket.chunks[name]
        await check_damaged(owner, bucket, least=owner.acknowledged)
        bucket.chunks[name] = bytearray(content)


async def test_the_state_is_not_empty() -> None:
    owner = await finished_bucket(append=True)
    assert owner.store.layout(TABLE_LOG_ID).storage_length > 900_000
