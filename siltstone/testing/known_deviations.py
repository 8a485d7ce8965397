"""What is known of servers that people run, or test with, and that do not do all of the contract.

Each row was seen. When a server was mended, the suite fails and its row goes.
"""

from __future__ import annotations

from typing import Final

from siltstone.testing.deviations import Deviation

VERSITYGW: Final = (
    Deviation(
        check="test_chunks_come_and_go_in_one_folder",
        service="versitygw v1.8.0",
        why="removes an empty folder under a create, which it then refuses with 409",
        is_certain=False,
    ),
)
"""A gateway that keeps objects as files."""

MINIO: Final = (
    Deviation(
        check="test_a_name_that_is_the_folder_of_another_is_exact_or_refused",
        service="MinIO 2026-02-12",
        why="takes and gives such a chunk, and lists it nowhere",
    ),
)
"""A server that keeps objects in folders of their names."""
