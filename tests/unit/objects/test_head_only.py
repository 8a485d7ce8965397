"""Keyspaces of heads only: one commit a call, look-up or none, folds, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import ConditionFailedError, ReadOnlyError
from siltstone.objects.entries import ENTRIES_MAX
from siltstone.objects.records.keys import SPACE
from siltstone.objects.space_names import space_names

MODES = ("with_lookup", "no_lookup")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Store]:
    folder = tmp_path_factory.mktemp("store")
    siltstone.init(folder, containers=1)
    with siltstone.open(folder) as opened:
        yield opened


@pytest.fixture(params=MODES)
def entries(store: siltstone.Store, request: pytest.FixtureRequest) -> objects.Keyspace:
    """A new keyspace of each mode."""
    return objects.create(store, request.node.name, head_only=request.param)


@pytest.fixture
def seen(store: siltstone.Store, request: pytest.FixtureRequest) -> objects.Keyspace:
    """A new keyspace with look-up."""
    return objects.create(store, request.node.name, head_only="with_lookup")


@pytest.fixture
def blind(store: siltstone.Store, request: pytest.FixtureRequest) -> objects.Keyspace:
    """A new keyspace without."""
    return objects.create(store, request.node.name, head_only="no_lookup")


def content(entries: Any) -> dict[tuple[str, str, str], tuple[int, bytes]]:
    return {(e.bucket, e.key, e.subkey): (e.sqn, e.metadata) for e in entries.heads()}


def test_the_entries_of_a_call_are_one_change(entries: objects.Keyspace) -> None:
    assert entries.tags == {"h": "recovr"}
    made = entries.mput(
        [
            ("add", "b", "k", "1", b"one"),
            ("add", b"b", b"k", b"", b""),
            ("add", "a", "k", "1", b"x"),
        ]
    )
    assert (made.sqn, made.pause) == (1, False)
    assert content(entries) == {
        ("a", "k", "1"): (1, b"x"),
        ("b", "k", ""): (1, b""),
        ("b", "k", "1"): (1, b"one"),
    }
    assert entries.mput([("remove", "b", "k", ""), ("add", "b", "k", "1", b"two")]).sqn == 2
    assert entries.mput([("remove", "b", "absent", "", None)]).sqn == 3
    assert content(entries) == {("a", "k", "1"): (1, b"x"), ("b", "k", "1"): (2, b"two")}


def test_the_last_of_several_specs_of_an_entry_counts(entries: objects.Keyspace) -> None:
    entries.mput(
        [("add", "b", "k", "", b"1"), ("remove", "b", "k", ""), ("add", "b", "k", "", b"2")]
    )
    entries.mput([("add", "b", "l", "", b"1"), ("remove", "b", "l", "")])
    assert content(entries) == {("b", "k", ""): (1, b"2")}


def test_folds_give_subkeys_and_each_key_once(entries: objects.Keyspace) -> None:
    names = [(b, k, s) for b in ("a", "b") for k in ("k", "l") for s in ("", "\0", "1", "\udcff")]
    entries.mput([("add", *name, b"v") for name in names])
    assert list(content(entries)) == names
    assert list(entries.keys("b")) == ["k", "l"]
    assert list(entries.keys("b", start="l")) == ["l"]
    assert list(entries.buckets()) == ["a", "b"]
    assert [each.subkey for each in entries.heads("b", end="l")] == ["", "\0", "1", "\udcff"]


def test_a_snapshot_shows_the_entries_of_its_moment(entries: objects.Keyspace) -> None:
    entries.mput([("add", "b", "k", "1", b"old")])
    with entries.snapshot() as before:
        entries.mput([("add", "b", "k", "1", b"new"), ("add", "b", "k", "2", b"new")])
        assert content(before) == {("b", "k", "1"): (1, b"old")}
        assert len(content(entries)) == 2


def test_an_entry_is_looked_up_by_its_subkey(seen: objects.Keyspace) -> None:
    seen.mput([("add", "b", "k", "1", b"one"), ("add", "b", "k", "", b"none")])
    with seen.snapshot() as before:
        for each in (seen, before):
            head = each.head("b", "k", "1")
            assert head is not None
            assert (head.metadata, head.subkey, head.sqn, head.size) == (b"one", "1", 1, 0)
            head = each.head("b", "k")
            assert head is not None
            assert head.metadata == b"none"
            assert each.head("b", "k", "2") is None


def test_conditions_of_a_call_hold_together_or_nothing_is_changed(seen: objects.Keyspace) -> None:
    seen.mput([("add", "b", "k", "", b"1"), ("add", "b", "l", "", b"1")])
    before = content(seen)
    with pytest.raises(ConditionFailedError) as caught:
        seen.mput(
            [("add", "b", "k", "", b"2"), ("add", "b", "new", "", b"2")],
            expected={("b", "k", ""): 1, ("b", "l", "s"): None, ("b", "l", ""): None},
        )
    assert caught.value.condition == objects.SqnIs("b", "l", None)
    assert caught.value.current == 1
    assert content(seen) == before
    seen.mput(
        [("add", "b", "k", "", b"2"), ("remove", "b", "l", "")],
        expected={("b", "k", ""): 1, ("b", "l", ""): 1, ("b", "l", "s"): None},
    )
    assert content(seen) == {("b", "k", ""): (2, b"2")}


async def test_a_condition_sees_changes_that_are_on_their_way(tmp_path: Path) -> None:
    await asyncio.to_thread(siltstone.init, tmp_path / "s")
    async with await siltstone.open_async(tmp_path / "s") as store:
        seen = await objects.create_async(store, "h", head_only="with_lookup")
        calls = [
            seen.mput([("add", "b", "k", "", b"%d" % n)], expected={("b", "k", ""): n or None})
            for n in range(200)
        ]
        late = seen.mput([("remove", "b", "k", "")], expected={("b", "k", ""): 199})
        assert [call.sqn for call in await asyncio.gather(*calls)] == list(range(1, 201))
        with pytest.raises(ConditionFailedError):
            await late
        assert seen.head_only == "with_lookup"


REFUSED: dict[str, Callable[[Any], Any]] = {
    "put": lambda each: each.put("b", "k", b""),
    "get": lambda each: each.get("b", "k"),
    "delete": lambda each: each.delete("b", "k"),
    "compact": lambda each: each.compact(),
    "index": lambda each: list(each.index("b", "f")),
    "indexed": lambda each: list(each.indexed("b", "f")),
    "objects": lambda each: list(each.objects()),
    "objects by SQN": lambda each: list(each.objects(order="sqn")),
    "another tag": lambda each: list(each.heads(tag="x")),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_needs_values_is_refused_and_named(entries: objects.Keyspace, name: str) -> None:
    entries.mput([("add", "b", "k", "", b"v")])
    with pytest.raises(objects.UnsupportedError, match=r"mput|only h"):
        REFUSED[name](entries)
    with entries.snapshot() as before:
        if hasattr(before, name.split()[0]):
            with pytest.raises(objects.UnsupportedError):
                REFUSED[name](before)
    assert content(entries) == {("b", "k", ""): (1, b"v")}


@pytest.mark.parametrize(
    "call",
    [
        lambda each: each.head("b", "k"),
        lambda each: each.mput([("add", "b", "k", "", b"")], expected={("b", "k", ""): 1}),
        lambda each: each.mput([("add", "b", "k", "", b"")], ttl_s=5),
    ],
    ids=["head", "expected", "ttl"],
)
def test_without_look_up_nothing_is_looked_at(
    blind: objects.Keyspace, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(objects.UnsupportedError, match="with_lookup"):
        call(blind)
    assert blind.mput([("add", "b", "k", "", b"v")]).sqn == 1
    with blind.snapshot() as before, pytest.raises(objects.UnsupportedError, match="with_lookup"):
        before.head("b", "k")


def test_a_keyspace_with_values_has_no_verbs_of_entries(store: siltstone.Store) -> None:
    photos = objects.create(store, "values")
    assert photos.head_only is None
    with pytest.raises(objects.UnsupportedError, match="put"):
        photos.mput([("add", "b", "k", "", b"")])
    with pytest.raises(objects.UnsupportedError, match="flush"):
        photos.trim()
    with pytest.raises(objects.UnsupportedError, match="subkeys"):
        photos.head("b", "k", "s")


@pytest.mark.parametrize(
    ("specs", "error"),
    [
        ([], ValueError),
        ([("put", "b", "k", "", b"")], ValueError),
        ([("add", "b", "k", "")], ValueError),
        ([("remove", "b", "k", "", b"v")], ValueError),
        ([()], ValueError),
        (["add"], ValueError),
        ([("add", "b", "k", "", "text")], TypeError),
        ([("add", "b", "k", 5, b"")], TypeError),
        ([("add", "", "k", "", b"")], objects.ObjectLimitError),
        ([("add", "b", "k" * 8_193, "", b"")], objects.ObjectLimitError),
        ([("add", "b", "k", "s" * 2_049, b"")], objects.ObjectLimitError),
        ([("add", "b", "k", "", bytes(65_537))], objects.ObjectLimitError),
        ([("remove", "b", str(n), "") for n in range(ENTRIES_MAX + 1)], objects.ObjectLimitError),
    ],
)
def test_what_can_be_no_entry_is_refused(
    seen: objects.Keyspace, specs: list[Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        seen.mput(specs)
    assert seen.mput([("add", "b", "k" * 8_192, "s" * 2_048, bytes(65_536))]).sqn == 1


def test_as_many_entries_as_a_call_may_have_are_one_change(entries: objects.Keyspace) -> None:
    assert entries.mput([("add", "b", str(n), "", b"") for n in range(ENTRIES_MAX)]).sqn == 1
    assert len(content(entries)) == ENTRIES_MAX


def test_entries_that_fit_into_no_frame_are_refused_as_a_whole(entries: objects.Keyspace) -> None:
    specs = [("add", "b", str(number), "", bytes(65_536)) for number in range(2_000)]
    with pytest.raises(objects.ObjectLimitError, match="frame"):
        entries.mput(specs)
    assert content(entries) == {}
    assert entries.mput(specs[:9]).sqn == 1


@pytest.mark.parametrize("mode", MODES)
def test_mode_and_entries_are_there_in_the_next_opening(tmp_path: Path, mode: str) -> None:
    siltstone.init(tmp_path / "s", containers=1)
    with siltstone.open(tmp_path / "s") as store:
        entries = objects.create(store, "h", head_only=mode)
        entries.mput([("add", "b", str(number), "s", b"%d" % number) for number in range(40)])
        expected = content(entries)
        with pytest.raises(objects.KeyspaceExistsError):
            objects.create(store, "h")
    with siltstone.open(tmp_path / "s", read_only=True) as store:
        entries = objects.open(store, "h")
        assert (entries.head_only, content(entries)) == (mode, expected)
        for call in (lambda: entries.mput([("add", "b", "k", "", b"")]), entries.trim):
            with pytest.raises(ReadOnlyError):
                call()
    with siltstone.open(tmp_path / "s") as store:
        entries = objects.open(store, "h")
        assert (entries.head_only, content(entries)) == (mode, expected)
        assert entries.mput([("add", "b", "k", "", b"")]).sqn == 2


@pytest.mark.parametrize("mode", MODES)
def test_tier_1_holds_nothing_that_was_before_a_trim(tmp_path: Path, mode: str) -> None:
    siltstone.init(tmp_path / "s", containers=1)
    with siltstone.open(tmp_path / "s") as store:
        entries = objects.create(store, "h", head_only=mode)
        for number in range(20):
            entries.mput([("add", "b", str(number), "", b"v")])
        end = store.stats()[0].log_end
        assert store.stats()[0].safe_index < end
        entries.trim()
        assert store.stats()[0].safe_index >= end
        assert store.stats()[0].unflushed_table_bytes == 0
        expected = content(entries)
    with siltstone.open(tmp_path / "s") as store:
        assert content(objects.open(store, "h")) == expected


def test_a_check_finds_entries_whole_and_a_rebuild_leaves_them(
    store: siltstone.Store, entries: objects.Keyspace
) -> None:
    entries.mput([("add", "b", str(number), "s", b"v") for number in range(30)])
    expected = content(entries)
    for deep in (False, True):
        assert list(objects.check(store, entries.name, deep=deep)) == []
    with pytest.raises(objects.UnsupportedError, match="heads only"):
        objects.rebuild(store, entries.name)
    assert content(entries) == expected
    assert objects.destroy(store, entries.name).length == 0


@pytest.mark.parametrize("damaged", [False, True])
def test_entries_whose_keyspace_lost_its_own_row_stay(
    store: siltstone.Store, entries: objects.Keyspace, *, damaged: bool
) -> None:
    entries.mput([("add", "b", str(number), "s", b"v") for number in range(3)])
    table = store.table(space_names(entries.name).ledger, force=True)
    if damaged:
        table.put(SPACE, b"\x02")
    else:
        table.remove(SPACE)
    rows = list(table.scan())
    with pytest.raises(objects.UnsupportedError, match="no values"):
        objects.rebuild(store, entries.name, tags={"h": "recovr"})
    assert list(table.scan()) == rows


def test_a_mode_is_named_and_has_no_tags(store: siltstone.Store) -> None:
    with pytest.raises(ValueError, match="with_lookup or no_lookup"):
        objects.create(store, "none", head_only="yes")
    with pytest.raises(ValueError, match="one tag"):
        objects.create(store, "none", head_only="no_lookup", tags={"h": "recovr"})
    with pytest.raises(objects.KeyspaceNotFoundError):
        objects.open(store, "none")
