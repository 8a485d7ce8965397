"""A small container, as its files are after a crash or a close, and every state it went through."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from siltstone.container.container import Container
from siltstone.container.models.segments import Append, Put
from siltstone.core.constants import KIB
from siltstone.core.environment import Environment
from siltstone.core.errors import SiltstoneError
from siltstone.core.records.envelope import RecordKind, claimed_kind
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.store.manifest import create_manifest, read_manifest
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.faults.place import STILL, NoSync, Place
from tests.support.kill.ledger import Readable

TABLE = "t"
KEYS = (b"one", b"two")
SEGMENTS = ("a", "b", "c")
STORE_ID = bytes(range(16))

_BUILD_SEED, _LOOK_SEED = 1, 2
"""They differ, so an id that a look draws was never used before."""

State = dict[str, bytes | None]
"""Content of every segment and value of every key, by name; ``None`` where there is none."""


@dataclass(frozen=True)
class Image:
    """Files of a container.

    Attributes:
        folder: where they lie; never opened, only copied.
        states: what a look would have shown after each step, the last one first.
        closed: whether its last owner closed it.
    """

    folder: Path
    states: tuple[State, ...]
    closed: bool

    def files(self, *patterns: str) -> list[str]:
        """Names of the files that match, below ``folder``."""
        found = {
            str(path.relative_to(self.folder))
            for pattern in patterns
            for path in self.folder.glob(pattern)
            if path.is_file()
        }
        return sorted(found)

    def needed(self) -> frozenset[str]:
        """Files that every look reads whole, so that none of their bytes changes unnoticed."""
        journal = self.files("chunks/system/**/journal-*")
        kinds = [claimed_kind((self.folder / name).read_bytes()) for name in journal]
        newest = len(kinds) - 1 - kinds[::-1].index(RecordKind.CHECKPOINT)
        return frozenset(
            (
                *journal[newest:],
                *self.files("chunks/system/store", "chunks/data/**/*"),
                self.files("chunks/system/**/tables-*")[-1],
            )
        )


class Look:
    """What one open showed.

    Attributes:
        state: what was read; what could not be read is left out.
        errors: what was refused, and why.
        told: whether it said that something was passed over, dropped or found damaged.
    """

    def __init__(self) -> None:
        self.state: State = {}
        self.errors: list[SiltstoneError] = []
        self.told = False

    @property
    def noticed(self) -> bool:
        """Whether it said in any way that something is not as it was written."""
        return self.told or bool(self.errors)

    def check(self, image: Image, *, cut: bool = False) -> None:
        """Check that nothing wrong was shown, and nothing left out in silence.

        Args:
            image: what was there before the damage.
            cut: a file was cut, so its end may be gone without a trace.
        """
        fitting = [
            state
            for state in image.states
            if all(state[name] == value for name, value in self.state.items())
        ]
        assert fitting, f"shown what never was: {self.state}"
        newest = fitting[0] is image.states[0] or self.errors
        assert newest or self.told or cut, "acknowledged bytes are missing in silence"


def look(folder: Path, *, own: bool) -> Look:
    """Open a copy of an image and read everything, on virtual time: retries wait for nothing."""
    environment = VirtualEnvironment(_LOOK_SEED)
    with environment.runner() as runner:
        return runner.run(_look(folder, environment, own=own))


async def _look(folder: Path, environment: Environment, *, own: bool) -> Look:
    place = Place(folder, file_bytes=16 * KIB)
    calls = NoSync()
    seen = Look()
    try:
        storage = place.storage(calls)
        try:
            read_manifest(storage)
        finally:
            storage.close()
        store = await (
            place.own(environment, STILL, calls=calls)
            if own
            else place.read_only(environment, STILL, calls=calls)
        )
        try:
            stats = store.stats()
            seen.told = bool(stats.dropped_tail or stats.warnings)
            await _read(store, seen)
            seen.told |= bool([f async for f in store.check() if f.severity != "garbage"])
        finally:
            await store.close()
    except SiltstoneError as error:
        seen.errors.append(error)
    return seen


async def _read(store: Readable, seen: Look) -> None:
    try:
        names = {info.name for info in await store.list_segments()}
        for name in set(SEGMENTS) - names:
            seen.state[name] = None
        assert names <= set(SEGMENTS), f"segments that never were: {names}"
    except SiltstoneError as error:
        seen.errors.append(error)
        names = set(SEGMENTS)
    for name in names:
        try:
            info = await store.info(name)
            seen.state[name] = await store.read(name, info.start_offset, info.length)
        except SiltstoneError as error:
            seen.errors.append(error)
    for key in KEYS:
        try:
            value = await store.table_get(TABLE, key)
            seen.state[key.decode()] = None if value is None else value.value
        except SiltstoneError as error:
            seen.errors.append(error)


class _Builder:
    def __init__(self, folder: Path, environment: Environment) -> None:
        self._place = Place(folder, file_bytes=16 * KIB)
        self._environment = environment
        self.state: State = dict.fromkeys((*SEGMENTS, *(key.decode() for key in KEYS)))
        self.states: list[State] = [dict(self.state)]

    async def build(self, target: Path, *, closed: bool) -> None:
        storage = self._place.storage()
        manifest = StoreManifest(store_id=STORE_ID, container_count=1, created_ms=0)
        create_manifest(storage, manifest)
        storage.close()
        container = await self._own()
        await container.create_table(TABLE)
        await self._create(container, "a")
        await self._append(container, "a", b"first " * 90)
        await self._commit(container, "a", b"with one ", b"one", b"1")
        await container.flush()
        await container.checkpoint()
        await container.close()
        container = await self._own()
        await self._append(container, "a", b"second owner " * 30)
        await self._create(container, "b")
        await self._once(container, "b", b"once ")
        await container.flush()
        await self._commit(container, "b", b"with two ", b"two", b"2" * 50)
        await container.checkpoint()
        await self._append(container, "a", b"behind the checkpoint ")
        await container.flush("a")
        await self._commit(container, "a", b"not flushed ", b"one", b"11")
        await self._create(container, "c")
        await self._append(container, "c", b"only in tier 1 " * 10)
        await self._append(container, "a", b"the last append")
        if closed:
            await container.close()
        shutil.copytree(self._place.folder, target)
        await container.close()

    async def _own(self) -> Container:
        return await self._place.own(self._environment, STILL)

    def _done(self, name: str, data: bytes) -> None:
        self.state[name] = (self.state[name] or b"") + data

    def _keep(self) -> None:
        self.states.append(dict(self.state))

    async def _create(self, container: Container, name: str) -> None:
        await container.create(name)
        self._done(name, b"")
        self._keep()

    async def _append(self, container: Container, name: str, data: bytes) -> None:
        await container.append(name, data)
        self._done(name, data)
        self._keep()

    async def _once(self, container: Container, name: str, data: bytes) -> None:
        writer = await container.register_writer(name, "w")
        await container.append_as(name, writer.number, 0, data)
        self._done(name, data)
        self._keep()

    async def _commit(
        self, container: Container, name: str, data: bytes, key: bytes, value: bytes
    ) -> None:
        await container.commit([Append(name, data), Put(TABLE, key, value)])
        self._done(name, data)
        self.state[key.decode()] = value
        self._keep()


def build_image(folder: Path, *, closed: bool) -> Image:
    """Build the container, the same way every time, and keep its files."""
    environment = VirtualEnvironment(_BUILD_SEED)
    builder = _Builder(folder / "live", environment)
    with environment.runner() as runner:
        runner.run(builder.build(folder / "image", closed=closed))
    for log in (folder / "image" / "index").glob("LOG*"):
        log.unlink()  # Long texts that are never read.
    return Image(folder / "image", tuple(reversed(builder.states)), closed)
