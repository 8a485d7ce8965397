"""Salvage of tables and attributes: the verdicts, and what comes back.

Injected: chunks of the table log deleted, cut and damaged; a journal with a hole; no journal at
all. What must hold: a key has a value that it once had, in the newest state that is left of it;
a table that may lack an update is not called exact; one that certainly lacks one is a guess.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.migration.salvage import SalvageReport, Verdict, salvage_store
from tests.support.migration.salvaged_store import chunks, made

ROUNDS = 4
Content = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Content]]:
    """A store without tier 1, with a chunk of the table log for each round; tables by round."""
    folder = made(tmp_path_factory.mktemp("older") / "store")
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\nflush:\n  age: 1h\n  table_age: 1h\n")
    rounds: list[Content] = []
    for number in range(ROUNDS):
        # Each owner writes its own chunks.
        with siltstone.open(folder) as store:
            if not number:
                store.create_table("t")
                store.create("s", attributes={"a": "0"}).append(b"bytes")
            if number == 1:
                store.create_table("second").put(b"k", b"v")
            table = store.table("t")
            table.put(b"every", f"round {number}".encode())
            table.put(f"of {number}".encode(), b"one")
            table.put(b"\xff" + bytes((number,)), bytes((0xFF, number)))
            if number == 2:
                table.remove(b"of 0")
                table.remove_range(b"of 1", b"of 2")
            store.segment("s").set_attributes({"a": str(number)})
            store.flush()
            rounds.append(tables_of(store))
    for name in ("tier1", "index"):
        shutil.rmtree(folder / name)
    return folder, rounds


def tables_of(store: siltstone.Store) -> Content:
    return {
        name: {
            key.decode("latin-1"): found.value.decode("latin-1")
            for key, found in store.table(name).scan()
        }
        for name in store.list_tables()
    }


@pytest.fixture
def copy(older: tuple[Path, list[Content]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(older[0], tmp_path / "copy"))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return made(tmp_path / "new")


def back(new: Path, report: SalvageReport) -> Content:
    """The rows of each table that came back, read from the new store."""
    found: Content = {}
    with siltstone.open(new, read_only=True) as store:
        for table in report.tables:
            info = store.segment(table.target).info()
            assert info.sealed
            assert info.attributes["salvage.verdict"] == table.verdict.value
            lines = store.segment(table.target).read(0, max(1, info.length)).splitlines()
            assert len(lines) == table.keys
            rows = [json.loads(line) for line in lines]
            assert all(0 < row["version"] <= table.version for row in rows)
            found[table.name] = {text(row, "key"): text(row, "value") for row in rows}
    return found


def text(row: dict[str, Any], name: str) -> str:
    if name in row:
        return str(row[name])
    return base64.b64decode(row[f"{name}_base64"]).decode("latin-1")


def attributes(new: Path, segment: str) -> tuple[str, str]:
    with siltstone.open(new, read_only=True) as store:
        found = store.segment(segment).info().attributes
        return found["a"], found["salvage.attributes"]


@pytest.mark.slow
def test_with_whole_metadata_tables_and_attributes_are_exact(
    older: tuple[Path, list[Content]], new: Path
) -> None:
    report = salvage_store(older[0], new)
    assert {(table.verdict, table.why) for table in report.tables} == {(Verdict.EXACT, ())}
    assert back(new, report) == older[1][-1]
    assert attributes(new, "salvage/s") == ("3", "exact")
    assert salvage_store(older[0], new).copied == 0


def test_without_a_journal_the_table_log_says_what_there_was(
    older: tuple[Path, list[Content]], copy: Path, new: Path
) -> None:
    for path in chunks(copy, "journal-*"):
        path.unlink()
    report = salvage_store(copy, new)
    for table in report.tables:
        assert (table.verdict, table.proven) == (Verdict.PREFIX, None)
        assert table.why == ("no checkpoint proves its last update",)
    assert back(new, report) == older[1][-1]
    assert attributes(new, "salvage/s") == ("3", "guessed")


@pytest.mark.slow
def test_after_an_older_state_the_table_log_continues(
    older: tuple[Path, list[Content]], copy: Path, new: Path
) -> None:
    epochs = sorted({path.parent for path in chunks(copy, "journal-*")})
    for epoch in epochs[-2:]:
        for path in epoch.glob("journal-*"):
            path.unlink()
    report = salvage_store(copy, new)
    assert report.doubts[0]
    for table in report.tables:
        assert table.verdict is Verdict.PREFIX
        assert table.proven is not None
        assert table.proven < table.version
    assert back(new, report) == older[1][-1]
    assert attributes(new, "salvage/s") == ("3", "guessed")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [Path.unlink, cut, change], ids=["deleted", "cut", "changed"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_table_log_with_harm_gives_what_is_whole_of_it(
    older: tuple[Path, list[Content]],
    copy: Path,
    new: Path,
    harm: Callable[[Path], None],
    number: int,
) -> None:
    """There is no other metadata."""
    for pattern in ("journal-*", "index-*"):
        for path in chunks(copy, pattern):
            path.unlink()
    logs = chunks(copy, "tables-*")
    assert len(logs) == ROUNDS
    harm(logs[number])
    report = salvage_store(copy, new)
    found, rounds = back(new, report), older[1]
    # Damage shows only by what comes after it.
    shown = number < ROUNDS - 1 or harm is change
    for table in report.tables:
        assert table.verdict is (Verdict.GUESSED if shown else Verdict.PREFIX)
        assert any("nothing is left" in why for why in table.why) == shown
    if not shown and harm is Path.unlink:
        assert found == rounds[-2]
    for name, rows in found.items():
        for key, value in rows.items():
            known = [one.get(name, one["t"]).get(key) for one in rounds]
            assert value in known, (name, key)
    if number < ROUNDS - 1:
        assert next(rows["every"] for rows in found.values() if "every" in rows) == "round 3"
