"""A small container one of whose bytes is another than what was written, or whose last file is cut.

What may fail: one byte of one file, wherever it is; or the end of the newest log file or journal
file, from any byte on.
What may not fail: everything else.
What must hold after: an open and every read of it, as owner or read-only, returns what was written
or raises an error of ours. Acknowledged bytes may be refused; they are never others, and never left
out in silence. The local index is a cache: damage to it costs a rebuild or is an error.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.faults.damage.image import Image, build_image, look

CHUNKS = "chunks/data/**/*"
REMOTE_INDEX = "chunks/system/**/index-*"
LOCAL_INDEX = ("index/*", "index-checkpoint/*")

PATTERNS = {
    "log": ("log/c0/e*.log", "log/c0/marker", "log/c0/lock"),
    "journal": ("chunks/system/**/journal-*", "chunks/system/**/claim", "chunks/system/store"),
    "tables": ("chunks/system/**/tables-*", CHUNKS),
    "remote index": (REMOTE_INDEX,),
    "local index": LOCAL_INDEX,
}

STEPS = {"log": 127, "journal": 19, "tables": 61, "remote index": 499, "local index": 499}
"""CI tries every so many bytes; make soak tries all."""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return asyncio.run(build_image(tmp_path_factory.mktemp("crashed"), closed=False))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return asyncio.run(build_image(tmp_path_factory.mktemp("closed"), closed=True))


def used(path: Path) -> int:
    """Bytes up to the last one that is not zero, and a few behind it."""
    data = path.read_bytes()
    return min(len(data), len(data.rstrip(b"\0")) + 8)


def spots(image: Image, group: str, step: int) -> Iterator[tuple[str, int]]:
    """Every ``step``-th byte of a group's files, as if these were one."""
    skip = 0
    for name in image.files(*PATTERNS[group]):
        length = used(image.folder / name)
        yield from ((name, position) for position in range(skip, length, step))
        skip = (skip - length) % step


def tried(
    image: Image,
    folder: Path,
    change: Callable[[Path], None],
    *,
    own: bool,
    local_index: bool,
    cut: bool = False,
) -> None:
    shutil.copytree(image.folder, folder)
    if not local_index:
        shutil.rmtree(folder / "index")
        shutil.rmtree(folder / "index-checkpoint")
    change(folder)
    asyncio.run(look(folder, own=own)).check(image, cut=cut)
    shutil.rmtree(folder)


def flip(image: Image, folder: Path, group: str, where: Iterable[tuple[str, int, bool]]) -> None:
    count = 0
    for name, position, own in where:

        def change(place: Path, name: str = name, position: int = position) -> None:
            data = bytearray((place / name).read_bytes())
            data[position] ^= 1 << position % 8
            (place / name).write_bytes(data)

        local_index = group == "local index" or (group != "remote index" and position % 2 == 0)
        try:
            tried(image, folder / f"{count}", change, own=own, local_index=local_index)
        except BaseException as error:
            error.add_note(f"byte {position} of {name}, own={own}, local index={local_index}")
            raise
        count += 1
    assert count, "nothing was tried"


@pytest.mark.slow
@pytest.mark.parametrize("group", PATTERNS)
def test_a_flipped_byte_after_a_crash(crashed: Image, tmp_path: Path, group: str) -> None:
    found = enumerate(spots(crashed, group, STEPS[group]))
    flip(crashed, tmp_path, group, ((*spot, bool(index % 2)) for index, spot in found))


@pytest.mark.slow
def test_a_flipped_byte_in_a_closed_log(closed: Image, tmp_path: Path) -> None:
    found = enumerate(spots(closed, "log", STEPS["log"]))
    flip(closed, tmp_path, "log", ((*spot, bool(index % 2)) for index, spot in found))


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("group", PATTERNS)
def test_every_flipped_byte(
    crashed: Image, closed: Image, tmp_path: Path, group: str, *, own: bool
) -> None:
    for image in (crashed, closed) if group == "log" else (crashed,):
        flip(image, tmp_path, group, ((*spot, own) for spot in spots(image, group, 1)))


def cut_files(image: Image, folder: Path, pattern: str, step: int) -> None:
    name = image.files(pattern)[-1]
    for length in range(0, used(image.folder / name), step):
        for own in (False, True) if step == 1 else (bool(length % 2),):

            def change(place: Path, length: int = length) -> None:
                with (place / name).open("r+b") as file:
                    file.truncate(length)

            try:
                tried(
                    image,
                    folder / f"{length}-{own}",
                    change,
                    own=own,
                    local_index=length % 3 == 0,
                    cut=True,
                )
            except BaseException as error:
                error.add_note(f"{name} cut at {length}, own={own}")
                raise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "step"), [("log/c0/e*.log", 97), ("chunks/system/**/journal-*", 31)]
)
def test_a_cut_file(crashed: Image, tmp_path: Path, pattern: str, step: int) -> None:
    cut_files(crashed, tmp_path, pattern, step)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("pattern", ["log/c0/e*.log", "chunks/system/**/journal-*"])
def test_every_cut_of_a_file(crashed: Image, tmp_path: Path, pattern: str) -> None:
    cut_files(crashed, tmp_path, pattern, 1)
