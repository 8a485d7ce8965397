"""Looking at stores and places of backups from outside, and making storage die, for their tests."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.storage.wrapper import WrappedChunkStorage
from tests.support.memory_folder import folder_in_memory


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory: every object is synced, and no disk is tested here."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@dataclass(frozen=True)
class Seen:
    """A segment as a user sees it."""

    start: int
    data: bytes
    sealed: bool
    attributes: tuple[tuple[str, str], ...]


def content(store: siltstone.Store) -> dict[str, Seen]:
    """Every segment of a store, every byte."""
    found = {}
    for info in store.list():
        data = store.segment(info.name).read(info.start_offset, info.length - info.start_offset)
        noted = tuple(sorted(info.attributes.items()))
        found[info.name] = Seen(info.start_offset, data, info.sealed, noted)
    return found


def content_of(folder: Path, fine: Collection[str] = ()) -> dict[str, Seen]:
    """The same, of a store that no process has open; it is checked as well."""
    with siltstone.open(folder, read_only=True) as store:
        assert [found for found in store.check(deep=True) if found.severity not in fine] == []
        return content(store)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Died(BaseException):
    """What a process does not survive; nothing of ours catches it."""


class Mortal:
    """Dies at its ``last`` change of storage, before or after the effect; then nothing works."""

    def __init__(self, last: int, *, after: bool) -> None:
        self.left = last
        self.after = after
        self.dead = False

    def wrap(self, storage: ChunkStorage) -> MortalStorage:
        return MortalStorage(storage, self)


class MortalStorage(WrappedChunkStorage):
    def __init__(self, inner: ChunkStorage, mortal: Mortal) -> None:
        super().__init__(inner)
        self.mortal = mortal

    def _call(self, operation: str, name: str, action: Any) -> Any:
        mortal = self.mortal
        if mortal.dead:
            raise Died
        if operation not in ("create", "write", "delete"):
            return action()
        mortal.left -= 1
        if mortal.left >= 0:
            return action()
        mortal.dead = True
        if mortal.after:
            action()
        raise Died

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        if self.mortal.left == 0 and not self.mortal.dead and not self.mortal.after:
            # Half a chunk under its name, as a folder may have it.
            self.mortal.dead = True
            data = b"".join(bytes(buffer) for buffer in buffers)
            if len(data) > 1:
                self.inner.create(name, [data[: len(data) // 2]])
            raise Died
        super().create(name, buffers)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        if self.mortal.left == 0 and not self.mortal.dead and not self.mortal.after:
            self.create(name, [bytes(piece) for piece in pieces])
        super().create_from(name, length, pieces)


def damage(path: Path, position: int) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 0x40
    path.chmod(0o644)
    path.write_bytes(data)


@contextmanager
def silent(monkeypatch: pytest.MonkeyPatch, segment: str) -> Iterator[None]:
    """Let stores in folders never answer for the bytes of one segment's chunks."""
    read_into = NfsChunkStorage.read_into

    def unanswered(
        self: NfsChunkStorage, name: str, offset: int, buffer: memoryview | bytearray
    ) -> int:
        if name.startswith("data/") and f"/{segment}/" in name:
            raise ChunkUnavailableError("no answer", chunk=name, operation="read_into")
        return read_into(self, name, offset, buffer)

    with monkeypatch.context() as patch:
        patch.setattr(NfsChunkStorage, "read_into", unanswered)
        yield


def noise(length: int) -> bytes:
    """Bytes that no two chunks share."""
    return os.urandom(length)
