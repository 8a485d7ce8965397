"""A migration of the code alone, step by step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    SiltstoneError,
)
from siltstone.store.store import Store
from tests.support.command import Command, Ran
from tests.support.migration.migrated_layout import rolling

Seen = dict[str, tuple[int, int, bool, bytes]]


def prepare(settings: Path) -> None:
    """Let a store open quickly, and garbage go when it is collected."""
    text = settings.read_text("utf-8")
    text = text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB")
    settings.write_text(f"{text}\ngarbage:\n  delay: 0s\n", "utf-8")


def prepared_store(folder: Path, containers: int) -> Path:
    """Make such a store; return its settings file."""
    settings = siltstone.init(folder, containers=containers)
    prepare(settings)
    return settings


def begin(command: Command, place: Path, *more: str) -> Ran:
    return command("migrate", "legacy", str(place), "--mode", "code_only", *more)


def collect(store: Store) -> None:
    for _ in range(3):
        store.flush()
        store.collect()


def check_original(place: Path, expected: Seen) -> None:
    """The original reads what the store shows; of what was truncated it may read more."""
    model = rolling(place)
    for name, (start, length, sealed, data) in expected.items():
        found = model.read(name)
        assert found[1:3] == (length, sealed), name
        assert found[0] <= start, name
        assert found[3][start - found[0] :] == data, name


CHANGING = ("create", "overwrite", "seal", "delete")


class Killed:
    """Ends all calls to long-term storage at the n-th that changes a file of the layout.

    Attributes:
        calls: how many there were.
    """

    def __init__(self, patch: pytest.MonkeyPatch, place: Path, number: int, how: str) -> None:
        self.calls = 0
        self._number = number
        self._how = how
        self._prefix = f"{place.name}/"
        self._dead = False
        for verb in (*CHANGING, "write", "stat", "read_into", "list"):
            real = getattr(NfsChunkStorage, verb)
            patch.setattr(NfsChunkStorage, verb, self._wrapped(verb, real))

    def _wrapped(self, verb: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(storage: NfsChunkStorage, name: str = "", *more: Any) -> Any:
            dead = ChunkAccessDeniedError("the process is dead", chunk=name, operation=verb)
            if self._dead:
                raise dead
            if verb not in CHANGING or not name.startswith(self._prefix):
                return real(storage, name, *more)
            self.calls += 1
            if self.calls != self._number:
                return real(storage, name, *more)
            self._dead = True
            if self._how == "after":
                real(storage, name, *more)
            elif self._how == "torn" and verb in ("create", "overwrite"):
                data = b"".join(bytes(part) for part in more[-1])
                if len(data) > 1:
                    real(storage, name, *more[:-1], [data[: len(data) // 2]])
            raise dead

        return call


def written_over(path: Path, text: str) -> None:
    path.write_text(text)


def flush_quietly(store: Store) -> None:
    with suppress(SiltstoneError):
        store.flush()
