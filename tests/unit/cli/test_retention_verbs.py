"""The verbs of ``retention``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command

MIB = 2**20


@pytest.mark.slow
def test_rules_come_are_shown_work_and_go(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        for name in ("logs/a", "logs/b", "other"):
            segment = store.create(name)
            for _ in range(4):
                segment.append(bytes(MIB))
        store.flush()
    assert command("retention", "set", "logs/", "--prefix", "--bytes", "2MiB").code == 0
    said = command("retention", "set", "logs/b", "--keep-all").out
    assert said == "keeps everything by the rule of segment 'logs/b'\n"
    shown = command("retention", "show").out.splitlines()
    assert [line.split() for line in shown[1:]] == [
        ["prefix", "logs/", "2MiB", "-"],
        ["segment", "logs/b", "-", "-"],
    ]
    (rule,) = command("retention", "show", "logs/a", "--json").values
    assert rule == {"name": "logs/", "prefix": True, "bytes_max": 2 * MIB, "age_max_s": None}
    assert command("retention", "show", "other", "--json").values == []
    assert "2MiB by the rule of prefix 'logs/'" in command("stat", "logs/a").out
    planned = command("retention", "run", "--dry-run")
    assert planned.out == f"logs/a: {2 * MIB:,} bytes, from 0 on\n"
    assert "would go" in planned.err
    assert command("stat", "logs/a", "--json").values[0]["start_offset"] == 0
    (cut,) = command("retention", "run", "--json").values
    assert (cut["segment"], cut["cut_offset"]) == ("logs/a", 2 * MIB)
    assert command("stat", "logs/a", "--json").values[0]["start_offset"] == 2 * MIB
    assert command("retention", "remove", "logs/", "--prefix").code == 0
    assert command("retention", "remove", "logs/", "--prefix").code == 3
    assert command("retention", "show", "logs/a", "--json").values == []


@pytest.mark.slow
def test_ages(command: Command, folder: Path) -> None:
    assert command("retention", "set", "", "--prefix", "--age", "7d", "--bytes", "1GiB").code == 0
    with siltstone.open(folder) as store:
        (rule,) = store.retention()
        assert (rule.age_max_s, rule.bytes_max) == (7 * 86400.0, 2**30)
        store.set_retention("log", age_max=timedelta(hours=1))
        assert store.create("log").info().retention == siltstone.RetentionRule(
            name="log", prefix=False, bytes_max=None, age_max_s=3600.0
        )
        assert store.remove_retention("log")
        assert not store.remove_retention("log")
        assert list(store.retain(dry_run=True)) == list(store.retain()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "log"),
        ("set", "log", "--bytes", "1MiB", "--keep-all"),
        ("set", "log", "--bytes", "many"),
        ("set", "log", "--age", "10"),
        ("run", "--dry-run", "--takeover"),
    ],
)
def test_wrong_usage(command: Command, arguments: tuple[str, ...]) -> None:
    assert command("retention", *arguments).code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("", {"bytes_max": 1}, siltstone.SegmentNameError),
        ("_system/", {"bytes_max": 1, "prefix": True}, siltstone.SegmentNameError),
        ("a", {"bytes_max": -1}, ValueError),
        ("a", {"bytes_max": 1.5}, TypeError),
        ("a", {"age_max": 0.5}, ValueError),
        ("a", {"age_max": float("nan")}, ValueError),
        ("a", {"age_max": "1d"}, TypeError),
    ],
)
def test_impossible_rules(
    folder: Path, name: str, options: dict[str, object], kind: type[Exception]
) -> None:
    with siltstone.open(folder) as store:
        with pytest.raises(kind):
            store.set_retention(name, **options)  # type: ignore[arg-type]
        assert list(store.retention()) == []
