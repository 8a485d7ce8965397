"""Probes of long-term storage: an honest service passes, and each lie is found by its probe."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.constants import KIB
from siltstone.core.environment import Environment
from siltstone.core.errors import CapabilityError, ChunkError, ChunkUnavailableError, Outcome
from siltstone.store.admin.storage_probes import PROBES_PREFIX, StorageProbes, remove_leftovers
from siltstone.testing.virtual_time import VirtualEnvironment


class Lying(MemoryChunkStorage):
    """A service that matches its profile except for one call."""

    lie: str = ""

    def create(self, name: str, buffers: Sequence[Any]) -> None:
        if self.lie == "create overwrites" and name in self._names():
            super().delete(name)
        super().create(name, buffers)

    def _names(self) -> list[str]:
        return [stat.name for stat in super().list("")]

    def write(self, name: str, offset: int, buffers: Sequence[Any]) -> None:
        if self.lie == "write ignores the offset":
            offset = super().stat(name).length
        if self.lie == "write loses the bytes":
            return
        super().write(name, offset, buffers)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        count = super().read_into(name, offset, buffer)
        if self.lie == "ranges begin one early" and offset:
            super().read_into(name, offset - 1, buffer)
        return count

    def stat(self, name: str) -> ChunkStat:
        if self.lie == "stat fails":
            raise ChunkUnavailableError("no answer", chunk=name, operation="stat")
        return super().stat(name)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        found = list(super().list(prefix, start_after))
        if self.lie == "listing comes late":
            found = []
        if self.lie == "listing is out of order":
            found.reverse()
        if self.lie == "listing forgets where to begin":
            found = list(super().list(prefix))
        return iter(found)

    def delete(self, name: str) -> None:
        if self.lie == "delete does nothing":
            return
        super().delete(name)

    def seal(self, name: str) -> None:
        if self.lie != "seal does nothing":
            super().seal(name)

    def create_whole(self, name: str, buffers: Sequence[Any]) -> None:
        if self.lie == "whole create overwrites" and name in self._names():
            super().delete(name)
        if self.lie == "there are no links":
            raise CapabilityError("no links", chunk=name)
        super().create_whole(name, buffers)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        if self.lie == "concat turns round":
            sources = list(reversed(sources))
        super().concat(target, sources)
        if self.lie == "concat takes the sources":
            for name, _ in sources:
                super().delete(name)


LIES = {
    "create overwrites": "create is exclusive",
    "write ignores the offset": "append at a wrong offset",
    "write loses the bytes": "append",
    "ranges begin one early": "ranges",
    "stat fails": "visible at once",
    "listing comes late": "visible at once",
    "listing is out of order": "listings are in order",
    "listing forgets where to begin": "listings are in order",
    "delete does nothing": "deletion",
    "seal does nothing": "seal",
    "whole create overwrites": "whole create",
    "concat turns round": "concat",
    "concat takes the sources": "concat",
}


def _run(
    lie: str = "", profile: Profile | None = None, bucket: Bucket | None = None
) -> dict[str, tuple[str, str]]:
    environment: Environment = VirtualEnvironment(1)
    bucket = bucket or Bucket()

    def client() -> Lying:
        made = Lying(bucket, profile or Profile(), clock=environment.time, sleep=lambda _: None)
        made.lie = lie
        return made

    found = list(StorageProbes(client(), client(), environment).run())
    assert {probe.area for probe in found} == {"storage"}
    return {probe.name: (probe.outcome, probe.detail) for probe in found}


def test_an_honest_service_passes_and_keeps_nothing() -> None:
    bucket = Bucket()
    found = _run(bucket=bucket)
    assert {outcome for outcome, _ in found.values()} == {"ok"}
    assert not list(MemoryChunkStorage(bucket, Profile()).list(""))


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_found(lie: str) -> None:
    bucket = Bucket()
    found = _run(lie, bucket=bucket)
    assert found[LIES[lie]][0] == "failed", found
    if lie != "delete does nothing":
        assert not list(MemoryChunkStorage(bucket, Profile()).list(""))


def test_a_whole_create_that_only_a_trial_shows_to_be_missing_is_skipped() -> None:
    found = _run("there are no links")
    assert [name for name, (outcome, _) in found.items() if outcome == "skipped"] == [
        "whole create"
    ]
    assert "no links" in found["whole create"][1]


def test_what_is_not_claimed_is_not_probed() -> None:
    found = _run(profile=Profile(append=False, concat=False, seal=False))
    skipped = {name for name, (outcome, _) in found.items() if outcome == "skipped"}
    assert skipped == {"append", "append at a wrong offset", "seal", "concat"}
    assert {outcome for outcome, _ in found.values()} == {"ok", "skipped"}


def test_limits_are_respected_and_told() -> None:
    found = _run(profile=Profile(chunk_bytes_max=400 * KIB, concat_part_bytes_min=32 * 1024 * KIB))
    assert found["large chunks"][0] == "ok"
    assert f"largest chunk {400 * KIB}" in found["large chunks"][1]
    assert found["concat"][0] == "skipped"


def test_a_service_that_is_away_fails_every_probe() -> None:
    class Away(MemoryChunkStorage):
        def __getattribute__(self, name: str) -> Any:
            if name in ("create", "write", "read_into", "stat", "list", "delete", "used_space"):
                return _refuse(name)
            return super().__getattribute__(name)

    bucket = Bucket()
    environment = VirtualEnvironment(1)
    away = Away(bucket, Profile())
    found = list(StorageProbes(away, away, environment).run())
    assert {probe.outcome for probe in found if probe.name != "cleaning up"} == {"failed"}
    assert found[-1].name == "cleaning up"


def _refuse(operation: str) -> Callable[..., Any]:
    def call(*_: object) -> Any:
        error: ChunkError = ChunkUnavailableError(
            "no answer", chunk="?", operation=operation, outcome=Outcome.UNKNOWN
        )
        raise error

    return call


def test_leftovers_of_interrupted_probes_go_when_they_are_old() -> None:
    now = 1_000.0
    bucket = Bucket()
    storage = MemoryChunkStorage(bucket, Profile(), clock=lambda: now)
    storage.create(f"{PROBES_PREFIX}old/a", [b"x"])
    storage.create("system/store", [b"x"])
    now = 5_000.0
    storage.create(f"{PROBES_PREFIX}new/a", [b"x"])
    assert remove_leftovers(storage, before_s=2_000.0) == 1
    assert [stat.name for stat in storage.list("")] == [f"{PROBES_PREFIX}new/a", "system/store"]
