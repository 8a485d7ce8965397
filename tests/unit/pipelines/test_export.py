"""An export holds every record once and grows with its segment; verification sees any change."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import siltstone
from siltstone import events
from siltstone.core.errors import CapabilityError, SettingsError, StoreError
from siltstone.pipelines.export import ExportWork, export, plan_export
from siltstone.pipelines.export_layout import Form, Records, exported_segments
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.segment_ranges import cut_at_grid, gaps, plan_range
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_export import (
    BEHIND,
    DIFFERS,
    MISSING,
    TRUNCATED,
)
from siltstone.pipelines.work import FAILED, OK
from siltstone.store.store_assembly import storage_of
from tests.support.pipelines.exports import FILE_BYTES, exported, files_of, verified
from tests.support.stores import chunk_path, flip, make_store
from tests.unit.pipelines.conftest import Fill, text

pyarrow = pytest.importorskip("pyarrow", reason="an export to Parquet needs pyarrow")


def rows(out: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Offset and value of every row, by segment, in the order of offsets."""
    from pyarrow import dataset

    table = dataset.dataset(
        out, format="parquet", partitioning=dataset.partitioning(flavor="hive")
    ).to_table()
    found: dict[str, list[tuple[int, bytes]]] = {}
    for row in table.to_pylist():
        value = row["value"]
        raw = value.encode() if isinstance(value, str) else value
        found.setdefault(str(row["segment"]), []).append((row["offset"], raw))
    return {name: sorted(values) for name, values in found.items()}


def lines_of(data: bytes) -> list[tuple[int, bytes]]:
    found, offset = [], 0
    for line in data.split(b"\n"):
        found.append((offset, line))
        offset += len(line) + 1
    return found[:-1] if data.endswith(b"\n") or not data else found


