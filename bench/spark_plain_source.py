"""A source of data in Python that has nothing of ours: pyarrow reads files, Spark gets batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS: Final = 12
"""Row groups that are decoded at once, as a split of ours does."""

Share = list[tuple[str, list[int]]]
"""What a task reads: row groups of files."""


def plain_frame(
    spark: SparkSession, paths: Sequence[str], columns: Mapping[str, str], tasks: int
) -> Callable[[], DataFrame]:
    """What gives a frame of all rows of Parquet files, which as many tasks read.

    Classes are made here, since workers cannot import this package.

    Args:
        spark: the session.
        paths: of the files.
        columns: those that are read, each with its type in Spark.
        tasks: each reads as many row groups.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    shares, names = shares_of(paths, tasks), list(columns)

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(share) for share in shares]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            from pyarrow.parquet import ParquetFile

            for path, groups in partition.value:
                yield from ParquetFile(path).read_row_groups(groups, columns=names).to_batches()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "plain_parquet"

        def schema(self) -> str:
            return ", ".join(f"{name} {kind}" for name, kind in columns.items())

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Source)
    return lambda: spark.read.format("plain_parquet").load()


def shares_of(paths: Sequence[str], tasks: int) -> list[Share]:
    """Row groups of files in as many shares, some at a time."""
    groups = [
        (path, group) for path in paths for group in range(pq.read_metadata(path).num_row_groups)
    ]
    shares: list[Share] = []
    for task in range(tasks):
        share: Share = []
        for path, group in groups[len(groups) * task // tasks : len(groups) * (task + 1) // tasks]:
            if share and share[-1][0] == path and len(share[-1][1]) < GROUPS:
                share[-1][1].append(group)
            else:
                share.append((path, [group]))
        shares.append(share)
    return shares
