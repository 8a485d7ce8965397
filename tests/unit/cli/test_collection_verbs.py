"""The verb ``collection``: collections made, shown, changed, renamed and dropped."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import siltstone
from tests.support.collections.stored_objects import objects
from tests.support.command import Command

COLUMNS = ("--column", "station:string", "--column", "gust:double", "--key", "station")


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def gusts(command: Command, folder: Path) -> Command:
    """The command, with a collection of two rows."""
    assert command("collection", "create", "gusts", *COLUMNS, "--times", "count").code == 0
    rows = folder / "rows.jsonl"
    rows.write_text('{"station": "oslo", "gust": 12.5}\n{"station": "bergen", "gust": 21.0}\n')
    assert command("collection", "append", "gusts", str(rows)).out == "0 2\n"
    return command


def test_a_collection_is_made_and_shown(gusts: Command) -> None:
    (made,) = gusts("collection", "stat", "gusts", "--json").values
    assert (made["name"], made["times"], made["since"], made["upper"]) == ("gusts", "count", 0, 1)
    assert (made["rows"], made["batches"], made["history"], made["writers"]) == (2, 1, None, [])
    assert made["columns"] == [
        {"name": "station", "type": "string", "nullable": False, "key": True},
        {"name": "gust", "type": "double", "nullable": True, "key": False},
    ]
    shown = gusts("collection", "stat", "gusts").out
    for line in ("column:          station string not null, key", "upper:           1", "1 batch"):
        assert line in shown
    assert gusts("collection", "ls").out == "gusts\n"


def test_times_in_milliseconds_are_shown_as_dates_too(command: Command) -> None:
    assert command("collection", "create", "a", *COLUMNS, "--history", "7d").code == 0
    (made,) = command("collection", "stat", "a", "--json").values
    assert (made["times"], made["history"]) == ("ms", 7 * 86_400_000)


def test_names_are_listed_by_prefix_and_by_pattern(command: Command) -> None:
    for name in ("logs/a.x", "logs/b.y", "other"):
        assert command("collection", "create", name, *COLUMNS).code == 0
    assert command("collection", "ls", "logs/").out == "logs/a.x\nlogs/b.y\n"
    assert command("collection", "ls", "logs/*.y", "--json").values == [{"collection": "logs/b.y"}]


def test_the_columns_may_be_those_of_a_file(command: Command, folder: Path) -> None:
    schema = pyarrow.schema([("at", pyarrow.timestamp("us", "UTC")), ("n", pyarrow.int8())])
    parquet.write_table(schema.empty_table(), folder / "like.parquet")
    like = ("--columns-of", str(folder / "like.parquet"))
    ran = command("collection", "create", "a", *like, "--column", "x:string", "--key", "at")
    assert ran.code == 0
    with siltstone.open_collections(folder) as collections:
        found = collections.collection("a").schema
    assert found.names == ["at", "x", "n"]
    assert found.field("at").type == pyarrow.timestamp("us", "UTC")
    (folder / "like.parquet").write_text("no Parquet")
    ran = command("collection", "create", "b", *like, "--key", "at")
    assert (ran.code, "is not a file of Parquet" in ran.err) == (2, True)


def test_an_existing_collection_is_a_conflict_or_fine(gusts: Command) -> None:
    ran = gusts("collection", "create", "gusts", *COLUMNS)
    assert (ran.code, "--exist-ok takes it as it is" in ran.err) == (4, True)
    (found,) = gusts("collection", "create", "gusts", *COLUMNS, "--exist-ok", "--json").values
    assert found["rows"] == 2


def test_columns_are_added(gusts: Command) -> None:
    ran = gusts("collection", "evolve", "gusts", "--column", "wind:int16", "--json")
    assert [column["name"] for column in ran.values[0]["columns"]] == ["station", "gust", "wind"]
    assert gusts("collection", "read", "gusts", "--columns", "wind").out == '{"wind": null}\n' * 2
    ran = gusts("collection", "evolve", "gusts", "--column", "rain:int16 not null")
    assert (ran.code, "make it nullable" in ran.err) == (2, True)


def test_a_name_is_changed(gusts: Command) -> None:
    assert gusts("collection", "rename", "gusts", "winds").code == 0
    assert gusts("collection", "ls").out == "winds\n"
    assert gusts("collection", "read", "gusts").code == 3
    assert len(gusts("collection", "read", "winds").values) == 2
    assert gusts("collection", "rename", "gusts", "x").code == 3
    gusts("collection", "create", "other", *COLUMNS)
    assert gusts("collection", "rename", "winds", "other").code == 4


def test_a_finished_collection_takes_no_rows_and_ends_followers(gusts: Command) -> None:
    (found,) = gusts("collection", "finish", "gusts", "--json").values
    assert found["upper"] is None
    assert "upper:           done" in gusts("collection", "stat", "gusts").out
    ran = gusts("collection", "append", "gusts", "/dev/null", "--format", "json")
    assert (ran.code, "collection is finished" in ran.err) == (2, True)
    assert len(gusts("collection", "follow", "gusts", "--from", "0").values) == 2


def test_a_drop_asks_first(gusts: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    ran = gusts("collection", "drop", "gusts")
    assert (ran.code, "drop gusts, 2 rows of" in ran.err) == (1, True)
    assert gusts("collection", "ls").out == "gusts\n"
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert gusts("collection", "drop", "gusts").code == 0
    assert gusts("collection", "ls").out == ""


def test_a_drop_without_a_terminal_needs_a_yes(gusts: Command) -> None:
    ran = gusts("collection", "drop", "gusts")
    assert (ran.code, "give --yes" in ran.err) == (2, True)
    assert gusts("collection", "drop", "gusts", "--yes", "--json").values == [{"dropped": "gusts"}]
    assert gusts("collection", "drop", "gusts", "--yes").code == 3


def test_bookmarks_are_set_taken_over_and_removed(gusts: Command) -> None:
    gusts("collection", "append", "gusts", "/dev/null", "--format", "json")
    assert (
        gusts("collection", "bookmark", "set", "gusts", "bill").out == "history from 0 on stays\n"
    )
    ran = gusts("collection", "bookmark", "set", "gusts", "bill", "--since", "1")
    assert (ran.code, "--takeover takes it over" in ran.err) == (4, True)
    moved = ("bookmark", "set", "gusts", "bill", "--since", "1", "--takeover", "--json")
    assert gusts("collection", *moved).values == [{"bookmark": "bill", "since": 1}]
    (row,) = gusts("collection", "bookmark", "ls", "gusts", "--json").values
    assert (row["name"], row["since"], len(row["token"])) == ("bill", 1, 32)
    assert "bill" in gusts("collection", "bookmark", "ls", "gusts").out
    assert gusts("collection", "bookmark", "rm", "gusts", "bill", "--json").values == [
        {"removed": "bill"}
    ]
    ran = gusts("collection", "bookmark", "rm", "gusts", "bill")
    assert (ran.code, "no such bookmark bookmark=bill" in ran.err) == (3, True)


def test_the_process_of_a_bookmark_that_was_taken_over_is_told(
    gusts: Command, folder: Path
) -> None:
    with siltstone.open_collections(folder) as collections:
        mark = collections.collection("gusts").bookmark("bill")
        assert gusts("collection", "bookmark", "set", "gusts", "bill", "--takeover").code == 0
        with pytest.raises(siltstone.BookmarkFencedError):
            mark.advance(0)


def test_the_since_moves_as_far_as_bookmarks_let_it(gusts: Command) -> None:
    for _ in range(3):
        gusts("collection", "append", "gusts", "/dev/null", "--format", "json")
    gusts("collection", "bookmark", "set", "gusts", "bill", "--since", "2")
    ran = gusts("collection", "advance-since", "gusts", "3")
    assert (ran.code, "bookmark bill" in ran.err) == (4, True)
    assert gusts("collection", "advance-since", "gusts", "2").out == "since 2\n"
    assert gusts("collection", "read", "gusts", "--as-of", "1").code == 4
    assert gusts("collection", "advance-since", "gusts", "1", "--json").values == [
        {"collection": "gusts", "since": 2}
    ]


def test_a_writer_is_known_until_it_is_removed(gusts: Command) -> None:
    named = ("append", "gusts", "/dev/null", "--format", "json", "--writer", "w", "--sequence", "5")
    gusts("collection", *named)
    (row,) = gusts("collection", "writer", "ls", "gusts", "--json").values
    assert (row["name"], row["sequence"], row["upper"]) == ("w", 5, 2)
    assert "for ever" in gusts("collection", "writer", "ls", "gusts").out
    assert gusts("collection", "writer", "rm", "gusts", "w").code == 0
    ran = gusts("collection", "writer", "rm", "gusts", "w")
    assert (ran.code, "no such writer writer=w" in ran.err) == (3, True)
    assert gusts("collection", *named, "--json").values[0]["repeated"] is False


def test_what_is_shown_makes_no_object(command: Command, folder: Path) -> None:
    """A reader needs no right to write, also where there is no collection yet."""
    assert command("collection", "ls").out == ""
    assert command("collection", "stat", "a").code == 3
    assert command("collection", "drop", "a", "--yes").code == 3
    assert command("collection", "check").err == "everything is there; --deep also reads it\n"
    assert objects(folder) == {}
    assert command("collection", "create", "a", *COLUMNS).code == 0
    before = objects(folder)
    assert before
    for verb in (
        ("ls",),
        ("stat", "a"),
        ("read", "a"),
        ("entries", "a"),
        ("check", "--deep"),
        ("bookmark", "ls", "a"),
        ("writer", "ls", "a"),
        ("follow", "a", "--until", "0", "--no-lease"),
    ):
        assert command("collection", *verb).code == 0
    assert objects(folder) == before


def test_collections_are_used_next_to_an_owner(gusts: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        assert len(gusts("collection", "read", "gusts").values) == 2
        assert gusts("collection", "append", "gusts", str(folder / "rows.jsonl")).out == "1 2\n"
        store.create("a").append(b"x")


MISTAKES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no columns": (("create", "a", "--key", "x"), 2, "give --column or --columns-of"),
    "no key": (("create", "a", "--column", "x:int8"), 2, "--key"),
    "no type": (("create", "a", "--column", "x:text", "--key", "x"), 2, "no type of a column"),
    "a key of floats": (("create", "a", "--column", "x:double", "--key", "x"), 2, "no floats"),
    "an unknown key": (("create", "a", "--column", "x:int8", "--key", "y"), 2, "key names a"),
    "an empty name": (("create", "", *COLUMNS), 2, "a name of a collection"),
    "no history": (("create", "a", *COLUMNS, "--history", "long"), 2, "history is"),
    "unknown": (("stat", "a"), 3, "collection ls lists them"),
    "no column to add": (("evolve", "gusts"), 2, "give --column"),
    "a column to change": (("evolve", "gusts", "--column", "gust:int8"), 2, "column='gust'"),
    "a date of counts": (("read", "gusts", "--as-of", "15min"), 2, "none is a date"),
    "no time": (("read", "gusts", "--as-of", "soon"), 2, "not a time"),
    "a time that is not complete": (
        ("read", "gusts", "--as-of", "9", "--timeout", "0"),
        1,
        "time 9 of gusts is not complete yet: its upper is 1",
    ),
    "an unknown column": (("read", "gusts", "--columns", "wind"), 2, "'wind'"),
    "two formats": (("read", "gusts", "--format", "csv", "--json"), 2, "exclude each other"),
    "a writer alone": (("append", "gusts", "/dev/null", "--writer", "w"), 2, "go together"),
    "standard input twice": (("append", "gusts", "-", "--remove", "-"), 2, "not both"),
    "another upper": (("append", "gusts", "/dev/null", "--expect", "7"), 4, "expected=7 current=1"),
    "a since to come": (("advance-since", "gusts", "9"), 4, "holder"),
    "a bookmark of the past": (
        ("bookmark", "set", "gusts", "b", "--since", "99999999999999999999"),
        2,
        "not a frontier",
    ),
    "start without a lease": (("follow", "gusts", "--from", "start", "--no-lease"), 2, "exclude"),
    "some, and those without a name": (("sweep", "gusts", "--nameless"), 2, "without COLLECTIONS"),
    "nothing to compact": (("compact",), 2, "COLLECTIONS"),
    "compact an unknown one": (("compact", "a"), 3, "no such collection"),
    "check an unknown one": (("check", "a"), 3, "no such collection"),
}


@pytest.mark.slow
def test_each_mistake_is_one_line(gusts: Command) -> None:
    for mistake, (arguments, code, text) in MISTAKES.items():
        ran = gusts("collection", *arguments)
        assert (ran.code, ran.out) == (code, ""), (mistake, ran)
        assert ran.err.startswith("siltstone: "), mistake
        assert (text in ran.err, ran.err.count("\n")) == (True, 1), (mistake, ran.err)