@pytest.mark.slow
def test_every_folder_that_an_export_makes_is_named_durably(
    folder: Path, tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill("a", 100).seal()
    synced: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    out = tmp_path / "deep" / "out"
    exported(folder, out, Form.PARQUET, Records.LINES)
    made = {above for path in files_of(out) for above in path.parents if above.is_relative_to(out)}
    assert {one.stat().st_ino for one in (tmp_path, out.parent, *made)} <= synced


@pytest.mark.slow
def test_lines_are_rows_of_partitions(folder: Path, tmp_path: Path, fill: Fill) -> None:
    data = {name: text(name, 33_333) for name in ("a/b c", "žluť", "x")}
    for name in data:
        fill(name, 33_333).seal()
    found = exported(folder, tmp_path / "out", Form.PARQUET, Records.LINES)
    assert {outcome.status for outcome in found} == {OK}
    assert sum(outcome.length for outcome in found) == 3 * 33_333
    assert rows(tmp_path / "out") == {name: lines_of(data[name]) for name in data}
    assert exported_segments(tmp_path / "out") == sorted(data)
    assert set(verified(folder, tmp_path / "out").values()) == {OK}


@pytest.mark.slow
def test_half_a_line_waits_for_a_later_export(
    folder: Path, tmp_path: Path, store: siltstone.Store
) -> None:
    segment = store.create("a")
    segment.append(b"one\ntwo\nthr")
    out = tmp_path / "out"
    exported(folder, out, Form.PARQUET, Records.LINES)
    assert rows(out)["a"] == [(0, b"one"), (4, b"two")]
    segment.append(b"ee\nfour")
    first = files_of(out)
    exported(folder, out, Form.PARQUET, Records.LINES)
    assert rows(out)["a"][2:] == [(8, b"three")]
    assert set(first) < set(files_of(out))
    segment.seal()
    exported(folder, out, Form.PARQUET, Records.LINES)
    assert rows(out)["a"][3:] == [(14, b"four")]
    assert exported(folder, out, Form.PARQUET, Records.LINES) == []
    assert set(verified(folder, out).values()) == {OK}


@pytest.mark.slow
def test_events_and_blocks(folder: Path, tmp_path: Path, store: siltstone.Store) -> None:
    segment = store.create("e")
    payloads = [bytes([number % 251]) * (number % 400) for number in range(200)]
    for begin in range(0, 200, 50):
        events.append_events(segment, payloads[begin : begin + 50])
        store.flush()
    exported(folder, tmp_path / "events", Form.PARQUET, Records.EVENTS)
    assert [value for _, value in rows(tmp_path / "events")["e"]] == payloads
    data = events.encode_many(payloads)
    exported(folder, tmp_path / "blocks", Form.PARQUET, Records.BYTES)
    assert b"".join(value for _, value in rows(tmp_path / "blocks")["e"]) == data
    exported(folder, tmp_path / "files", Form.FILES, Records.BYTES)
    files = [path for path in files_of(tmp_path / "files") if path.suffix == ".bin"]
    assert len(files) == -(-len(data) // FILE_BYTES)
    assert b"".join(path.read_bytes() for path in files) == data
    for name in ("events", "blocks", "files"):
        assert set(verified(folder, tmp_path / name).values()) == {OK}


@pytest.mark.slow
def test_an_event_that_is_not_whole_waits_and_one_after_the_range_is_not_read(
    folder: Path, tmp_path: Path, store: siltstone.Store
) -> None:
    from siltstone.pipelines.export_records import tables_of

    segment = store.create("e")
    whole = events.encode_many([b"one", b"two" * 100])
    segment.append(whole[:-1])
    store.flush()
    (found,) = exported(folder, tmp_path / "out", Form.PARQUET, Records.EVENTS)
    assert found.status == "unreadable"
    assert "event is cut off" in found.message
    segment.append(whole[-1:] + events.encode_many([b"three"]))
    store.flush()
    with store_view(folder) as view:
        (info,) = view.segments(["e"])
        # The bytes after a range come with its blocks, but are no part of it.
        part = plan_range(view, info, 0, len(whole) - 1, info.length)
        with closing(storage_of(folder)) as storage, pytest.raises(events.MalformedEventError):
            list(tables_of(Records.EVENTS, view.path, storage, part))
    exported(folder, tmp_path / "out", Form.PARQUET, Records.EVENTS)
    found_rows = rows(tmp_path / "out")["e"]
    assert found_rows == [(0, b"one"), (11, b"two" * 100), (len(whole), b"three")]


@pytest.mark.slow
def test_records_that_are_none_are_told_and_not_published(
    folder: Path, tmp_path: Path, store: siltstone.Store
) -> None:
    store.create("bad").append(b"\xff\xfe\n")
    store.create("good").append(b"fine\n")
    found = exported(folder, tmp_path / "lines", Form.PARQUET, Records.LINES)
    assert sorted(outcome.status for outcome in found) == [OK, "unreadable"]
    assert any("a line is not UTF-8" in outcome.message for outcome in found)
    found = exported(folder, tmp_path / "events", Form.PARQUET, Records.EVENTS)
    assert all("offset=0" in outcome.message for outcome in found)
    assert {path.name for path in files_of(tmp_path / "events")} == {"_export.json"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "records"), [(Form.PARQUET, Records.LINES), (Form.FILES, Records.BYTES)]
)
def test_any_change_of_a_file_is_seen(
    folder: Path, tmp_path: Path, fill: Fill, form: Form, records: Records
) -> None:
    out = tmp_path / "out"
    fill("a", 55_000).seal()
    exported(folder, out, form, records)
    files = [path for path in files_of(out) if path.name != "_export.json"]
    names = [f"{path.parent.name}/{path.name}" for path in files]
    assert len(files) == 6
    flip(files[0], files[0].stat().st_size // 2)
    files[1].write_bytes(files[1].read_bytes()[:-1])
    files[2].write_bytes(files[3].read_bytes())
    files[4].unlink()
    found = verified(folder, out)
    wrong = {subject: status for subject, status in found.items() if status != OK}
    assert wrong == {
        names[0]: DIFFERS,
        names[1]: DIFFERS,
        names[2]: DIFFERS,
        "segment=a[40000:50000]": MISSING,
    }
    # Only what is missing is written again.
    exported(folder, out, form, records)
    assert verified(folder, out)[names[4]] == OK


@pytest.mark.slow
def test_what_the_store_has_more_or_less_of_is_no_difference(
    folder: Path, tmp_path: Path, fill: Fill, store: siltstone.Store
) -> None:
    out = tmp_path / "out"
    segment = fill("a", 30_000)
    exported(folder, out, Form.FILES, Records.BYTES)
    segment.append(b"more")
    segment.truncate(12_000)
    found = verified(folder, out)
    assert sorted(found.values()) == [BEHIND, OK, TRUNCATED, TRUNCATED]
    segment.seal()
    segment.delete()
    assert verified(folder, out) == {"a": DIFFERS}
    store.create("a").append(b"x" * 40_000)
    assert verified(folder, out) == {"a": DIFFERS}
    with pytest.raises(StoreError, match="the folder holds another export"):
        exported(folder, out, Form.FILES, Records.BYTES)


@pytest.mark.slow
def test_damage_of_the_store_is_not_blamed_on_the_export(
    folder: Path, tmp_path: Path, fill: Fill
) -> None:
    segment = fill("a", 9_000)
    exported(folder, tmp_path / "out", Form.FILES, Records.BYTES)
    flip(chunk_path(folder, list(segment.chunks())[1].chunk), 5)
    assert set(verified(folder, tmp_path / "out").values()) == {"unreadable"}
    found = exported(folder, tmp_path / "other", Form.FILES, Records.BYTES)
    assert [outcome.status for outcome in found] == ["unreadable"]


@pytest.mark.slow
def test_what_cannot_be_exported_is_named(folder: Path, tmp_path: Path, fill: Fill) -> None:
    fill("n" * 300, 10)
    with pytest.raises(CapabilityError, match="too long for a folder"):
        exported(folder, tmp_path / "out", Form.FILES, Records.BYTES)
    with pytest.raises(SettingsError, match="files hold bytes as they are, not lines"):
        exported(folder, tmp_path / "out", Form.FILES, Records.LINES)
    with pytest.raises(siltstone.SegmentNotFoundError):
        exported(folder, tmp_path / "out", Form.FILES, Records.BYTES, ["none"])
    fill("__HIVE_DEFAULT_PARTITION__", 10)
    with pytest.raises(CapabilityError, match="take this name for null segment=__HIVE_DEF"):
        exported(folder, tmp_path / "out", Form.PARQUET, Records.LINES)


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("s3://?region=eu-west-1", "names no bucket"),
        ("s3://bucket/a#b", "has a fragment"),
    ],
)
def test_an_address_that_is_none_is_named(folder: Path, address: str, wrong: str) -> None:
    message = f"is like s3://bucket/prefix, and {address!r} {wrong}"
    with pytest.raises(SettingsError, match=re.escape(message)):
        exported(folder, address, Form.PARQUET, Records.LINES)


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_an_outcome(
    folder: Path, tmp_path: Path, fill: Fill
) -> None:
    fill("a", 10)
    out = tmp_path / "out"
    with store_view(folder) as view:
        items = plan_export(view, view.segments(), out, Form.FILES, Records.BYTES)
        place = Path(items[0].target, items[0].name)
        place.mkdir()
        (place / "in the way").touch()
        with ExportWork(store=view.path, uuid=view.uuid, rate=None).open() as step:
            assert step(items[0]).status in {FAILED, "same"}


