"""The text of a key is Spark's own: each is compared with what ``CAST(key AS STRING)`` gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession

import siltstone
from siltstone.spark.java import java_home, java_release
from siltstone.spark.key_text import KeyColumn, unpacked
from tests.support.spark.sink_world import new_sink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROWS = 200
EXACT_DOUBLES = 19
"""Since this release Java gives the shortest text of a double, and before it some longer one."""

ZONES = ["UTC", "GMT+8", "UTC+3", "UT-01:30", "+5:30", "-0800", "Z", "PST", "EST", "BST"]
ZONES += ["America/New_York", "Asia/Kathmandu", "Etc/GMT-14", "Europe/Prague"]

KEYS = {
    "boolean": "whole % 2 = 0",
    "byte": "cast(whole % 128 as tinyint)",
    "long": "whole",
    "string": "string(whole)",
    "binary": "cast(concat('é', whole) as binary)",
    "date": "date_from_unix_date(cast(whole % 5000000 as int))",
    "ntz": "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, micros / 1000000)",
    "decimal": "cast(small / 7 as decimal(38, 18))",
    "tiny": "cast(small / 1e16 as decimal(38, 20))",
    "integral": "cast(whole as decimal(20, 0))",
    "double": "double",
    "float": "cast(double as float)",
    "calendar": "make_interval(cast(small % 9 as int), cast(small % 7 as int), 0, "
    "cast(small % 5 as int), cast(small % 30 as int), cast(small % 61 as int), small / 1000)",
    "months": "make_ym_interval(0, cast(small as int))",
    "years": "cast(make_ym_interval(cast(small as int), 0) as interval year)",
    "only months": "cast(make_ym_interval(0, cast(small as int)) as interval month)",
}
FIELDS = ["day", "hour", "minute", "second"]
for _first in range(4):
    for _last in range(_first, 4):
        _kind = FIELDS[_first] if _first == _last else f"{FIELDS[_first]} to {FIELDS[_last]}"
        KEYS[_kind] = f"cast(make_dt_interval(0, 0, 0, span / 1000000) as interval {_kind})"


def rows() -> list[tuple[int, int, int, int, float]]:
    """Ordinary values, and those at the ends of their ranges."""
    chance = Random(43)
    found: list[tuple[int, int, int, int, float]] = []
    doubles = [0.0, -0.0, 1.0, 1e20, 1e7, 9999999.0, 1e-3, 9.999e-4, 5e-324, 1.7976931348623157e308]
    doubles += [math.nan, math.inf, -math.inf, 2.0**-44, 123456.789, 0.1, 100.0, 1e23, 3e10, 1e-5]
    for number in range(ROWS):
        double = (
            doubles[number]
            if number < len(doubles)
            else chance.uniform(-1, 1) * 10.0 ** (chance.randrange(-40, 40))
        )
        micros = chance.randrange(-(10**16), 10**17) if number % 2 else number * 10**6
        span = chance.randrange(-(10**14), 10**14) // 10 ** chance.randrange(14)
        small = chance.randrange(-2_000, 2_000) if number else 0
        found.append((chance.randrange(-(2**62), 2**62), micros, span, small, double))
    return found


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    before = {name: spark.conf.get(name) or "" for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, given in before.items():
            spark.conf.set(name, given)


def texts(
    keys: DataFrame, names: list[str], *, ansi: bool = True
) -> Iterator[tuple[str, str, str]]:
    """The name, our text and Spark's text of each key."""
    kinds = {field.name: field.dataType for field in keys.schema}
    both = keys.selectExpr(*[f"`{name}`" for name in names])
    both = both.selectExpr("*", *[f"cast(`{name}` as string) as `spark {name}`" for name in names])

    def compared(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in unpacked(batches):
            for name in names:
                found, codes = KeyColumn(name=name, kind=kinds[name], ansi=ansi).texts(batch)
                ours = [found[code] for code in codes.to_pylist()]
                columns = {"name": [name] * len(ours), "ours": ours}
                columns["spark"] = batch.column(f"spark {name}").to_pylist()
                yield pyarrow.RecordBatch.from_pydict(columns)

    for row in both.mapInArrow(compared, "name string, ours string, spark string").collect():
        yield row.name, row.ours, row.spark


def same(name: str, ours: str, spark: str) -> bool:
    if ours == spark or name not in ("double", "float"):
        return ours == spark
    release = java_release(java_home())
    assert release is not None
    return release < EXACT_DOUBLES and float(ours) == pytest.approx(float(spark), rel=1e-6)


def test_keys_of_every_type_have_the_text_of_spark(spark: SparkSession) -> None:
    schema = "whole bigint, micros bigint, span bigint, small bigint, double double"
    values = spark.createDataFrame(rows(), schema).coalesce(1)
    keys = values.selectExpr(*[f"{key} as `{name}`" for name, key in KEYS.items()])
    found = list(texts(keys, list(KEYS)))
    assert len(found) == ROWS * len(KEYS)
    assert [each for each in found if not same(*each)] == []
    with settings(spark, **{"spark.sql.ansi.enabled": "false"}):
        found = list(texts(keys, ["decimal", "tiny", "integral"], ansi=False))
        assert [each for each in found if not same(*each)] == []


def test_keys_of_time_have_the_text_of_the_zone_of_the_session(spark: SparkSession) -> None:
    micros = [(micros,) for _, micros, _, _, _ in rows()]
    keys = spark.createDataFrame(micros, "micros bigint").selectExpr(
        "timestamp_micros(micros) as k"
    )
    keys = keys.coalesce(1).cache()
    for zone in ZONES:
        with settings(spark, **{"spark.sql.session.timeZone": zone}):
            found = list(texts(keys, ["k"]))
            assert [(zone, *each) for each in found if not same(*each)] == []
    keys.unpersist()


def test_a_segment_has_the_text_of_its_key(spark: SparkSession, tmp_path: Path) -> None:
    keys = {
        "GMT+8": "timestamp'2024-06-01T00:30:00Z'",
        "UTC": "interval '1-2' year to month",
    }
    with new_sink(tmp_path) as sink:
        for number, (zone, key) in enumerate(keys.items()):
            with settings(spark, **{"spark.sql.session.timeZone": zone}):
                frame = spark.sql(f"select cast(k as string) as value, k from (select {key} as k)")
                (wanted,) = [row.value for row in frame.select("value").collect()]
                writer = frame.write.format("siltstone").mode("append")
                writer.options(**sink.options(segment=str(number), key="k")).save()
            assert sink.content(f"{number}/{wanted}") == [wanted]
        with_rule = "select 'x' as value, 'a' collate utf8_lcase as k"
        writer = spark.sql(with_rule).write.format("siltstone").mode("append")
        with pytest.raises(Exception, match="collate UTF8_LCASE"):
            writer.options(**sink.options(segment="c", key="k")).save()
        with siltstone.open(tmp_path, read_only=True) as store:
            assert list(store.list("c")) == []
