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
