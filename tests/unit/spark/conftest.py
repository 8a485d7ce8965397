"""Without the Spark packages these tests cannot be imported; ``test_packages`` then says so."""

from __future__ import annotations

from tests.support.spark.packages import missing_packages

collect_ignore_glob = ["test_[!p]*.py"] if missing_packages() else []
