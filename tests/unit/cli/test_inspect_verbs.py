"""Inspecting log, journal and rows: next to an owner, without one, and when nothing opens."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

import siltstone
from siltstone.core.errors import LogTruncatedError
from siltstone.core.fenced_log import LogReader
from siltstone.core.records.frame import Frame
from siltstone.journal.journal_state import JournalState
from siltstone.store.admin.inspection import Inspection, open_inspection
from tests.support.command import Command


@pytest.fixture
def written(folder: Path) -> Path:
    with siltstone.open(folder) as store:
        segment = store.create("{a}log")
        segment.append(b"flushed")
        store.flush()
        segment.append(b"and not")
        segment.truncate(3)
    return folder


@pytest.mark.slow
def test_frames_are_shown_without_a_claim(command: Command, written: Path) -> None:
    with siltstone.open(written) as store:
        before = [stats.epoch for stats in store.stats()]
        shown = command("log", "show", "--rows", "--json").values
        store.segment("{a}log").append(b"x")
        assert [stats.epoch for stats in store.stats()] == before
        store.close(flush="never")
    heads = [value for value in shown if "alive" in value]
    frames = [value for value in shown if "pieces" in value]
    assert [head["container"] for head in heads] == [0, 1]
    assert all(head["alive"] and "pid=" in head["owner"] for head in heads)
    pieces = [piece for frame in frames for piece in frame["pieces"]]
    appends = [(p["offset"], p["length"]) for p in pieces if p["piece"] == "append"]
    assert (7, 7) in appends
    rows = [row for piece in pieces for row in piece.get("rows", ())]
    states = [row for row in rows if row["row"] == "state" and row["change"] == "put"]
    assert [(state["name"], state["start_offset"]) for state in states][-1] == ("{a}log", 3)
    assert {piece["piece"] for piece in pieces} >= {"append", "table", "checkpoint"}
    assert {frame["kind"] for frame in frames} == {"batch", "end"}
    text = command("log", "show", "--rows").out
    assert "append: segment_id=" in text
    assert "put state:" in text


def test_frames_can_be_chosen(command: Command, written: Path) -> None:
    whole = [value for value in command("log", "show", "--json").values if "pieces" in value]
    last = whole[-1]["index"]
    some = command("log", "show", "--container", "1", "--json", "--from", str(last), "--limit", "1")
    assert [value["index"] for value in some.values[1:]] == [last]
    assert len(command("log", "show", "--limit", "0", "--json").values) == 2
    assert command("log", "show", "--container", "2").code == 2
    assert whole[-1]["index"] - 1 in [value["index"] for value in whole]
    below = command("log", "show", "--from", "0", "--container", "1")
    assert (below.code, "truncated" in below.err) == (1, True)


def test_a_log_that_is_lost_is_shown_as_it_is(command: Command, written: Path) -> None:
    shutil.rmtree(written / "tier1")
    heads = command("log", "show", "--json").values
    assert [(head["epoch"], head["first"], head["end"]) for head in heads] == [(0, 0, 0)] * 2
    assert command("journal", "verify").code == 0
    files = command("journal", "show", "--json").values
    assert {file["kind"] for file in files} == {"checkpoint", "batches"}


@pytest.mark.slow
def test_journal_files_are_shown_in_their_order(command: Command, written: Path) -> None:
    files = command("journal", "show", "--json").values
    places = [(file["container"], file["epoch"], file["number"]) for file in files]
    assert places == sorted(places)
    first = files[0]
    assert (first["kind"], first["checkpoint"]["safe_index"]) == ("checkpoint", 0)
    batches = [batch for file in files for batch in file["batches"]]
    assert batches[-1]["table_log_end"] > 0
    flushed = [batch for batch in batches if batch["chunks"]]
    assert "tables-" in flushed[-1]["chunks"][0]
    assert command("journal", "show", "--container", "0", "--json").values == [
        file for file in files if file["container"] == 0
    ]
    assert "checkpoint" in command("journal", "show").out


@pytest.mark.slow
def test_a_checkpoint_is_written_on_request(command: Command, written: Path) -> None:
    before = command("journal", "show", "--container", "1", "--json").values[-1]
    (_, made) = command("journal", "checkpoint", "--json").values
    shown = command("journal", "show", "--container", "1", "--json").values
    after = [file for file in shown if file["kind"] == "checkpoint"][-1]
    assert after["epoch"] == before["epoch"] + 1
    assert after["checkpoint"]["index_version"] == made["version"]
    with siltstone.open(written):
        assert command("journal", "checkpoint").code == 5
    assert "checkpoint at table version" in command("journal", "checkpoint").out


@pytest.mark.slow
def test_a_damaged_journal_is_told_before_it_is_needed(command: Command, written: Path) -> None:
    whole = command("journal", "verify")
    assert (whole.out, whole.err) == ("", "a boot finds all that it needs\n")
    newest = max((written / "chunks" / "system" / "c1").glob("e*"))
    files = sorted(newest.glob("journal-*"))
    files[1].chmod(0o600)
    files[1].write_bytes(files[1].read_bytes()[:-3])
    ran = command("journal", "verify", "--json")
    assert (ran.code, ran.err) == (0, ""), "the checkpoint before it is used"
    assert {value["severity"] for value in ran.values} == {"warning"}
    files[0].chmod(0o600)
    files[0].write_bytes(b"nothing")
    ran = command("journal", "verify")
    assert ran.code == 6
    assert "damage: container 1:" in ran.out
    broken = {file["kind"] for file in command("journal", "show", "--json").values}
    assert broken >= {"unreadable", "broken checkpoint"}


@pytest.mark.slow
def test_a_file_that_the_journal_names_and_that_is_gone(command: Command, written: Path) -> None:
    named = next((written / "chunks" / "system" / "c1").rglob("tables-*"))
    whole = named.read_bytes()
    named.chmod(0o600)
    named.write_bytes(whole[:-1])
    ran = command("journal", "verify", "--json")
    assert (ran.code, ran.values[0]["severity"]) == (6, "damage")
    named.unlink()
    assert command("journal", "verify").code == 6


@pytest.mark.slow
def test_rows_are_decoded(command: Command, written: Path) -> None:
    everything = command("table", "rows", "--json").values
    assert {row["kind"] for row in everything} >= {"name", "state", "layout", "extent", "time"}
    (state,) = command("table", "rows", "--kind", "state", "--json").values
    assert state["fields"]["name"] == "{a}log"
    mine = command("table", "rows", "--segment", "{a}log", "--json").values
    assert {row["kind"] for row in mine} == {"name", "state", "layout", "extent", "time"}
    assert len(command("table", "rows", "--limit", "2", "--json").values) == 2
    assert "name={a}log" in command("table", "rows", "--kind", "name").out
    assert command("table", "rows", "--segment", "other").code == 3
    with siltstone.open(written) as store:
        assert [row.kind for row in store.rows(segment="{a}log")] == [row["kind"] for row in mine]


@pytest.mark.slow
def test_what_an_owner_drops_meanwhile_is_no_damage(written: Path) -> None:
    with open_inspection(written) as inspection:
        before = asyncio.run(inspection.journal_state(1))
    for number in range(4):
        with siltstone.open(written) as store:
            store.create(f"{{a}}{number}").append(b"x")
            store.flush()
            store.checkpoint()
    with open_inspection(written) as inspection:
        assert before is not None
        gone = inspection._missing(before)
        assert gone, "nothing of the older state is gone, so this test would prove nothing"
        states = [before]
        real = Inspection.journal_state

        async def older(self: Inspection, container: int) -> JournalState | None:
            return states.pop() if states else await real(self, container)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Inspection, "journal_state", older)
            assert list(inspection.verify_journal(1)) == []
        assert not states


def test_a_log_that_is_truncated_between_two_looks(written: Path) -> None:
    class Moving:
        """Names, once, a first frame that is gone when it is read."""

        looks = 0

        def __init__(self, inner: LogReader) -> None:
            self.inner = inner

        def first(self) -> int:
            Moving.looks += 1
            return self.inner.first() if Moving.looks > 1 else 0

        def read(self, from_index: int) -> Iterator[Frame]:
            return self.inner.read(from_index)

    real = Inspection._reader

    @contextmanager
    def moving(self: Inspection, container: int) -> Iterator[Moving]:
        with real(self, container) as reader:
            yield Moving(reader)

    with open_inspection(written) as inspection:
        whole = [frame.index for frame in inspection.frames(1)]
        assert whole[0] > 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Inspection, "_reader", moving)
            assert [frame.index for frame in inspection.frames(1)] == whole
        assert Moving.looks == 2


@pytest.mark.slow
def test_frames_that_an_owner_truncates_after_the_first_are_passed_over(folder: Path) -> None:
    """Each owner begins a file of the log."""
    for number in range(4):
        with siltstone.open(folder) as store:
            store.create(f"{{a}}{number}").append(b"x")
            store.close(flush="never")
    with siltstone.open(folder) as store, open_inspection(folder) as inspection:
        store.segment("{a}0").append(b"newest")
        before = inspection.log_head(1)
        shown = inspection.frames(1)
        asked_for = inspection.frames(1, before.first)
        assert [next(shown).index, next(asked_for).index] == [before.first, before.first]
        store.flush()
        store.checkpoint()
        store.flush()
        after = inspection.log_head(1)
        assert after.first > before.end - 3
        for frames in (shown, asked_for):
            left = [frame.index for frame in frames]
            assert left == sorted(left)
            assert left[-1] == after.end - 1
            assert set(range(after.first, after.end)) <= set(left)
        with pytest.raises(LogTruncatedError):
            next(inspection.frames(1, before.first))


@pytest.mark.slow
def test_uuids_have_one_form_wherever_they_are_shown(command: Command, written: Path) -> None:
    place = str(written.parent / "place")
    made = command("backup", "create", place, "--json").values[-1]["store"]
    assert made == command("stat", "--json").values[0]["uuid"]
    assert made in command("stat").out
    assert [one["store"] for one in command("backup", "list", place, "--json").values] == [made]
    assert command("backup", "verify", place, "--of", made).code == 0
    shown = [
        value["lineage"]
        for verb in (("log", "show"), ("journal", "show"))
        for value in command(*verb, "--json").values
        if "lineage" in value
    ]
    assert len(shown) > 4
    assert [str(UUID(text)) for text in (made, *shown)] == [made, *shown]
