"""A store is taken over or opened while it is switched to another place.

Injected: an owner that takes over at one moment of the switch, and writes; an owner that read the
settings of the store before the switch, and claims it afterwards.
Must hold: the switch is refused, what this owner wrote is there, and the new place belongs to no
store; or the owner is refused, and the new place has everything.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.container import Container
from siltstone.core.constants import KIB
from siltstone.core.errors import FencedError, StoreNotFoundError
from siltstone.migration.relocate.switch import switch_storage
from siltstone.store.store_assembly import Assembly
from tests.support.migration.backups import content_of, noise, tmp_path
from tests.support.migration.moved_store import moved_settings
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = make_store(tmp_path / "store", chunk_bytes=32 * KIB, containers=2)
    with siltstone.open(folder) as store:
        store.create("a").append(noise(40_000))
        store.flush()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["create system/store-moved", "delete system/store", "copying"])
def test_a_store_that_is_taken_over_meanwhile_stays_where_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")
    taken: list[siltstone.Store] = []

    def take(now: str) -> None:
        if now == moment and not taken:
            taken.append(siltstone.open(folder, takeover=True))
            taken[0].segment("a").append(b"of who took over")
            taken[0].flush()

    def first(verb: str) -> Callable[..., None]:
        real = getattr(NfsChunkStorage, verb)

        def call(self: NfsChunkStorage, name: str, *more: object) -> None:
            take(f"{verb} {name}")
            real(self, name, *more)

        return call

    with monkeypatch.context() as patch:
        for verb in ("create", "delete"):
            patch.setattr(NfsChunkStorage, verb, first(verb))
        with pytest.raises(FencedError, match="took the store over"):
            switch_storage(folder, new, progress=lambda done, total: take("copying"))
    with taken[0] as store:
        store.segment("a").append(b", and more")
        store.flush()
        store.checkpoint()
    assert content_of(folder)["a"].data.endswith(b"of who took over, and more")
    assert not (folder / "chunks" / "system" / "store-moved").exists()
    assert not (folder / "elsewhere" / "system" / "store").exists()
    switch_storage(folder, new)
    assert content_of(folder)["a"].data.endswith(b"of who took over, and more")


@pytest.mark.slow
@pytest.mark.parametrize("takeover", [False, True])
def test_an_opening_that_began_before_the_store_was_switched_does_not_own_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, takeover: bool
) -> None:
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")
    expected = content_of(folder)
    opened = Assembly.open_owner

    async def late(self: Assembly, index: int, *, takeover: bool) -> Container:
        if not (folder / "siltstone.yaml.before-switch").exists():
            switch_storage(folder, new)
        return await opened(self, index, takeover=takeover)

    with monkeypatch.context() as patch:
        patch.setattr(Assembly, "open_owner", late)
        with pytest.raises(StoreNotFoundError, match="was switched"):
            siltstone.open(folder, takeover=takeover)
    assert content_of(folder) == expected
    with siltstone.open(folder) as store:
        store.segment("a").append(b"at the new place")
        store.flush()
    assert content_of(folder)["a"].data == expected["a"].data + b"at the new place"
