"""A legacy layout, and the verbs that migrate it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import siltstone
from tests.support.migration.rolling_model import ModelFile, RollingModel

WAYS = pytest.mark.parametrize("way", [(), ("--in-place",)], ids=["copy", "in place"])


TWO = {"a$header": "maxsize=3&0=a$offset.0&3=a$offset.3&", "a$offset.0": "abc", "a$offset.3": "de"}


MANY = {
    **TWO,
    "b$header": "maxsize=9&0=b$offset.0&",
    "b$offset.0": "xyz",
    "c": "bare",
    "d$header": "maxsize=2&0=d$offset.0&concat=2@1&maxsize=4&0=e$offset.0&4=e$offset.4&",
    "d$offset.0": "d",
    "e$offset.0": "eeee",
    "e$offset.4": "GG",
    "f$header": "maxsize=2&2=f$offset.2&4=f$offset.4&",
    "f$offset.2": "ffTAIL",
    "f$offset.4": "f",
}


MANY_SHOWN = {
    "a": (0, 5, False, b"abcde"),
    "b": (0, 3, True, b"xyz"),
    "c": (0, 4, False, b"bare"),
    "d": (0, 7, False, b"deeeeGG"),
    "f": (2, 5, False, b"fff"),
}


@pytest.fixture
def small(folder: Path) -> Path:
    """A small layout of two segments, alike."""
    return written(
        folder / "chunks" / "small",
        {**TWO, "b$header": "maxsize=9&0=b$offset.0&", "b$offset.0": "xyz"},
    )


def written(place: Path, files: Mapping[str, str]) -> Path:
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name).write_text(text)
    return place


def fingerprint(place: Path) -> dict[str, tuple[str, int, int]]:
    """Every file of a tree: bytes, mode, and when it was changed."""
    return {
        path.relative_to(place).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
        )
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def rolling(place: Path) -> RollingModel:
    """A reader of the old layout, independent of ours."""
    model = RollingModel()
    for path in place.rglob("*"):
        if path.is_file():
            sealed = not path.stat().st_mode & 0o200
            name = path.relative_to(place).as_posix()
            model.files[name] = ModelFile(bytearray(path.read_bytes()), sealed)
    return model


def shown(folder: Path) -> dict[str, tuple[int, int, bool, bytes]]:
    """Every segment of a store: start, length, sealed, bytes."""
    with siltstone.open(folder, read_only=True) as store:
        return {
            info.name: (
                info.start_offset,
                info.length,
                info.sealed,
                store.segment(info.name).read(
                    info.start_offset, max(1, info.length - info.start_offset)
                )
                if info.length > info.start_offset
                else b"",
            )
            for info in store.list()
        }


class KilledError(BaseException):
    """The process ends here."""


def dying(real: Callable[..., Any], calls: int, *, before: bool) -> Callable[..., Any]:
    left = [calls]

    def call(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if before and left[0] == 0:
            raise KilledError
        result = real(*arguments, **named)
        if left[0] == 0:
            raise KilledError
        return result

    return call
