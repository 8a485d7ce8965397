"""Hadoop's connector to S3, for the tests in which Spark reads a bucket. Java, Apache-2.0.

It is no server, and 660 MB: it is fetched by those who want these tests.
"""

from __future__ import annotations

from pathlib import Path

from services.maven_program import MavenProgram

PROGRAM = MavenProgram(
    name="hadoop-aws",
    group="org.apache.hadoop",
    artifacts=("hadoop-aws",),
    pin="3.5.0",
    sums=Path(__file__).with_name("hadoop_aws.sha256"),
)
"""Of the version of the Hadoop inside pyspark."""