@pytest.mark.slow
def test_a_killed_export_continues(tmp_path: Path) -> None:
    """A killed run left whole files; a later run, which cuts elsewhere, adds what is missing."""
    folder = make_store(tmp_path / "store", chunk_bytes=65_536)
    data = text("a", 2_000_000)
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(data)
        segment.seal()
        store.flush()
    out = tmp_path / "out"
    command = [sys.executable, "-m", "siltstone", "--store", str(folder), "spark", "export"]
    # At this rate it is not finished before it is killed.
    command += [str(out), "--executor", "local", "--threads", "2", "--file-size", "8KiB"]
    command += ["--rate", "100KiB"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(list(out.glob("*/*.parquet"))) < 5:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = {path: path.read_bytes() for path in out.rglob("*.parquet")}
    for path in out.rglob(".*.draft"):
        os.utime(path, (0, 0))
    with store_view(folder) as view:
        items = plan_export(view, view.segments(), out, Form.PARQUET, Records.LINES, 300_000)
        assert {outcome.status for outcome in export(view, LocalExecutor(2), items)} == {OK}
    assert rows(out) == {"a": lines_of(data)}
    assert all(path.read_bytes() == content for path, content in left.items())
    assert not list(out.rglob(".*.draft"))


@given(
    st.integers(0, 50),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=5),
)
def test_gaps_are_what_is_not_taken(start: int, length: int, taken: list[tuple[int, int]]) -> None:
    ranges = [(low, low + count) for low, count in taken]
    found = [n for low, high in gaps(start, start + length, ranges) for n in range(low, high)]
    free = [n for n in range(start, start + length) if not any(a <= n < b for a, b in ranges)]
    assert found == free


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 30))
def test_cuts_do_not_depend_on_the_ends(start: int, length: int, size: int) -> None:
    cuts = list(cut_at_grid(start, start + length, size))
    assert [n for low, high in cuts for n in range(low, high)] == list(range(start, start + length))
    assert all(low % size == 0 for low, _ in cuts[1:])
