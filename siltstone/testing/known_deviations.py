"""What is known of servers that people run, or test with, and that do not do all that is asked.

Each row was seen, and is seen again in every run: when a server is repaired, a check that should
fail does not, and its row is removed. ``VERSITYGW`` and ``MINIO`` are about checks of the contract,
through the binding ``s3``; the others are about single requests, which that binding avoids or does
not rely on.
"""

from __future__ import annotations

from typing import Final

from siltstone.testing.deviations import Deviation

VERSITYGW_NAME: Final = "versitygw v1.8.0"
MINIO_NAME: Final = "MinIO 2026-02-12"

VERSITYGW: Final = (
    Deviation(
        check="test_chunks_come_and_go_in_one_folder",
        service=VERSITYGW_NAME,
        why="removes an empty folder under a create, which it then refuses with 409",
        is_certain=False,
    ),
)
"""A gateway that keeps objects as files."""

MINIO: Final = (
    Deviation(
        check="test_a_name_that_is_the_folder_of_another_is_exact_or_refused",
        service=MINIO_NAME,
        why="takes and gives such a chunk, and lists it nowhere",
    ),
)
"""A server that keeps objects in folders of their names."""

AZURITE: Final = (
    Deviation(
        check="test_odd_names_are_exact[a\\\\b]",
        service="azurite 3.37.0, and the service itself",
        why="takes a backslash in a name for a slash, so the binding refuses it",
    ),
)
"""The emulator of Azure Blob Storage."""

HDFS: Final = (
    Deviation(
        check="test_odd_names_are_exact[a:b]",
        service="Apache Hadoop 3.5.0",
        why="refuses a colon in a path",
    ),
    Deviation(
        check="test_a_child_process_opens_a_client_of_its_own",
        service="hdfs-native 0.14.7",
        why="its threads are not there after a fork; the binding refuses instead of waiting",
    ),
)
"""A file system, and its client."""


def _rows(service: str, *rows: tuple[str, str]) -> tuple[Deviation, ...]:
    return tuple(Deviation(check=check, service=service, why=why) for check, why in rows)


VERSITYGW_REQUESTS: Final = _rows(
    VERSITYGW_NAME,
    ("test_copy_if_none_match", "copies over what is there: the condition is not looked at"),
    ("test_append_to_a_plain_bucket", "writes over the object instead of refusing an offset"),
    ("test_rename_in_a_plain_bucket", "answers 200 and makes an empty object"),
    ("test_unknown_key_id", "answers 404 XAdminUserNotFound"),
    ("test_key_is_exact", "takes keys for paths: dbl//x is dbl/x"),
    ("test_key_that_ends_in_a_slash", "a folder cannot hold data"),
    ("test_key_below_a_key", "a file cannot be a folder: 409 ObjectParentIsFile"),
    ("test_key_with_a_long_part", "a part is a file name, of 255 bytes at most"),
    ("test_key_of_1025_bytes", "takes keys of more than 1,024 bytes"),
)
MINIO_REQUESTS: Final = _rows(
    MINIO_NAME,
    ("test_complete_of_a_wrong_size", "does not look at the size that is stated"),
    ("test_copy_if_none_match", "copies over what is there: the condition is not looked at"),
    ("test_delete_if_match", "deletes: the condition is not looked at"),
    ("test_wrong_checksum", "refuses with a code of its own, XAmzContentChecksumMismatch"),
    ("test_rename_in_a_plain_bucket", "answers 200 and makes an empty object"),
    ("test_key_is_exact", "refuses such keys"),
    ("test_key_with_a_long_part", "a part is a file name, of 255 bytes at most"),
)

FAKE_GCS: Final = (
    Deviation(
        check="test_concat_to_one_name_is_won_once",
        service="fake-gcs-server v1.56.1",
        why="takes no notice of the condition of a join, so several of them win",
        is_certain=False,
    ),
)
"""A server of tests that heeds the condition of an upload and of nothing else."""
