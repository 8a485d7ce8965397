"""Verbs that delete leave what belongs to keyspaces alone, unless that is forced."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from tests.support.command import Command

VALUES = "objects/{photos}/values/00000001"
LEDGER = "objects/{photos}/ledger"


@pytest.fixture
def photos(folder: Path) -> Path:
    """A store with a keyspace, and with segments whose names are like its."""
    with siltstone.open(folder) as store:
        objects.create(store, "photos").put("b", "k", b"v")
        for name in ("objects/mine", "other"):
            store.create(name).append(b"0123456789")
    return folder


@pytest.mark.parametrize(
    "verb",
    [
        ("rm", VALUES),
        ("rm", "--dry-run", VALUES),
        ("rm", "other", VALUES),
        ("rm", "--prefix", "o"),
        ("truncate", VALUES, "3"),
        ("table", "rm", LEDGER, "x"),
        ("table", "clear", LEDGER, "--all"),
    ],
)
def test_what_belongs_to_a_keyspace_is_refused_and_nothing_is_done(
    command: Command, photos: Path, verb: tuple[str, ...]
) -> None:
    ran = command(*verb)
    assert ran.code == 2
    assert "belongs to a keyspace" in ran.err
    assert "--force" in ran.err
    assert "keyspace=photos" in ran.err
    with siltstone.open(photos) as store:
        assert {"objects/mine", "other"} <= {info.name for info in store.list()}
        found = objects.open(store, "photos").get("b", "k")
        assert found is not None
        assert found.value == b"v"


def test_what_is_forced_is_done_and_other_names_need_no_force(
    command: Command, photos: Path
) -> None:
    assert command("rm", "objects/mine").code == 0
    assert command("truncate", "other", "3").code == 0
    assert command("truncate", "--force", VALUES, "3").code == 0
    assert command("table", "rm", "--force", LEDGER, "x").code == 0
    assert command("table", "clear", "--force", LEDGER, "--all").code == 0
    assert command("rm", "--force", VALUES).code == 0
    with siltstone.open(photos) as store:
        assert [info.name for info in store.list()] == ["other"]
        with pytest.raises(objects.KeyspaceNotFoundError):
            objects.open(store, "photos")
