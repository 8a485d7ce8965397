"""The verb ``volume``: volumes made, synced, looked at and dropped, and SQLite in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def client(tmp_path: Path) -> tuple[str, ...]:
    return ("--client", str(tmp_path / "a"))


@pytest.fixture
def other(tmp_path: Path) -> tuple[str, ...]:
    return ("--client", str(tmp_path / "b"))


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, ...]:
    return ("--place", str(tmp_path / "place"))


def test_a_database_is_made_pushed_cloned_and_read(
    command: Command, client: tuple[str, ...], other: tuple[str, ...], place: tuple[str, ...]
) -> None:
    log = command("volume", "create", "v", *client, *place).out.strip()
    assert len(bytes.fromhex(log)) == 16
    statements = ("create table t(x)", "insert into t values (1), (2)")
    assert command("volume", "sql", "v", *statements, *client).code == 0
    assert command("volume", "status", "v", *client).out == "2 +2 r_\n"
    assert command("volume", "push", "v", *client).out == "2 r1\n"
    assert command("volume", "clone", "v", log, *other, *place).out == f"{log}\n"
    ran = command("volume", "sql", "v", "select sum(x) as total from t", "--json", *other)
    assert ran.values == [{"total": 3}]
    assert command("volume", "sql", "v", "insert into t values (4)", *other).code == 0
    assert command("volume", "direction", "v", "push", *other).code == 0
    assert command("volume", "sync", *other).out == "v: pushed\n"
    assert command("volume", "fetch", "v", *client).out == "1\n"
    assert command("volume", "pull", "v", "--json", *client).values == [
        {"volume": "v", "pulled": True, "line": "3 r2"}
    ]
    assert command("volume", "hydrate", "v", "--json", *client).values[0]["slabs"] == 1
    assert command("volume", "evict", "v", "--keep", "4KiB", "--json", *client).values == [
        {"volume": "v", "pages": 1}
    ]
    assert command("volume", "recover", "v", "--json", *client).values[0]["recovered"] is False
    (listed,) = command("volume", "ls", "--json", *other).values
    assert (listed["name"], listed["log"], listed["line"]) == ("v", log, "2 r2")
    assert (listed["sync"], listed["status"]) == ("push", "ok")
    assert "v     2 r2" in command("volume", "ls", *other).out


def test_what_is_given_up_is_asked_for(
    command: Command, client: tuple[str, ...], place: tuple[str, ...]
) -> None:
    command("volume", "create", "v", *client, *place)
    command("volume", "sql", "v", "create table t(x)", *client)
    for verb in ("reset", "drop"):
        assert command("volume", verb, "v", *client).code != 0
    assert command("volume", "status", "v", *client).out == "1 +1 r_\n"
    assert command("volume", "reset", "v", "--yes", *client).out == "2 r_\n"
    assert command("volume", "drop", "v", "--yes", "--json", *client).values == [
        {"dropped": "v", "unpushed": 0}
    ]
    assert command("volume", "ls", "--json", *client).values == []


def test_failures_have_their_codes(
    command: Command, client: tuple[str, ...], other: tuple[str, ...], place: tuple[str, ...]
) -> None:
    assert command("volume", "ls", *client).code == 2, "a new client has no place"
    log = command("volume", "create", "v", *client, *place).out.strip()
    assert command("volume", "create", "v", *client).code == 4
    assert command("volume", "create", "", *client).code == 2
    assert command("volume", "status", "w", *client).code == 3
    assert command("volume", "clone", "w", "00" * 16, *client).code == 3
    command("volume", "sql", "v", "create table t(x)", *client)
    command("volume", "push", "v", *client)
    command("volume", "clone", "v", log, *other, *place)
    for who in (client, other):
        command("volume", "sql", "v", "insert into t values (1)", *who)
    assert command("volume", "push", "v", *client).code == 0
    ran = command("volume", "push", "v", *other)
    assert (ran.code, "volume reset" in ran.err) == (4, True)
    assert command("volume", "status", "v", *other).out == "2 +1 r1 rejected commit\n"
    assert command("volume", "pull", "v", *other).code == 4
    assert command("volume", "status", "v", *other).out == "2 +1 r1 +1 conflict\n"
    assert command("volume", "sync", *other).out == "v: skipped\n"
    assert command("volume", "sql", "v", "select * from nothing", *client).code != 0
