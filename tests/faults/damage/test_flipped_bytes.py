"""A small container in which one byte is wrong, or whose last file is cut.

What may fail: one byte of one file, wherever it is; or the end of the newest log file or journal
file, from any byte on.
What may not fail: everything else.
What must hold after: an open and every read of it, as owner or read-only, returns what was written
or raises an error of ours. Acknowledged bytes may be refused; they are never wrong, and never left
out in silence. A file that is read whole each time, such as the newest journal files, has no byte
that can change unnoticed, whether or not it matters today. The local index is a cache: damage to it
costs a rebuild or is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, product
from pathlib import Path

import pytest

from tests.faults.damage.image import Image, build_image
from tests.faults.damage.trials import GROUPS, Bench, every, is_options, some, used
from tests.support.soak import shared

STEPS = {"log": 127, "journal": 19, "tables": 61, "remote index": 499, "local index": 499}
"""CI tries one byte in this many; make soak tries all."""

PARTS = 4
"""A soak is cut into this many tests, for several processes."""

SPARE = 8
"""Bytes in use of a file that was only made for later: none, see ``used``."""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_image(tmp_path_factory.mktemp("crashed"), closed=False)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_image(tmp_path_factory.mktemp("closed"), closed=True)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_a_flipped_byte_after_a_crash(crashed: Image, tmp_path: Path, group: str) -> None:
    spots = enumerate(some(crashed, group, STEPS[group]))
    assert Bench(crashed, tmp_path).flip(group, ((spot, bool(index % 2)) for index, spot in spots))


@pytest.mark.slow
def test_a_flipped_byte_in_a_closed_log(closed: Image, tmp_path: Path) -> None:
    spots = enumerate(some(closed, "log", STEPS["log"]))
    assert Bench(closed, tmp_path).flip("log", ((spot, bool(index % 2)) for index, spot in spots))


@pytest.mark.parametrize("own", [False, True])
def test_nothing_of_the_local_index_comes_from_a_text_of_options(
    crashed: Image, tmp_path: Path, *, own: bool
) -> None:
    """So a soak may flip one in 16 of their bytes, and finds nothing in the others."""

    def garble(place: Path) -> None:
        texts = [path for path in place.glob("index*/*") if is_options(path.read_bytes())]
        assert texts
        for path in texts:
            path.write_bytes(b"neither options nor text \0\xff" * 9)

    seen = Bench(crashed, tmp_path).tried(garble, own=own, local_index=True)
    assert seen.state == crashed.states[0]
    assert not seen.errors


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("group", GROUPS)
def test_every_flipped_byte(
    crashed: Image, closed: Image, memory_path: Path, group: str, *, own: bool, part: int
) -> None:
    for image in (crashed, closed) if group == "log" else (crashed,):
        spots = list(islice(every(image, group), part, None, PARTS))
        assert spots
        place = memory_path / f"{image.closed}"
        place.mkdir()
        Bench(image, place).flip(group, ((spot, own) for spot in shared(spots)))


def last_file(image: Image, pattern: str) -> tuple[str, int]:
    """The name of the last file in use, and how much of it is used."""
    files = [(name, used(image.folder / name)) for name in image.files(pattern)]
    return [file for file in files if file[1] > SPARE][-1]


def cut_file(image: Image, folder: Path, name: str, cuts: Iterable[tuple[int, bool]]) -> None:
    """Cut a file at each length, and look as owner or reader."""
    bench = Bench(image, folder)
    for length, own in cuts:

        def change(place: Path, length: int = length) -> None:
            with (place / name).open("r+b") as file:
                file.truncate(length)

        try:
            bench.tried(change, own=own, local_index=length % 3 == 0, cut=True)
        except BaseException as error:
            error.add_note(f"{name} cut at {length}, own={own}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "step"), [("log/c0/e*.log", 97), ("chunks/system/**/journal-*", 31)]
)
def test_a_cut_file(crashed: Image, tmp_path: Path, pattern: str, step: int) -> None:
    name, length = last_file(crashed, pattern)
    cut_file(crashed, tmp_path, name, ((at, bool(at % 2)) for at in range(0, length, step)))


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("pattern", ["log/c0/e*.log", "chunks/system/**/journal-*"])
def test_every_cut_of_a_file(crashed: Image, memory_path: Path, pattern: str, part: int) -> None:
    name, length = last_file(crashed, pattern)
    cuts = product(range(part, length, PARTS), (False, True))
    cut_file(crashed, memory_path, name, shared(cuts))
