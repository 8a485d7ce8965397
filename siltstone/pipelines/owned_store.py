"""A store that a job owns: every container claimed before anything is planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from siltstone.container.container import Container
from siltstone.core.environment import SystemEnvironment
from siltstone.core.text import uuid_text
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.store_assembly import Assembly, assembled


@dataclass(slots=True)
class OwnedStore:
    """What a job that changes a store works with.

    Attributes:
        path: the settings file, absolute, as workers find it.
        uuid: of the store.
        loop: where the containers live.
        containers: all of them, in the order of their indexes.
    """

    path: str
    uuid: str
    loop: BackgroundLoop
    containers: list[Container] = field(default_factory=list)


@contextmanager
def owned_store(path: Path | str, *, takeover: bool = False) -> Iterator[OwnedStore]:
    """Claim every container of a store, until the end of the block.

    Args:
        path: the settings file, or its folder.
        takeover: claim them although live owners are known, which are fenced.

    Raises:
        StoreInUseError: a live owner holds one, and ``takeover`` is false; nothing was done.
        StoreNotFoundError: there is no store.
        SettingsError: the settings file is wrong.
    """
    environment = SystemEnvironment()
    loop = BackgroundLoop(name="siltstone-owner")
    assembly: Assembly | None = None
    owned: OwnedStore | None = None
    try:
        assembly = assembled(path, environment)
        uuid = uuid_text(assembly.manifest.store_id)
        owned = OwnedStore(str(Path(assembly.settings.file).absolute()), uuid, loop)
        for index in range(assembly.manifest.container_count):
            opening = assembly.open_owner(index, takeover=takeover)
            owned.containers.append(loop.run(opening))
        yield owned
    finally:
        for container in owned.containers if owned is not None else ():
            loop.run(container.close())
        loop.close()
        if assembly is not None:
            assembly.close()
        environment.close()
