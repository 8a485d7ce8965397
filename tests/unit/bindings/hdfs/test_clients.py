"""Clients are kept; a client whose call on a file was given up does not write to it again."""

from __future__ import annotations

from typing import Any

import pytest

from siltstone.bindings.hdfs import clients as module
from siltstone.bindings.hdfs.clients import CLIENTS_MAX, Clients
from siltstone.core.errors import ChunkUnavailableError, Outcome


class Client:
    """Stands for one of the SDK."""


def new_clients() -> tuple[Clients, list[Any]]:
    made: list[Any] = []

    def make() -> Any:
        made.append(Client())
        return made[-1]

    return Clients(make), made


def test_one_client_serves_as_long_as_nothing_fails() -> None:
    clients, made = new_clients()
    assert made == []
    found = {id(clients.writer(path).client) for path in "abc"}
    assert found == {id(clients.reader())}
    assert len(made) == 1


def test_a_client_that_was_left_alone_at_a_file_writes_to_others() -> None:
    clients, made = new_clients()
    first = clients.writer("a")
    clients.leave("a", first.number)
    clients.leave("a", first.number)
    second = clients.writer("a")
    assert second.client is not first.client
    assert clients.closer("a") is second.client
    assert clients.writer("b").client is first.client
    assert clients.reader() is first.client
    clients.leave("b")
    assert clients.writer("b").client is second.client
    assert len(made) == 2


def test_a_file_uses_up_a_bounded_number_of_clients() -> None:
    clients, made = new_clients()
    for number in range(CLIENTS_MAX):
        assert clients.writer("a").number == number
        clients.leave("a")
    clients.leave("a")
    with pytest.raises(ChunkUnavailableError) as caught:
        clients.writer("a")
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert clients.closer("a") is made[-1]
    assert clients.writer("b").client is made[0]
    assert len(made) == CLIENTS_MAX


def test_a_bounded_number_of_files_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATHS_MAX", 3)
    clients, _ = new_clients()
    for path in "abcad":
        clients.leave(path)
    found = {path: clients.writer(path).number for path in "abcd"}
    assert found == {"a": 2, "b": 0, "c": 1, "d": 1}
