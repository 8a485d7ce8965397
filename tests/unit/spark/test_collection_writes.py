"""Writes into collections by the classes that Spark calls: once, whatever is repeated or dies."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from siltstone.collections.blocking import Collection, Collections
from siltstone.core.errors import (
    BatchExpiredError,
    CollectionNotFoundError,
    CollectionSchemaError,
    CollectionSequenceError,
    SettingsError,
    UpdateTimeError,
    UpperMismatchError,
)
from siltstone.spark.collection_options import (
    CollectionWriteOptions,
    parse_collection_write_options,
)
from tests.support.spark.collection_fixtures import collections, folder, gusts, parts, shown
from tests.support.spark.collection_world import (
    GUSTS,
    NAME,
    WriteByHand,
    multiset,
    some_gusts,
)

__all__ = ["collections", "folder", "gusts"]

STATION, GUST = StructField("station", StringType()), StructField("gust", DoubleType())
FRAME = StructType([GUST, STATION])


def spark_batch(count: int, first: int = 0) -> pyarrow.RecordBatch:
    """Rows in the form, and in the order of columns, that Spark gives them."""
    (batch,) = some_gusts(count, first).select(["gust", "station"]).to_batches()
    return pyarrow.RecordBatch.from_arrays(batch.columns, names=["gust", "station"])


def test_all_tasks_of_a_job_are_appended_at_one_time(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    tasks = [job.task(spark_batch(10, 100 * n), spark_batch(10, 100 * n + 10)) for n in range(3)]
    assert gusts.info().upper == 0, "nothing is there before the end"
    job.commit(*tasks, job.task())
    wanted = pyarrow.concat_tables([some_gusts(20, 100 * n) for n in range(3)])
    assert shown(gusts) == multiset(wanted)
    info = gusts.info()
    assert (info.upper, info.writers) == (1, ()), "no row of a writer is left"
    assert gusts.sweep() == 0


def test_rows_of_many_batches_of_a_task_come_once(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    job.commit(job.task(*(spark_batch(900, 900 * number) for number in range(25))))
    assert shown(gusts) == multiset(some_gusts(900 * 25))


def test_attempts_that_do_not_count_leave_nothing(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    job.task(spark_batch(10))
    taken = job.task(spark_batch(10))
    job.task(spark_batch(10))
    job.commit(taken, None)
    assert shown(gusts) == multiset(some_gusts(10))
    assert (gusts.sweep(), parts(folder)) == (2, 1)


def test_a_job_that_fails_leaves_nothing(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    message = job.task(spark_batch(10))
    job.abort(message, None)
    job.abort(message, None)
    with pytest.raises(BatchExpiredError):
        job.commit(message)
    assert gusts.info().upper == 0
    assert (gusts.sweep(), parts(folder)) == (1, 0)


def test_an_abort_after_the_commit_changes_nothing(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    message = job.task(spark_batch(10))
    job.commit(message)
    job.abort(message)
    assert gusts.sweep() == 0
    assert shown(gusts) == multiset(some_gusts(10))


def test_an_append_takes_no_notice_of_others(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    message = job.task(spark_batch(10))
    gusts.append(some_gusts(5, 100))
    job.commit(message)
    assert shown(gusts) == multiset(pyarrow.concat_tables([some_gusts(10), some_gusts(5, 100)]))


def test_a_job_with_a_sequence_counts_once(folder: Path, gusts: Collection) -> None:
    for overwrite in (False, True):
        for _ in range(2):
            job = WriteByHand(
                folder, FRAME, overwrite=overwrite, writer="job", sequence=int(overwrite)
            )
            job.commit(job.task(spark_batch(10)), job.task(spark_batch(10)))
        assert shown(gusts) == multiset(pyarrow.concat_tables([some_gusts(10)] * 2))
    assert gusts.info().upper == 2
    with pytest.raises(CollectionSequenceError, match="last_sequence=1"):
        WriteByHand(folder, FRAME, writer="job", sequence=0)
    assert [row.name for row in gusts.info().writers] == ["job"]


def test_an_overwrite_replaces_what_was_there(folder: Path, gusts: Collection) -> None:
    for first in (0, 500):
        gusts.append(some_gusts(1_000, first))
    gusts.append([{"station": "oslo", "gust": float("nan")}, {"station": "oslo", "gust": -0.0}])
    job = WriteByHand(folder, FRAME, overwrite=True)
    job.commit(job.task(spark_batch(20)))
    assert shown(gusts) == multiset(some_gusts(20))
    assert multiset(gusts.snapshot(2).to_arrow()).total() == 2_002, "history stays"
    gusts.advance_since(3)
    gusts.compact()
    assert gusts.info().rows == 20, "what was replaced cancels"
    WriteByHand(folder, FRAME, overwrite=True).commit()
    assert shown(gusts) == multiset([])
    assert gusts.sweep() == 0


def test_an_overwrite_of_nothing_is_an_append(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME, overwrite=True)
    job.commit(job.task(spark_batch(20)))
    assert shown(gusts) == multiset(some_gusts(20))


def test_an_overwrite_is_refused_if_others_wrote_meanwhile(folder: Path, gusts: Collection) -> None:
    gusts.append(some_gusts(10))
    job = WriteByHand(folder, FRAME, overwrite=True)
    message = job.task(spark_batch(20))
    gusts.append(some_gusts(1, 10))
    with pytest.raises(UpperMismatchError, match="expected=1 current=2"):
        job.commit(message)
    job.abort(message)
    assert shown(gusts) == multiset(some_gusts(11))
    gusts.sweep()
    assert [row.name for row in gusts.info().writers if row.name.startswith("ticket")] == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([STATION], r"is missing.*column='gust'"),
        ([STATION, GUST, StructField("speed", DoubleType())], r"no such column.*column='speed'"),
        ([STATION, StructField("gust", LongType())], r"cast it to DOUBLE.*column='gust'"),
        ([STATION, GUST, StructField("a", ArrayType(LongType()))], r"to_json.*column='a'"),
    ],
)
def test_other_columns_are_refused_before_any_task_runs(
    folder: Path, gusts: Collection, fields: list[StructField], message: str
) -> None:
    with pytest.raises(CollectionSchemaError, match=message):
        WriteByHand(folder, StructType(fields))
    assert gusts.info().writers == ()


def test_a_null_in_the_key_is_refused_by_its_task(folder: Path, gusts: Collection) -> None:
    job = WriteByHand(folder, FRAME)
    nulls = pyarrow.RecordBatch.from_pylist(
        [{"gust": 1.0, "station": None}],
        schema=pyarrow.schema([("gust", pyarrow.float64()), ("station", pyarrow.string())]),
    )
    with pytest.raises(CollectionSchemaError, match=r"holds nulls.*column='station'"):
        job.task(nulls)


def test_a_collection_that_takes_nothing_is_refused_before_any_task_runs(
    folder: Path, gusts: Collection
) -> None:
    with pytest.raises(CollectionNotFoundError, match="collection=storms"):
        WriteByHand(folder, FRAME, collection="storms")
    gusts.finish()
    with pytest.raises(UpdateTimeError, match="finished"):
        WriteByHand(folder, FRAME)


def test_another_collection_of_the_same_name_gets_nothing(
    folder: Path, collections: Collections, gusts: Collection
) -> None:
    job = WriteByHand(folder, FRAME)
    message = job.task(spark_batch(10))
    collections.rename(NAME, "old")
    other = collections.create(NAME, GUSTS, key=["station"])
    for messages in ([message], []):
        with pytest.raises(CollectionNotFoundError, match="another collection"):
            job.commit(*messages)
    job.abort(message)
    assert other.info().upper == gusts.info().upper == 0


NEEDED = {"store": "/data/store", "collection": "gusts"}


def test_options_of_a_write() -> None:
    found = parse_collection_write_options(
        {**NEEDED, "Writer": "job", "SEQUENCE": "3"}, overwrite=True
    )
    assert found == CollectionWriteOptions(
        store="/data/store", collection="gusts", overwrite=True, writer="job", sequence=3
    )
    assert parse_collection_write_options(NEEDED, overwrite=False).writer is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"writer": "job"}, "options 'writer' and 'sequence' go together"),
        ({"sequence": "1"}, "options 'writer' and 'sequence' go together"),
        ({"writer": "", "sequence": "1"}, "option 'writer': a name has 1 to"),
        ({"writer": "job", "sequence": "-1"}, "option 'sequence' is a whole number from 0"),
        ({"writer": "job", "sequence": str(2**63)}, "option 'sequence' is a whole number from 0"),
        ({"asOf": "1"}, "unknown option: 'asof'; known for a collection are store, collection, w"),
        ({"path": "x"}, "save.. takes no path"),
        ({"segment": "s"}, "'collection' and 'segment' exclude each other"),
    ],
)
def test_options_of_a_write_that_are_wrong_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_collection_write_options({**NEEDED, **options}, overwrite=False)
