"""A push says that nothing was published only if that is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome, OutcomeUnknownError
from siltstone.volumes import Volume
from siltstone.volumes.place_calls import CreateRecord, ReadObject
from tests.support.volumes.page_model import commit
from tests.support.volumes.synced_world import SyncedWorld, unanswered


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with SyncedWorld(tmp_path).open("a") as client:
        volume = client.create("v")
        commit(volume, ("write", 1, 1))
        volume.push()
        commit(volume, ("write", 1, 2))
        yield volume


class Answers:
    """What creates of records are answered, one after the other; later ones as they are.

    ``lost`` is done and not told, ``refused`` is neither done nor said to be.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
        self._left = list(kinds)
        self._perform = CreateRecord.perform
        monkeypatch.setattr(CreateRecord, "perform", lambda call, at: self.perform(call, at))

    def perform(self, call: CreateRecord, storage: ChunkStorage) -> None:
        kind = self._left.pop(0) if self._left else ""
        if kind == "refused":
            raise unanswered(call, Outcome.NOT_APPLIED)
        self._perform(call, storage)
        if kind == "lost":
            raise unanswered(call, Outcome.UNKNOWN)


def test_a_refusal_alone_says_that_nothing_was_published(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, "refused")
    with pytest.raises(ChunkUnavailableError) as raised:
        volume.push()
    assert raised.value.outcome is Outcome.NOT_APPLIED
    assert volume.push()
    assert volume.info().line == "2 r2"


def test_a_refusal_after_a_request_without_an_answer_says_nothing(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, "lost", "refused", "refused")
    with pytest.raises(OutcomeUnknownError):
        volume.push()
    # Neither does one of a later push, as the first request may have been taken.
    with pytest.raises(OutcomeUnknownError):
        volume.push()
    assert volume.info().is_pending
    assert volume.push()
    assert volume.info().line == "2 r2"


def test_a_name_that_is_taken_by_whom_cannot_be_seen_says_nothing(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    Answers(monkeypatch, "lost")
    read = ReadObject.perform
    cuts = iter([True])

    def cut_off(call: ReadObject, storage: ChunkStorage) -> Any:
        if next(cuts, False):
            raise unanswered(call, Outcome.NOT_APPLIED)
        return read(call, storage)

    monkeypatch.setattr(ReadObject, "perform", cut_off)
    with pytest.raises(OutcomeUnknownError):
        volume.push()
    assert volume.push()
    assert volume.info().line == "2 r2"
