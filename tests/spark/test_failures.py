"""What a read must not pass over: wrong options, damage, chunks that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import siltstone
from tests.spark.conftest import Load

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": "x"}, "unknown option: 'length'; known are store, segment, segments, prefix"),
        ({"prefix": "x"}, "is needed, not 'segment' and 'prefix'"),
        ({"mode": "text"}, "option 'mode' is one of lines, events, bytes, not 'text'"),
        ({"mode": "events"}, "no event begins here where=segment "),
        ({"columns": "append_index"}, "appends are joined when they are stored"),
        ({"startingOffsets": "latest"}, "unknown option: 'startingoffsets'"),
        ({"store": ""}, "option 'store' is missing"),
        ({"range_bytes": 0}, "option 'range_bytes' must be between 1 and 1073741824 bytes, not 0"),
        ({"store": "nowhere"}, "StoreNotFoundError"),
        ({"segment": "nobody"}, "no such segment segment=nobody"),
        ({"to": 99}, "option 'to' is 99, beyond the length 2"),
        ({"schema": "value BIGINT"}, "a segment has the columns 'value STRING' or"),
        ({"schema": "value STRING, offset INT"}, "'offset BIGINT'"),
    ],
)
def test_what_is_wrong_is_named(
    segment: siltstone.Segment, load: Load, options: dict[str, object], message: str
) -> None:
    segment.append(b"a\n")
    with pytest.raises(PySparkException) as caught:
        load(**options).collect()
    assert message in str(caught.value)


def test_a_damaged_chunk_fails_the_job_and_is_named(
    folder: Path, segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"abcdefg\n" * 30)
    segment.flush()
    name = list(segment.chunks())[1].chunk
    path = folder / "chunks" / name
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(5)
        file.write(b"X")
    with pytest.raises(PySparkException) as caught:
        load().count()
    assert "block does not match its sum" in str(caught.value)
    assert f"where={name}" in str(caught.value)


def test_a_lost_chunk_fails_the_job_and_is_named(
    folder: Path, segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"abcdefg\n" * 30)
    segment.flush()
    name = list(segment.chunks())[1].chunk
    frame = load()
    frame.rdd.getNumPartitions()
    (folder / "chunks" / name).unlink()
    with pytest.raises(PySparkException) as caught:
        frame.count()
    assert f"chunk does not exist any more where={name}" in str(caught.value)


def test_bytes_truncated_after_the_planning_are_told(
    folder: Path, segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"abcdefg\n" * 30)
    segment.flush()
    frame = load()
    frame.rdd.getNumPartitions()
    first = next(iter(segment.chunks())).chunk
    segment.truncate(100)
    # The garbage of the store keeps it for some minutes.
    (folder / "chunks" / first).unlink(missing_ok=True)
    with pytest.raises(PySparkException) as caught:
        frame.count()
    assert "offset was truncated" in str(caught.value)


def test_a_task_asks_the_store_for_the_rest_of_a_long_line(tmp_path: Path, load: Load) -> None:
    """What was in the tail when the read was planned is in a chunk when the task needs it."""
    line = b"x" * (2 << 20)
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        segment = store.create("long")
        segment.append(line + b"\nlast\n")
        frame = load(store=tmp_path, segment="long", to=1000)
        assert frame.rdd.getNumPartitions() == 1
        segment.flush()
        assert [len(row.value) for row in frame.collect()] == [len(line)]
