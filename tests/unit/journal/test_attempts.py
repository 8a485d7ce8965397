"""Attempts to write one record: how long they wait, which file gets it, what errors say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from siltstone.core.chunk_names import journal_file
from siltstone.core.errors import LogError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.circuit_breaker import CircuitState
from siltstone.journal.journal import ATTEMPTS_MAX, BACKOFF_S, PATIENCE_S, Journal
from tests.support.journal.journal_world import (
    CONTAINER,
    LINEAGE,
    Bucket,
    Client,
    Fate,
    Owner,
    Stage,
    check_journal_state,
    make_owner,
    read_journal_of,
)


def file(number: int) -> str:
    return journal_file(CONTAINER, 1, number)


class Silence(Stage):
    """Storage seems silent from pause number ``begin`` up to ``end``."""

    def __init__(self, *, begin: int, end: float) -> None:
        super().__init__()
        self.begin = begin
        self.end = end
        self.storage: AsyncChunkStorage | None = None

    def attach(self, owner: Owner) -> None:
        self.storage = owner.storage
        self._look()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._look()

    def _look(self) -> None:
        if self.storage is not None:
            silent = self.begin <= len(self.slept) < self.end
            circuit = self.storage.watch.circuit
            circuit.state = CircuitState.OPEN if silent else CircuitState.CLOSED


async def opened(
    client: Client | None = None, *, stage: Stage | None = None, file_bytes_max: int = 2_000
) -> Owner:
    owner = make_owner(client or Client(Bucket()), stage=stage, file_bytes_max=file_bytes_max)
    await owner.begin()
    return owner


# --- waiting for storage ---


async def test_a_patient_journal_sends_nothing_while_storage_is_silent() -> None:
    stage = Silence(begin=0, end=7)
    owner = await opened(stage=stage)
    owner.journal.begin_service()
    stage.attach(owner)
    await owner.flush(10)
    assert stage.slept == [BACKOFF_S] * 7
    assert owner.client.mutations[2:] == [("create", file(3))]


async def test_patience_ends_and_the_record_is_sent_anyway() -> None:
    stage = Silence(begin=0, end=float("inf"))
    owner = await opened(stage=stage)
    owner.journal.begin_service()
    stage.attach(owner)
    await owner.flush(10)
    assert sum(stage.slept) == pytest.approx(PATIENCE_S, abs=2 * BACKOFF_S)
    assert owner.client.mutations[2:] == [("create", file(3))]


async def test_a_journal_that_is_not_patient_does_not_wait() -> None:
    stage = Silence(begin=0, end=7)
    owner = await opened(stage=stage)
    stage.attach(owner)
    await owner.flush(10)
    assert stage.slept == []


@pytest.mark.parametrize("failures", [1, ATTEMPTS_MAX - 1])
async def test_each_attempt_waits_the_last_one_too(failures: int) -> None:
    stage = Silence(begin=failures, end=failures + 6)
    owner = await opened(stage=stage)
    owner.client.fates = iter([Fate.LOST_CALL] * failures)
    owner.journal.begin_service()
    stage.attach(owner)
    await owner.flush(10)
    assert stage.slept[failures:] == [BACKOFF_S] * 6


# --- which file has it ---


@pytest.mark.parametrize("failures", range(ATTEMPTS_MAX))
async def test_a_checkpoint_is_where_its_last_attempt_put_it(failures: int) -> None:
    owner = await opened()
    owner.client.fates = iter([Fate.LOST_CALL] * failures)
    name = await owner.journal.write_checkpoint(owner.checkpoint)
    assert name == file(3 + failures)
    newest = owner.journal.checkpoints[-1]
    assert (newest.number, newest.file_name) == (3 + failures, name)
    # No batch goes to the file of a checkpoint, whichever attempt it took.
    await owner.flush(10)
    assert owner.client.mutations[-1] == ("create", file(4 + failures))
    assert check_journal_state(owner, await read_journal_of(owner.client.bucket)) == 1


async def test_the_first_checkpoint_is_named_by_its_second_file() -> None:
    owner = make_owner(Client(Bucket()))
    assert await owner.journal.write_first_checkpoint(owner.checkpoint) == file(2)


@pytest.mark.parametrize("failures", [0, 1, ATTEMPTS_MAX - 1])
async def test_a_chunk_is_kept_by_the_batch_that_named_it_wherever_that_is(failures: int) -> None:
    owner = await opened(Client(Bucket(), append=False))
    await owner.write_checkpoint()
    owner.client.fates = iter([Fate.LOST_CALL] * failures)
    await owner.flush(10)
    (passed,) = [chunk.name for chunk in owner.store.snapshot()[0].chunks]
    await owner.flush(10)
    await owner.trim()
    await owner.write_checkpoint()
    # The checkpoint before that batch is one of the two newest; a boot may begin there.
    assert passed not in owner.collect()
    await owner.write_checkpoint()
    assert passed in owner.collect()


async def test_a_file_takes_all_the_writes_that_the_service_allows() -> None:
    owner = await opened(Client(Bucket(), appends_max=4))
    for _ in range(6):
        await owner.flush(10)
    kinds = [operation for operation, _ in owner.client.mutations[2:]]
    assert kinds == ["create", "write", "write", "write", "create", "write"]


async def batch_lengths(count: int) -> list[int]:
    """Lengths of ``count`` batches of 10 bytes each."""
    owner = await opened(file_bytes_max=10**6)
    lengths = [0]
    for _ in range(count):
        await owner.flush(10)
        lengths.append(len(owner.client.bucket.chunks[file(3)]))
    return [after - before for before, after in pairwise(lengths)]


@pytest.mark.parametrize("by_service", [True, False])
async def test_a_file_may_be_filled_to_its_last_byte(by_service: bool) -> None:
    room = sum(await batch_lengths(3))
    for bytes_max, files in ((room, 1), (room - 1, 2)):
        client = Client(Bucket())
        if by_service:
            client.capabilities = replace(client.capabilities, chunk_bytes_max=bytes_max)
        owner = await opened(client, file_bytes_max=10**6 if by_service else bytes_max)
        for _ in range(3):
            await owner.flush(10)
        assert len(owner.journal.files) == 2 + files


# --- what errors say ---


async def test_the_error_names_its_cause_and_every_later_one_that_error() -> None:
    owner = await opened()
    owner.client.fates = iter([Fate.LOST_CALL] * ATTEMPTS_MAX)
    with pytest.raises(LogError) as first:
        await owner.flush(10)
    cause = first.value.__cause__
    assert cause is not None
    assert str(first.value) == f"journal write failed cause={cause!r}"
    with pytest.raises(LogError) as later:
        await owner.write_checkpoint()
    assert later.value.__cause__ is first.value
    assert str(later.value) == f"journal has failed cause={first.value}"


@pytest.mark.parametrize("field", ["lineage", "epoch", "sequence"])
async def test_a_record_of_another_owner_is_a_defect_and_is_not_written(field: str) -> None:
    owner = await opened()
    other: dict[str, bytes | int] = {"lineage": bytes(16), "epoch": 2, "sequence": 1}

    def compose(sequence: int) -> Checkpoint:
        return replace(owner.checkpoint(sequence), **{field: other[field]})  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match=f"composed for another {field}"):
        await owner.journal.write_checkpoint(compose)
    assert len(owner.client.mutations) == 2
    assert owner.journal.failure is None


async def test_a_second_first_checkpoint_is_a_defect() -> None:
    owner = await opened()
    with pytest.raises(AssertionError, match="there is one first checkpoint"):
        await owner.begin()
    assert len(owner.client.mutations) == 2


async def test_a_journal_continues_from_the_numbers_it_is_given() -> None:
    stage = Stage()
    client = Client(Bucket())
    storage = AsyncChunkStorage(client, stage)
    journal = Journal(storage, stage, CONTAINER, 1, LINEAGE, next_file=8, next_sequence=5)
    owner = make_owner(client)
    assert (journal.next_sequence, journal.files, journal.checkpoints) == (5, (), ())

    def compose(sequence: int) -> Checkpoint:
        assert sequence == 5
        return replace(owner.checkpoint(0), sequence=sequence)

    assert await journal.write_first_checkpoint(compose) == file(9)
    assert journal.files == (file(8), file(9))
