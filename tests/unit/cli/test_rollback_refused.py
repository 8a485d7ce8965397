"""Rollbacks that cannot bring a segment back: what is reported, and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.store.blocking.segment import Segment
from tests.support.command import Command
from tests.support.migration.migrated_layout import WAYS, dying, fingerprint, rolling, shown
from tests.support.migration.migrated_layout import small as small


@pytest.mark.slow
@WAYS
def test_the_way_out_that_is_told_is_one(
    command: Command, folder: Path, small: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    before = fingerprint(small)
    assert command("migrate", "legacy", str(small), *way).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more")
    (small / "a$offset.5").write_text("whose?")
    ran = command("migrate", "rollback", str(small))
    assert ran.code == 1
    assert "a$offset.5 is in the way; migrate export writes the segment elsewhere" in ran.out
    assert command("migrate", "export", str(tmp_path / "out"), "a").code == 0
    assert command("rm", "a").code == 0
    assert command("migrate", "rollback", str(small)).code == (0 if way else 4)
    assert shown(folder) == {}
    assert rolling(tmp_path / "out").read("a") == (0, 9, False, b"abcdemore")
    (small / "a$offset.5").unlink()
    assert fingerprint(small) == before


@pytest.mark.slow
@WAYS
def test_what_a_rollback_that_died_wrote_is_compared(
    command: Command,
    folder: Path,
    small: Path,
    way: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command("migrate", "legacy", str(small), *way).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more")
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "delete", dying(Segment.delete, 1, before=True))
        assert command("migrate", "rollback", str(small)).code == 1
    assert (small / "a$offset.5").read_bytes() == b"mor"
    (small / "a$offset.5").chmod(0o644)
    (small / "a$offset.5").write_bytes(b"MOR")
    ran = command("migrate", "rollback", str(small))
    assert ran.code == 1
    assert "the layout has other bytes from 5 on" in ran.out
    assert shown(folder) == {"a": (0, 9, False, b"abcdemore")}
