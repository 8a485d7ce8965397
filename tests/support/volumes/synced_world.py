"""Clients beside one place whose calls can be stopped, lost, delayed and left without an answer.

The world knows which create took a slot of the log, so it knows what the place holds whatever the
clients were told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkUnavailableError,
    Outcome,
    SiltstoneError,
)
from siltstone.volumes.client import VolumeClient
from siltstone.volumes.place_calls import CreateBundle, CreateRecord, PlaceCall, Steps
from siltstone.volumes.settings import ClientSettings, Durability

Late = Callable[[], None]


class DiedError(BaseException):
    """The client died before, in or after a call."""


@dataclass
class Fate:
    """What becomes of the calls of one operation.

    Attributes:
        at: number of the call that it befalls, from 0 on; the others are answered.
        kind: ``dies before``, ``dies after``, ``refused`` (nothing happened), ``lost`` (done,
            without an answer), ``late`` (done later, without an answer) or ``never`` (not done,
            without an answer).
        every: also all later calls of the same class.
    """

    at: int
    kind: str
    every: bool = False


def unanswered(call: PlaceCall, outcome: Outcome) -> ChunkUnavailableError:
    return ChunkUnavailableError(
        "no answer", chunk=getattr(call, "name", ""), operation="call", outcome=outcome
    )


@dataclass
class SyncedWorld:
    """One place, and what was asked of it late.

    Attributes:
        folder: of the clients' folders.
        bucket: what the place holds.
        late: creates that may still take effect.
        calls: classes of the calls of the last operation.
        hear: told of each call before it is made, or not.
    """

    folder: Path
    bucket: Bucket = field(default_factory=Bucket)
    late: list[Late] = field(default_factory=list)
    calls: list[type] = field(default_factory=list)
    hear: Callable[[PlaceCall], None] = lambda _: None

    def storage(self) -> ChunkStorage:
        return MemoryChunkStorage(self.bucket)

    def open(self, name: str, **settings: Any) -> VolumeClient:
        """Open the client in a folder of this name."""
        chosen: dict[str, Any] = {"place": "memory", "durability": Durability.PROCESS} | settings
        return VolumeClient(
            self.folder / name, ClientSettings(**chosen), self.storage, SystemEnvironment()
        )

    def run(self, steps: Steps[Any], fate: Fate | None = None) -> Any:
        """Run an operation; ``DiedError`` when its client died."""
        storage = self.storage()
        self.calls = []
        befallen: type | None = None
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                call = steps.throw(error) if error is not None else steps.send(answer)
            except StopIteration as end:
                return end.value
            hit = fate is not None and (
                len(self.calls) == fate.at or (fate.every and type(call) is befallen)
            )
            self.calls.append(type(call))
            self.hear(call)
            answer = error = None
            try:
                if not hit or fate is None:
                    answer = call.perform(storage)
                else:
                    befallen = type(call)
                    self._befall(call, fate.kind, storage)
            except DiedError:
                steps.close()
                raise
            except SiltstoneError as raised:
                error = raised

    def let_one_through(self, number: int) -> bool:
        """Let a late create take effect; whether there was one."""
        if not self.late:
            return False
        self.late.pop(number % len(self.late))()
        return True

    def _befall(self, call: PlaceCall, kind: str, storage: ChunkStorage) -> None:
        if kind == "dies before":
            raise DiedError
        if kind == "refused":
            raise unanswered(call, Outcome.NOT_APPLIED)
        if kind in {"dies after", "lost"}:
            with suppress(ChunkExistsError):
                call.perform(storage)
        elif kind == "late" and isinstance(call, CreateRecord | CreateBundle):
            self.late.append(later(call, storage))
        if kind == "dies after":
            raise DiedError
        raise unanswered(call, Outcome.UNKNOWN)


def later(call: CreateRecord | CreateBundle, storage: ChunkStorage) -> Late:
    """The same create at another time."""
    if isinstance(call, CreateRecord):
        name, data = call.name, call.data
    else:
        call.file.seek(0)
        name, data = call.name, call.file.read()

    def take_effect() -> None:
        with suppress(ChunkExistsError):
            storage.create(name, [data])

    return take_effect
