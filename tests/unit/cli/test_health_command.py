"""The verb ``health``: what it shows, and its exit codes, by which a monitor tells the states."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.cli import health_command
from siltstone.cli.session import Session
from siltstone.container.health.monitor import ContainerHealth
from siltstone.container.models.health import HealthReason, HealthState
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.storage.circuit_breaker import CircuitState
from siltstone.store.store import Store
from tests.support.command import Command


@pytest.mark.slow
def test_a_store_in_good_order(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"x")
        owned = command("health", "--json")
        assert [one.state for one in store.health()] == [HealthState.OK] * 2
    for ran in (owned, command("health", "--json")):
        assert ran.code == 0
        (value,) = ran.values
        assert value["state"] == "ok"
        assert [one["container"] for one in value["containers"]] == [0, 1]
        assert all(one["calls"] > 0 and not one["reasons"] for one in value["containers"])
    shown = command("health")
    assert shown.code == 0
    assert shown.out.startswith("long-term storage is ok\nCONTAINER  STATE")


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("verb", ["health", "stat"])
def test_a_container_whose_log_is_lost_hides_no_other(
    command: Command, folder: Path, lost: int, verb: str
) -> None:
    with siltstone.open(folder) as store:
        uuid = store.uuid
    shutil.rmtree(folder / "tier1" / f"c{lost}")
    ran = command(verb, "--json")
    assert ran.code == 6
    bad, good = (ran.values[0]["containers"][index] for index in (lost, 1 - lost))
    assert (bad["container"], bad["state"]) == (lost, "failed")
    assert f"there is no folder {folder}/tier1/c{lost}" in bad["error"]
    assert (good["container"], good["error"]) == (1 - lost, None)
    assert ran.values[0].get("state", "ok") == "ok"
    assert ran.values[0].get("uuid", uuid) == uuid
    shown = command(verb)
    assert shown.code == 6
    rows = shown.out.splitlines()[2:4]
    assert rows[lost].split()[:3] == [str(lost), "failed", "-"]
    assert f"container {lost}: there is no folder" in shown.out
    assert rows[1 - lost].split()[1] not in ("failed", "-")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["health", "stat"])
def test_a_store_of_which_no_container_opens(command: Command, folder: Path, verb: str) -> None:
    siltstone.open(folder).close()
    shutil.rmtree(folder / "tier1")
    ran = command(verb, "--json")
    assert ran.code == 6
    assert [one["state"] for one in ran.values[0]["containers"]] == ["failed", "failed"]
    assert ran.values[0].get("state", "unknown") == "unknown"
    assert command(verb).code == 6


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["ok", "ok"], 0),
        (["ok", "slow"], 0),
        (["degraded", "slow"], 7),
        (["degraded", "unavailable"], 8),
    ],
)
def test_the_worst_container_decides(
    command: Command, monkeypatch: pytest.MonkeyPatch, states: list[str], code: int
) -> None:
    found = [
        ContainerHealth(
            container=index,
            state=HealthState(state),
            reasons=() if state == "ok" else (HealthReason.SLOW,),
            calls=3,
            unanswered=0,
            slow_calls=3,
            latency_s=1.5,
            circuit=CircuitState.CLOSED,
            unflushed_age_s=0.0,
            lateness_s=0.0,
            throttle_s=0.0,
        )
        for index, state in enumerate(states)
    ]
    monkeypatch.setattr(Store, "health", lambda self: found)
    ran = command("health", "--json")
    assert ran.code == code
    assert ran.values[0]["state"] == health_command._worst(found)
    assert [one["state"] for one in ran.values[0]["containers"]] == states
    text = command("health")
    assert text.code == code
    assert text.out.count("calls take longer than expected") == len(states) - states.count("ok")


def test_storage_that_does_not_answer(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_reader(session: Session) -> Store:
        raise ChunkUnavailableError("no route to host", chunk="c", operation="stat")

    monkeypatch.setattr(Session, "open_reader", open_reader)
    ran = command("health", "--json")
    assert (ran.code, ran.values[0]["state"]) == (8, "unavailable")
    assert "no route to host" in ran.values[0]["error"]
    text = command("health")
    assert (text.code, text.out) == (8, "long-term storage is unavailable\n")
    assert "no route to host" in text.err


def test_what_rows_of_keyspaces_tell_is_shown_and_changes_no_exit_code(
    command: Command, folder: Path
) -> None:
    with siltstone.open(folder) as store:
        for name in ("photos", "films"):
            objects.create(store, name)
    assert command("health", "--json").values[0]["keyspaces"] == []
    with siltstone.open(folder) as store:
        store.segment("objects/{photos}/values/00000001", force=True).delete()
    ran = command("health", "--json")
    ((told,), code) = ran.values[0]["keyspaces"], ran.code
    assert (told["keyspace"], told["kind"], code) == ("photos", "unreadable", 0)
    assert "it does not open: a value segment is gone" in told["message"]
    assert f"keyspace photos: {told['message']}\n" in command("health").out


def test_keyspaces_of_which_nothing_is_known_are_told(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="a", operation="read")

    with siltstone.open(folder) as store:
        objects.create(store, "photos")
    monkeypatch.setattr(objects, "warnings", fails)
    (told,) = command("health", "--json").values[0]["keyspaces"]
    assert (told["keyspace"], told["kind"]) == (None, "unknown")
    assert "keyspaces: no answer" in command("health").out
