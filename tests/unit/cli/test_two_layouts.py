"""Two legacy layouts in one store, each with an end of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


@pytest.fixture
def layouts(command: Command, folder: Path) -> list[Path]:
    """A segment each, taken in place."""
    made = []
    for name in ("a", "b"):
        place = folder / "chunks" / f"old-{name}"
        place.mkdir(parents=True)
        (place / f"{name}$header").write_text(f"maxsize=9&0={name}$offset.0&")
        (place / f"{name}$offset.0").write_text(name * 5)
        assert command("migrate", "legacy", str(place), "--in-place").code == 0
        made.append(place)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "left"), [(0, 1), (1, 0)])
def test_one_is_kept_for_good_and_the_other_one_goes_back(
    command: Command, folder: Path, layouts: list[Path], kept: int, left: int
) -> None:
    before = {path.name: path.read_bytes() for path in layouts[left].iterdir()}
    assert command("migrate", "finalise", str(layouts[kept])).code == 0
    assert command("migrate", "rollback", str(layouts[kept])).code == 4
    assert command("migrate", "rollback", str(layouts[left])).code == 0
    assert {path.name: path.read_bytes() for path in layouts[left].iterdir()} == before
    name = "ab"[kept]
    with siltstone.open(folder, read_only=True) as store:
        assert [info.name for info in store.list()] == [name]
        assert store.segment(name).read(0, 5) == name.encode() * 5
