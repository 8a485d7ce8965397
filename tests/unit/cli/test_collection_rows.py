"""``collection append``, ``read`` and ``follow``: rows in and out, at a time and as they change."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import siltstone
from siltstone.cli import row_input
from tests.support.command import Command

TYPES = (
    ("station", "string"), ("gust", "double"), ("seen", "timestamp[us, tz=UTC]"),
    ("raw", "binary"), ("price", "decimal128(9, 2)"), ("day", "date32"), ("n", "int64"),
    ("half", "halffloat"),
)  # fmt: skip
CREATE = [
    *(word for name, kind in TYPES for word in ("--column", f"{name}:{kind}")),
    *("--key", "station", "--times", "count"),
]
ROWS = """\
{"station": "bodø", "gust": "NaN", "seen": "2026-01-02 03:04:05.000006Z", "raw_base64": "AP8="}
{"station": "oslo", "price": "12.50", "day": "2026-01-31", "n": 9007199254740993, "half": 0.5}
"""


@pytest.fixture
def gusts(command: Command, folder: Path) -> Command:
    """The command, with an empty collection."""
    assert command("collection", "create", "gusts", *CREATE).code == 0
    return command


def lines(folder: Path, text: str, name: str = "rows.jsonl") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_what_read_writes_append_takes(
    gusts: Command, folder: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gusts("collection", "append", "gusts", lines(folder, ROWS)).out == "0 2\n"
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", output)
        gusts("collection", "read", "gusts", "--format", form)
    data = output.buffer.getvalue()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert gusts("collection", "append", "gusts", "--format", form).out == "1 2\n"
    found = gusts("collection", "read", "gusts", "--diffs").values
    assert len(found) == 4
    assert found[0]["raw_base64"] == "AP8="
    assert found[-1] == {
        "station": "oslo", "gust": None, "seen": None, "raw_base64": None, "price": "12.50",
        "day": "2026-01-31", "n": 9007199254740993, "half": 0.5, "_diff": 1,
    }  # fmt: skip
    by_station = sorted(found, key=lambda row: row["station"])
    assert (by_station[0], by_station[2]) == (by_station[1], by_station[3])


def test_the_name_of_a_file_says_its_format(gusts: Command, folder: Path) -> None:
    table = pyarrow.table({"station": ["a", "b"]})
    parquet.write_table(table, folder / "rows.PARQUET")
    for name in ("rows.csv", "rows"):
        text = "station\nc\n" if name == "rows.csv" else '{"station": "d"}\n\n'
        assert gusts("collection", "append", "gusts", lines(folder, text, name)).code == 0
    assert gusts("collection", "append", "gusts", str(folder / "rows.PARQUET")).code == 0
    assert "".join(row["station"] for row in gusts("collection", "read", "gusts").values) == "cdab"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_pipe_is_read_to_its_end(
    gusts: Command, process: Callable[..., subprocess.Popen[bytes]], form: str
) -> None:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table({"station": ["a"]}), sink)
    data = {"json": b'{"station": "a"}\n', "parquet": sink.getvalue()}
    running = process("collection", "append", "gusts", "--format", form, stdin=subprocess.PIPE)
    out, err = running.communicate(data[form], timeout=120)
    assert (running.returncode, out, err) == (0, b"0 1\n", b"")


def test_an_append_counts_once_for_each_sequence(gusts: Command, folder: Path) -> None:
    file = lines(folder, ROWS)
    named = ("collection", "append", "gusts", file, "--writer", "w", "--sequence")
    assert gusts(*named, "7").out == "0 2\n"
    gusts("collection", "append", "gusts", "/dev/null", "--format", "json")
    assert gusts(*named, "7").out == "0 -\n"
    assert gusts(*named, "7", "--json").values == [
        {"collection": "gusts", "time": 0, "upper": 1, "rows": None, "repeated": True}
    ]
    ran = gusts(*named, "6")
    assert (ran.code, "last_sequence=7" in ran.err) == (4, True)
    assert gusts(*named, "8").out == "2 2\n"
    assert len(gusts("collection", "read", "gusts").values) == 4


def test_rows_are_taken_away_at_the_same_time(gusts: Command, folder: Path) -> None:
    old = lines(folder, '{"station": "oslo", "gust": 1}\n{"station": "bergen"}\n')
    gusts("collection", "append", "gusts", old)
    gone = lines(folder, '{"station": "oslo", "gust": 1}\n', "gone.jsonl")
    new = lines(folder, '{"station": "oslo", "gust": 2}\n', "new.jsonl")
    changed = ("collection", "append", "gusts", new, "--remove", gone, "--expect", "1")
    assert gusts(*changed).out == "1 2\n"
    shown = gusts("collection", "read", "gusts", "--columns", "station,gust").values
    assert shown == [{"station": "bergen", "gust": None}, {"station": "oslo", "gust": 2.0}]
    assert gusts(*changed).code == 4
    assert gusts("collection", "read", "gusts", "--as-of", "0", "--columns", "gust").values == [
        {"gust": None},
        {"gust": 1.0},
    ]


def test_a_row_that_was_never_there_is_told(gusts: Command, folder: Path) -> None:
    gone = lines(folder, '{"station": "oslo"}\n')
    gusts("collection", "append", "gusts", "/dev/null", "--format", "json", "--remove", gone)
    ran = gusts("collection", "read", "gusts")
    assert (ran.code, "read --diffs shows which" in ran.err) == (4, True)
    shown = gusts("collection", "read", "gusts", "--diffs", "--columns", "station")
    assert shown.values == [{"station": "oslo", "_diff": -1}]


@pytest.mark.slow
@pytest.mark.parametrize("named", [(), ("--writer", "w", "--sequence", "1")])
def test_a_large_file_is_one_append(
    gusts: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    monkeypatch.setattr(row_input, "TABLE_BYTES", 10_000)
    monkeypatch.setattr(row_input, "LINES", 500)
    rows = [f'{{"station": "{n:09}", "n": {n}}}\n' for n in range(4_000)]
    file = lines(folder, "".join(rows))
    gone = lines(folder, "".join(rows[:3_000]), "gone.jsonl")
    assert gusts("collection", "append", "gusts", file, *named).out == "0 4000\n"
    (found,) = gusts("collection", "stat", "gusts", "--json").values
    assert (found["upper"], found["rows"], found["batches"]) == (1, 4_000, 1)
    assert found["parts"] > 4
    nothing = ("/dev/null", "--format", "json", "--remove", gone)
    assert gusts("collection", "append", "gusts", *nothing).out == "1 3000\n"
    shown = gusts("collection", "read", "gusts", "--columns", "n").values
    assert sorted(row["n"] for row in shown) == list(range(3_000, 4_000))


def test_a_mistake_in_the_last_row_appends_nothing(
    gusts: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_input, "TABLE_BYTES", 1_000)
    monkeypatch.setattr(row_input, "LINES", 100)
    text = "".join(f'{{"station": "{n:09}"}}\n' for n in range(1_000)) + '{"station": null}\n'
    ran = gusts("collection", "append", "gusts", lines(folder, text))
    assert (ran.code, ran.out, "holds nulls" in ran.err) == (2, "", True)
    (found,) = gusts("collection", "stat", "gusts", "--json").values
    assert (found["upper"], found["rows"]) == (0, 0)


def test_an_empty_input_moves_the_upper(gusts: Command) -> None:
    assert gusts("collection", "append", "gusts", "/dev/null", "--format", "json").out == "0 0\n"
    assert gusts("collection", "read", "gusts").out == ""
    header = '"station","gust","seen","raw_base64","price","day","n","half"\n'
    assert gusts("collection", "read", "gusts", "--format", "csv").out == header


def test_times_may_be_dates(command: Command, folder: Path) -> None:
    command("collection", "create", "a", "--column", "x:int64", "--key", "x")
    with siltstone.open_collections(folder) as collections:
        target = collections.collection("a")
        for moment, row in ((1_000_000_000_000, 1), (1_000_000_001_000, 2)):
            target.compare_and_append(
                [{"x": row, "_time": moment, "_diff": 1}],
                expected_upper=target.info().upper or 0,
                new_upper=moment + 1,
            )
    shown = ("collection", "read", "a", "--as-of")
    assert command(*shown, "2001-09-09T01:46:40+00:00").values == [{"x": 1}]
    assert command(*shown, "1000000000999").values == [{"x": 1}]
    assert command(*shown, "2001-09-09T01:46:41+00:00").values == [{"x": 1}, {"x": 2}]
    ran = command(
        "collection", "follow", "a", "--from", "2001-09-09T01:46:41+00:00", "--limit", "1"
    )
    assert ran.values == [{"_time": 1_000_000_001_000, "_diff": 1, "x": 2}]
    assert "(2001-09-09 01:46:41.001+00:00)" in command("collection", "stat", "a").out


def test_changes_are_followed_from_a_time_on(gusts: Command, folder: Path) -> None:
    for number in range(3):
        file = lines(folder, f'{{"station": "s{number}", "n": {number}}}\n')
        gusts("collection", "append", "gusts", file)
    shown = gusts("collection", "follow", "gusts", "--from", "1", "--until", "3").values
    assert [(row["_time"], row["_diff"], row["n"]) for row in shown] == [(1, 1, 1), (2, 1, 2)]
    assert list(shown[0])[:2] == ["_time", "_diff"]
    gusts("collection", "advance-since", "gusts", "1")
    shown = gusts("collection", "follow", "gusts", "--from", "start", "--until", "3").values
    assert [(row["_time"], row["n"]) for row in shown] == [(1, 0), (1, 1), (2, 2)]
    limited = gusts("collection", "follow", "gusts", "--from", "start", "--limit", "2")
    assert len(limited.values) == 2
    assert gusts("collection", "follow", "gusts", "--from", "1", "--until", "3").code == 4
    (found,) = gusts("collection", "stat", "gusts", "--json").values
    assert found["readers"] == []


@pytest.mark.slow
def test_an_interrupt_says_where_to_continue(
    gusts: Command, folder: Path, process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    gusts("collection", "append", "gusts", lines(folder, '{"station": "a"}\n'))
    running = process("collection", "follow", "gusts", "--from", "start")
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["station"] == "a"
    gusts("collection", "append", "gusts", lines(folder, '{"station": "b"}\n'))
    assert json.loads(running.stdout.readline())["station"] == "b"
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130
    assert err == b"siltstone: interrupted; all below 2 is written; --from 2 continues\n"
