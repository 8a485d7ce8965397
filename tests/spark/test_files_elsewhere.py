"""``silt://`` over chunks that are not on this machine's disk: on HDFS, and in a bucket by S3A."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import siltstone
from services.hdfs import Hdfs
from services.s3_server import S3Server
from siltstone.spark import files
from tests.spark.conftest import connector_jars
from tests.spark.hadoop import Hadoop
from tests.support.services.hdfs_services import new_folder
from tests.support.services.hdfs_services import options_of as hdfs_options
from tests.support.services.s3_services import new_bucket
from tests.support.services.s3_services import options_of as s3_options

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silt"),
]

LINES = [f"{number},řádek {number % 13}" for number in range(20_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
CHUNK = 64 * 1024


def parquet() -> bytes:
    buffer = io.BytesIO()
    table = pyarrow.table({"n": list(range(20_000)), "text": LINES})
    pyarrow.parquet.write_table(table, buffer, row_group_size=4_000)
    return buffer.getvalue()


def read_all(spark: SparkSession, file: Path) -> None:
    """Fill two segments of a new store, and read them in every way."""
    with file.open("a", encoding="utf-8") as settings:
        settings.write(f"\nsegments:\n  chunk_size: {CHUNK}\n")
    with siltstone.open(file) as store:
        for name, data in {"text": TEXT, "parquet": parquet()}.items():
            segment = store.create(name)
            for begin in range(0, len(data), CHUNK // 2 + 7):
                segment.append(data[begin : begin + CHUNK // 2 + 7])
                segment.flush()
        assert len(list(store.segment("text").chunks())) > 3
    hadoop = Hadoop(spark)
    for verify in (True, False):
        (path,) = files(spark, file, "text", verify=verify)
        assert hadoop.read(path) == TEXT
        stream = hadoop.open(path)
        chance = random.Random(4)
        ranges = [(chance.randrange(len(TEXT) - 99), 99) for _ in range(9)]
        assert hadoop.read_ranges(stream, ranges) == [TEXT[at : at + n] for at, n in ranges]
        stream.close()
        places = hadoop.file_system(path).getFileBlockLocations(hadoop.path(path), 0, len(TEXT))
        assert sum(place.getLength() for place in places) == len(TEXT)
    rows = spark.read.option("maxPartitionBytes", "100000").text(files(spark, file, "text"))
    assert sorted(row.value for row in rows.collect()) == sorted(LINES)
    frame = spark.read.parquet(*files(spark, file, "parquet")).where("n >= 19990")
    assert [row.text for row in frame.orderBy("n").collect()] == LINES[19_990:]


@pytest.mark.usefixtures("hdfs_plugin")
def test_chunks_on_hdfs(spark: SparkSession, hdfs: Hdfs, tmp_path: Path) -> None:
    options = hdfs_options(hdfs, new_folder())
    read_all(spark, siltstone.init(tmp_path, binding="hdfs", options=options))


def test_chunks_in_a_bucket(spark: SparkSession, versitygw: S3Server, tmp_path: Path) -> None:
    if not connector_jars():
        pytest.skip("Spark has no S3A; fetch it by: python -m services fetch hadoop-aws")
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in {
        "endpoint": versitygw.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": versitygw.key_id,
        "secret.key": versitygw.secret,
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }.items():
        conf.set(f"fs.s3a.{key}", value)
    bucket, raw = new_bucket(versitygw)
    options = s3_options(versitygw, bucket, prefix="a/b")
    read_all(spark, siltstone.init(tmp_path, binding="s3", options=options))
    manifests = raw.keys("a/b/system/files/")
    assert manifests
    for name in manifests:
        content = raw.read(name)
        assert content is not None
        assert versitygw.secret.encode() not in content
