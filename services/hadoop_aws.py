"""Hadoop's connector to S3, for the tests in which Spark reads a bucket. Java, Apache-2.0.

It is not a server, and has 660 MB: fetch it only if you want these tests.
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
"""The version of the Hadoop inside pyspark."""
