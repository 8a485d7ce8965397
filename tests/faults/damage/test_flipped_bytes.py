"""A small container one of whose bytes is another than what was written, or whose last file is cut.

What may fail: one byte of one file, wherever it is; or the end of the newest log file or journal
file, from any byte on.
What may not fail: everything else.
What must hold after: an open and every read of it, as owner or read-only, returns what was written
or raises an error of ours. Acknowledged bytes may be refused; they are never others, and never left
out in silence. What is read whole each time, such as the newest journal files, has no byte that can
change unnoticed, whether or not it matters today. The local index is a cache: damage to it costs a
rebuild or is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.faults.damage.image import Image, build_image
from tests.faults.damage.trials import GROUPS, Bench, every, is_options, some, used

STEPS = {"log": 127, "journal": 19, "tables": 61, "remote index": 499, "local index": 499}
"""CI tries every so many bytes; make soak tries all."""

PARTS = 4
"""A soak is cut into so many tests, for several processes."""

SPARE = 8
"""Bytes in use of a file that was only made for later: none, see ``used``."""

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_image(tmp_path_factory.mktemp("crashed"), closed=False)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_image(tmp_path_factory.mktemp("closed"), closed=True)


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a soak restores its copies a hundred thousand times.

    The tests of CI, which do the same, work on the disk.
    """
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="siltstone-damage-") as folder:
        yield Path(folder)


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
        spots = islice(every(image, group), part, None, PARTS)
        place = memory_path / f"{image.closed}"
        place.mkdir()
        assert Bench(image, place).flip(group, ((spot, own) for spot in spots))


def cut_files(image: Image, folder: Path, pattern: str, step: int, part: int = 0) -> None:
    name = [found for found in image.files(pattern) if used(image.folder / found) > SPARE][-1]
    bench = Bench(image, folder)
    for length in range(part, used(image.folder / name), step):
        for own in (False, True) if step == PARTS else (bool(length % 2),):

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
    cut_files(crashed, tmp_path, pattern, step)


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("pattern", ["log/c0/e*.log", "chunks/system/**/journal-*"])
def test_every_cut_of_a_file(crashed: Image, memory_path: Path, pattern: str, part: int) -> None:
    cut_files(crashed, memory_path, pattern, PARTS, part)
