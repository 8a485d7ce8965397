"""``collection import``: tables from elsewhere, in one append, once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import deltalake
import pyarrow
import pytest
from pyarrow import parquet

from tests.support.command import Command

GUSTS = pyarrow.table({"gust": [12.5, 21.0, None], "station": ["oslo", "bergen", "røst"]})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of one file."""
    (tmp_path / "source").mkdir()
    parquet.write_table(GUSTS, tmp_path / "source" / "a.parquet")
    return tmp_path / "source"


def names(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_a_key_makes_the_collection_and_a_repeat_appends_nothing(
    command: Command, source: Path
) -> None:
    line = ("collection", "import", "gusts", str(source), "--key", "station")
    first = command(*line).out
    assert command(*line).out == first.replace(" 3\n", " -\n")
    (told,) = command(*line, "--json").values
    time = int(first.split()[0])
    assert told == {
        "collection": "gusts", "time": time, "upper": time + 1, "repeated": True, "rows": 0,
        "files": 0, "taken": 0,
    }  # fmt: skip
    rows = sorted(command("collection", "read", "gusts").values, key=lambda row: row["station"])
    assert rows == sorted(GUSTS.to_pylist(), key=lambda row: row["station"])


def test_a_table_of_delta_comes_at_its_version(command: Command, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "delta", GUSTS)
    deltalake.DeltaTable(tmp_path / "delta").delete("station = 'oslo'")
    line = ("collection", "import", str(tmp_path / "delta"), "--key", "station", "--json")
    for version, rows in ((0, 3), (1, 2)):
        named = (*line[:2], f"v{version}", *line[2:], "--version", str(version))
        assert command(*named).values[0]["rows"] == rows


def test_a_dry_run_changes_nothing_and_names_what_does_not_fit(
    command: Command, folder: Path, source: Path
) -> None:
    before = names(folder)
    line = ("collection", "import", "gusts", str(source), "--dry-run")
    told = command(*line, "--key", "station", "--json").values[0]
    columns = [{"name": "gust", "type": "double"}, {"name": "station", "type": "string"}]
    assert told == {
        "would_import": "gusts", "would_create": True, "files": 1, "rows": 3,
        "length": os.stat(source / "a.parquet").st_size, "columns": columns,
    }  # fmt: skip
    shown = command(*line, "--key", "station").out
    assert "1 file" in shown
    assert "would create gusts: gust double, station string" in shown
    bad = command(*line, "--key", "gust")
    assert (bad.code, "'gust'" in bad.err) == (2, True)
    assert names(folder) == before


def test_what_cannot_be_imported_is_refused(command: Command, source: Path) -> None:
    line = ("collection", "import", "gusts", str(source))
    absent = command(*line)
    assert absent.code == 3
    assert command(*line, "--key", "station").code == 0
    os.utime(source / "a.parquet", (1, 1))
    again = command(*line)
    assert (again.code, "imported before" in again.err) == (2, True)
    assert command(*line, "--writer", "me", "--sequence", "1").out.endswith(" 3\n")
    older = command(*line, "--writer", "me", "--sequence", "0")
    assert (older.code, "below the last one of the writer" in older.err) == (4, True)
    assert "collection writer ls" in older.err
    assert command(*line[:3], str(source / "gone")).code == 2
    for wrong, message in (
        (["--writer", "me"], "--writer and --sequence"),
        (["--key", "gust"], "its key is station"),
        (["--version", "1", "--format", "parquet"], "--version is for"),
    ):
        refused = command(*line, *wrong)
        assert (refused.code, message in refused.err) == (2, True)


def test_rows_come_at_a_time_and_with_chosen_columns(command: Command, source: Path) -> None:
    made = ("collection", "create", "gusts", "--column", "station:string", "--key", "station")
    assert command(*made, "--times", "count").code == 0
    line = ("collection", "import", "gusts", str(source), "--time", "7")
    assert "'gust'" in command(*line).err
    assert command(*line, "--columns", "station").out == "7 3\n"
    late = command(*line, "--columns", "station", "--writer", "me", "--sequence", "0")
    assert (late.code, json.dumps("upper=8")[1:-1] in late.err) == (2, True)


def test_a_dry_run_refuses_what_the_import_refuses(
    command: Command, folder: Path, source: Path
) -> None:
    made = (
        "collection",
        "create",
        "gusts",
        "--column",
        "station:string",
        "--column",
        "gust:double",
    )
    assert command(*made, "--key", "station", "--times", "count").code == 0
    line = ("collection", "import", "gusts", str(source))
    assert command(*line, "--time", "7").code == 0
    assert command(*line, "--writer", "me", "--sequence", "5").code == 0
    before = names(folder)
    named = ("--writer", "other", "--sequence", "0")
    for given, code, message in (
        (("--writer", "me", "--sequence", "4"), 4, "last_sequence=5"),
        ((*named, "--time", "7"), 2, "from the upper on"),
        ((*named, "--time", "1min"), 2, "give a number"),
        (("--writer", "x" * 1025, "--sequence", "0"), 2, "a name has"),
        (("--writer", "other", "--sequence", str(2**63)), 2, "a sequence is"),
    ):
        tried = command(*line, *given, "--dry-run")
        assert (tried.code, tried.out, message in tried.err) == (code, "", True), tried.err
        assert command(*line, *given).err == tried.err
    new = ("collection", "import", "new\n", str(source), "--key", "station")
    assert command(*new, "--dry-run").err == command(*new).err
    assert command(*line, *named, "--time", "900", "--dry-run").out.startswith("would import")
    os.utime(source / "a.parquet", (1, 1))
    tried = command(*line, "--dry-run")
    assert (tried.code, "imported before" in tried.err) == (2, True)
    assert names(folder) == before


def test_a_dry_run_says_what_was_imported_already(command: Command, source: Path) -> None:
    line = ("collection", "import", "gusts", str(source), "--key", "station")
    time = int(command(*line).out.split()[0])
    assert command(*line, "--dry-run").out == (
        f"imported already, at the time {time}: would import nothing\n"
    )
    (told,) = command(*line, "--dry-run", "--json").values
    assert told == {"would_import": None, "collection": "gusts", "time": time}
    sequence = ("--writer", "me", "--sequence", "3")
    assert command(*line, *sequence, "--dry-run").out.startswith("would import 1 file")
    assert command(*line, *sequence).code == 0
    assert "imported already" in command(*line, *sequence, "--dry-run").out


def test_a_mistake_in_a_row_leaves_no_collection(
    command: Command, folder: Path, source: Path
) -> None:
    lacking = pyarrow.table({"gust": [1.0], "station": pyarrow.array([None], "string")})
    parquet.write_table(lacking, source / "b.parquet")
    refused = command("collection", "import", "gusts", str(source), "--key", "station")
    assert (refused.code, "b.parquet" in refused.err) == (2, True)
    assert command("collection", "ls").out == ""
    assert list(folder.rglob("*.parquet")) == []
