"""What an application or a stranger does wrong with collections is told by an error that helps.

``tests/unit/collections`` has what concerns one verb alone: rows and schemas
(``rows/test_input_rows.py``, ``rows/test_row_schema.py``), names (``test_catalog.py``), times
(``test_appends.py``, ``test_snapshots.py``), leases and bookmarks (``test_snapshots.py``,
``test_subscriptions.py``, ``test_bookmarks.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import siltstone
from siltstone.bindings.nfs import chunk_storage
from siltstone.core.checksums import crc32c
from siltstone.core.errors import (
    CapabilityError,
    CollectionDroppedError,
    CollectionError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionSchemaError,
    FormatError,
    SinceError,
    UpdateTimeError,
)
from siltstone.core.records.collection_choice import encode_choice
from tests.support.collections.stored_objects import paths
from tests.support.command import Command
from tests.support.stores import flip

SCHEMA = pyarrow.schema([pyarrow.field("k", pyarrow.string(), nullable=False), ("v", "int64")])


@pytest.fixture
def gusts(folder: Path) -> Path:
    """The folder of a store with a collection of two objects of rows; its since is 1."""
    with siltstone.open_collections(folder) as opened:
        made = opened.create("gusts", SCHEMA, key=["k"], times="count")
        for first in (0, 2_000, 4_000):
            keys = [f"{n:06}" for n in range(first, first + 1_500)]
            made.append(pyarrow.table({"k": keys, "v": list(range(1_500))}))
        made.advance_since(1)
    return folder


def verbs_of(opened: siltstone.Collections) -> dict[str, tuple[Callable[[], Any], type, str]]:
    """Each mistake, the error that it meets, and what that says."""
    gusts = opened.collection("gusts")
    nested = pyarrow.schema([("k", pyarrow.string()), ("v", pyarrow.list_(pyarrow.int64()))])
    rows = {"k": ["a"], "v": [1], "_time": [3], "_diff": [1]}

    def updates(time: int, lower: int = 3, upper: int = 5) -> Callable[[], Any]:
        table = pyarrow.table({**rows, "_time": [time]})
        return lambda: gusts.compare_and_append(table, expected_upper=lower, new_upper=upper)

    def create(schema: pyarrow.Schema, key: str, name: str = "other") -> Callable[[], Any]:
        return lambda: opened.create(name, schema, key=[key])

    floats = pyarrow.schema([("k", pyarrow.float64())])
    return {
        "unknown": (lambda: opened.collection("a"), CollectionNotFoundError, "collection=a"),
        "drop of no such": (lambda: opened.drop("a"), CollectionNotFoundError, "collection=a"),
        "rename of no such": (
            lambda: opened.rename("a", "b"),
            CollectionNotFoundError,
            "collection=a",
        ),
        "existing": (create(SCHEMA, "k", "gusts"), CollectionExistsError, "collection=gusts"),
        "rename to an existing one": (
            lambda: opened.rename("gusts", "gusts"),
            CollectionExistsError,
            "collection=gusts",
        ),
        "nested types": (create(nested, "k"), CollectionSchemaError, "JSON"),
        "a key of floats": (create(floats, "k"), CollectionSchemaError, "floats"),
        "a key that is no column": (create(SCHEMA, "x"), CollectionSchemaError, "'x'"),
        "a null in the key": (
            lambda: gusts.append([{"k": None, "v": 1}]),
            CollectionSchemaError,
            "'k'",
        ),
        "an unknown column": (
            lambda: gusts.append([{"k": "a", "wind": 1}]),
            CollectionSchemaError,
            "'wind'",
        ),
        "a value of another type": (
            lambda: gusts.append([{"k": "a", "v": "much"}]),
            CollectionSchemaError,
            "'v'",
        ),
        "a time above the bounds": (updates(5), UpdateTimeError, "5"),
        "a time below the bounds": (updates(2), UpdateTimeError, "2"),
        "reversed bounds": (updates(3, 3, 2), UpdateTimeError, "2"),
        "before the since": (lambda: gusts.snapshot(as_of=0), SinceError, "as_of=0 since=1"),
        "changes before the since": (lambda: gusts.listen(1), SinceError, "as_of=0 since=1"),
        "rows before the since": (lambda: gusts.subscribe(as_of=0), SinceError, "since=1"),
    }


def test_each_mistake_of_an_application_is_named(gusts: Path) -> None:
    with siltstone.open_collections(gusts) as opened:
        upper = opened.collection("gusts").info().upper
        for mistake, (verb, error, text) in verbs_of(opened).items():
            with pytest.raises(error) as told:
                verb()
            assert type(told.value) is error, mistake
            assert text in str(told.value), (mistake, str(told.value))
        assert opened.list() == ["gusts"]
        assert opened.collection("gusts").info().upper == upper, "nothing was appended"


def test_each_verb_of_a_handle_says_that_its_collection_was_dropped(gusts: Path) -> None:
    with siltstone.open_collections(gusts) as opened, siltstone.open_collections(gusts) as other:
        stale = opened.collection("gusts")
        other.drop("gusts")
        verbs: tuple[Callable[[], Any], ...] = (
            lambda: stale.append([{"k": "a", "v": 1}]),
            lambda: stale.writer("w").append([], sequence=0),
            lambda: stale.batch(pyarrow.table({"k": [str(n) for n in range(9_999)]})),
            stale.finish,
            stale.snapshot,
            stale.listen,
            stale.subscribe,
            lambda: stale.bookmark("b"),
            lambda: stale.advance_since(2),
            lambda: stale.evolve(SCHEMA.append(pyarrow.field("w", pyarrow.int64()))),
            stale.compact,
            stale.info,
        )
        for verb in verbs:
            with pytest.raises(CollectionDroppedError):
                verb()
        assert stale.collect() == 0
        stale.sweep()  # Its first look made an entry under a name that the drop had freed.
        assert list(other.check(deep=True)) == []
        with pytest.raises(CollectionNotFoundError):
            other.collection("gusts")


def test_a_time_after_the_end_is_the_end(gusts: Path) -> None:
    """Nothing comes any more, so each later time is complete, and no change follows it."""
    with siltstone.open_collections(gusts) as opened:
        made = opened.collection("gusts")
        made.finish()
        assert made.snapshot(as_of=2**62).to_arrow().num_rows == 4_500
        (rest,) = made.listen(2**62)
        assert rest.to_arrow().num_rows == 0


@pytest.mark.parametrize("verb", ["ls", "stat", "read", "check"])
def test_the_command_names_a_storage_without_conditional_creates(
    gusts: Path, command: Command, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    lacking = replace(chunk_storage.CAPABILITIES, whole=False)
    monkeypatch.setattr(chunk_storage, "CAPABILITIES", lacking)
    with pytest.raises(CapabilityError, match="whole"):
        siltstone.open_collections(gusts)
    ran = command("collection", verb, *(["gusts"] if verb in ("stat", "read") else []))
    assert ran.code == 1
    assert "creates an object whole" in ran.err


def test_what_another_consensus_orders_is_refused(gusts: Path, command: Command) -> None:
    choice = gusts / "chunks/collections/consensus"
    choice.unlink()
    choice.write_bytes(encode_choice("votes"))
    with pytest.raises(CollectionError, match=r"collections\.consensus .*uses=votes"):
        siltstone.open_collections(gusts)
    ran = command("collection", "append", "gusts", "/dev/null")
    assert (ran.code, "uses=votes wanted=objects" in ran.err) == (1, True)


def test_what_a_newer_version_wrote_is_refused(gusts: Path, command: Command) -> None:
    """A record that is newer is no damage: nothing is wrong but the version of the reader."""
    with siltstone.open_collections(gusts) as opened:
        which = opened.collection("gusts").info().id
    for newest in (paths(gusts, "entries", which)[0], gusts / "chunks/collections/consensus"):
        newest.chmod(0o644)
        whole = newest.read_bytes()
        newest.write_bytes(newer(whole))
        with pytest.raises(FormatError), siltstone.open_collections(gusts) as opened:
            opened.collection("gusts")
        ran = command("collection", "stat", "gusts")
        assert (ran.code, "of an unknown version found=99" in ran.err) == (2, True), ran.err
        newest.write_bytes(whole)
    with siltstone.open_collections(gusts) as opened:
        assert opened.collection("gusts").info().upper == 3


def newer(record: bytes) -> bytes:
    """A record in an envelope as a newer version writes it, with the right sum."""
    body = record[:5] + bytes([99]) + record[6:-4]
    return body + crc32c(body).to_bytes(4, "little")


def test_foreign_objects_are_told_and_change_nothing(gusts: Path, command: Command) -> None:
    with siltstone.open_collections(gusts) as opened:
        which = opened.collection("gusts").info().id
    strange = ("notes", f"{which}/notes", f"{which}/parts/notes", f"{which}/rollups/0000-notes")
    for name in strange:
        path = gusts / "chunks/collections" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not ours")
    ran = command("collection", "check", "--deep", "--json")
    assert ran.code == 0
    assert [one["severity"] for one in ran.values[:-1]] == ["warning"] * 4
    assert command("collection", "read", "gusts", "--json").code == 0
    assert command("collection", "compact", "gusts").code == 0
    for name in strange:
        assert (gusts / "chunks/collections" / name).read_bytes() == b"not ours"


def cut(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def swap(path: Path, other: Path) -> None:
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def remove(path: Path, other: Path) -> None:
    path.unlink()


def change(path: Path, other: Path) -> None:
    flip(path, path.stat().st_size // 2)


@pytest.mark.parametrize("kind", ["entries", "rollups", "parts"])
@pytest.mark.parametrize("harm", [change, cut, remove, swap])
def test_the_command_exits_with_6_where_it_reads_what_is_harmed(
    gusts: Path, command: Command, kind: str, harm: Callable[[Path, Path], None]
) -> None:
    with siltstone.open_collections(gusts) as opened:
        which = opened.collection("gusts").info().id
        another = opened.create("other", SCHEMA, key=["k"], times="count").info().id
    mine = paths(gusts, kind, which)
    other = paths(gusts, kind, another)[0] if kind == "rollups" else mine[-1]
    newest_entry_is_gone = kind == "entries" and harm is remove
    harm(mine[0], other)
    ran = command("collection", "read", "gusts")
    assert ran.err.count("Traceback") == 0
    if newest_entry_is_gone:
        assert ran.code == 0, "all is as if it had never been made"
    else:
        assert (ran.code, which in ran.err) == (6, True), ran.err
        ran = command("collection", "check", "--deep")
        assert (ran.code, mine[0].name in ran.out) == (6, True), ran.out
