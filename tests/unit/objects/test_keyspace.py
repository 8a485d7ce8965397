"""A keyspace as a blocking application holds it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.container.reader import read_container
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ClosedError, ConditionFailedError, ReadOnlyError
from siltstone.objects.ledger import Ledger


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    siltstone.init(path, containers=2)
    return path


@pytest.fixture
def photos(folder: Path, request: pytest.FixtureRequest) -> Iterator[objects.Keyspace]:
    """A new keyspace of the test's name."""
    with siltstone.open(folder) as store:
        yield objects.create(store, request.node.name)


def test_an_object_is_put_found_and_removed(photos: objects.Keyspace) -> None:
    put = photos.put("2026", "a.jpg", b"jpeg", metadata=b"{}", index={"city": ["oslo", "bern"]})
    assert (put.sqn, put.replaced, put.pause) == (1, None, False)
    head = photos.head("2026", "a.jpg")
    assert head is not None
    assert (head.bucket, head.key, head.tag, head.size) == ("2026", "a.jpg", "o", 4)
    assert (head.sqn, head.metadata, head.expires) == (1, b"{}", None)
    assert head.index == {"city": ("bern", "oslo")}
    found = photos.get("2026", "a.jpg")
    assert found == objects.StoredObject(head=head, value=b"jpeg")
    assert photos.put("2026", "a.jpg", b"sharper", expected=1).replaced == 1
    with pytest.raises(ConditionFailedError):
        photos.put("2026", "a.jpg", b"late", expected=1)
    assert photos.delete("2026", "a.jpg") == 3
    assert photos.delete("2026", "a.jpg") is None
    assert photos.head("2026", "a.jpg") is None
    assert photos.get("2026", "a.jpg") is None


def test_what_has_expired_is_absent(
    photos: objects.Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos.put("b", "short", b"v", ttl_s=100)
    photos.put("b", "long", b"v", ttl_s=10_000)
    head = photos.head("b", "short")
    assert head is not None
    assert head.expires is not None
    monkeypatch.setattr(SystemEnvironment, "time", lambda _: float(head.expires or 0) - 1)
    assert photos.head("b", "short") == head
    monkeypatch.setattr(SystemEnvironment, "time", lambda _: float(head.expires or 0))
    assert photos.head("b", "short") is None
    assert photos.get("b", "short") is None
    assert list(photos.keys("b")) == ["long"]


def test_a_reader_takes_no_head_from_between_two_steps_of_a_rebuild(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        objects.create(store, "rebuilt").put("b", "k", b"v")
    monkeypatch.setattr(read_container, "POLL_S", 1e9)  # its look at the log stays fresh
    with siltstone.open(folder, read_only=True) as store:
        photos = objects.open(store, "rebuilt")
        key = photos._keyspace.key_of("o", "b", "k")
        assert photos._keyspace.view_now(key) is not None
        states = count()
        monkeypatch.setattr(Ledger, "state_now", lambda _: next(states))
        assert photos._keyspace.view_now(key) is None
        assert photos._keyspace.get_now(key) is None
        found = photos.get("b", "k")  # which the loop of the store tells
        assert found is not None
        assert found.value == b"v"


def test_all_that_was_put_is_there_in_the_next_opening(folder: Path) -> None:
    with siltstone.open(folder) as store:
        photos = objects.create(store, "next", tags={"o": "recovr", "x": "retain"})
        photos.put(b"\xff\0", b"\0", bytes(range(256)))
        photos.put("b", "k", b"x", tag="x")
        photos.delete("b", "k", tag="x")
    for read_only in (True, False):
        with siltstone.open(folder, read_only=read_only) as store:
            photos = objects.open(store, "next")
            assert photos.tags == {"o": "recovr", "x": "retain"}
            found = photos.get(b"\xff\0", b"\0")
            assert found is not None
            assert found.value == bytes(range(256))
            assert photos.get("b", "absent") is None
            assert photos.head("b", "k", tag="x") is None


def test_threads_share_one_order(folder: Path) -> None:
    with siltstone.open(folder) as store, ThreadPoolExecutor(8) as pool:
        handles = [objects.create(store, "threads"), objects.open(store, "threads")]
        puts = [
            pool.submit(handles[number % 2].put, "b", f"k{number % 5}", b"%d" % number)
            for number in range(100)
        ]
        assert sorted(put.result().sqn for put in puts) == list(range(1, 101))
        for key in range(5):
            found = handles[0].get("b", f"k{key}")
            assert found is not None
            newest = max(
                (put.result().sqn, b"%d" % number)
                for number, put in enumerate(puts)
                if number % 5 == key
            )
            assert (found.head.sqn, found.value) == newest


def test_keyspaces_are_found_by_name(folder: Path) -> None:
    with siltstone.open(folder) as store:
        for name in ("b b", "a", "é"):
            objects.create(store, name)
        assert [name for name in objects.names(store) if name in {"é", "a", "b b"}] == [
            "a",
            "b b",
            "é",
        ]
        with pytest.raises(objects.KeyspaceExistsError):
            objects.create(store, "a")
        with pytest.raises(objects.KeyspaceNotFoundError):
            objects.open(store, "absent")
        with pytest.raises(objects.KeyspaceNameError):
            objects.create(store, "a/b")


def test_a_handle_of_a_closed_store_is_of_no_more_use(folder: Path) -> None:
    with siltstone.open(folder) as store:
        photos = objects.create(store, "closed")
        photos.put("b", "k", b"")
    for call in (photos.head, photos.get, photos.delete):
        with pytest.raises(ClosedError):
            call("b", "k")
    with pytest.raises(ClosedError):
        photos.put("b", "k", b"")


def test_a_store_that_is_read_only_makes_no_keyspace(folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store, pytest.raises(ReadOnlyError):
        objects.create(store, "none")


def test_arguments_that_are_none_are_refused(photos: objects.Keyspace) -> None:
    with pytest.raises(objects.ObjectLimitError):
        photos.put("", "k", b"")
    with pytest.raises(objects.ObjectLimitError):
        photos.put("b", "k" * 8_193, b"")
    with pytest.raises(objects.UnsupportedError):
        photos.put("b", "k", b"", tag="other")
    with pytest.raises(ValueError, match="both"):
        photos.put("b", "k", b"", index={}, specs=[])
    with pytest.raises(ValueError, match="ttl_s"):
        photos.put("b", "k", b"", ttl_s=0)
    assert photos.put("b", "k", b"").sqn == 1
