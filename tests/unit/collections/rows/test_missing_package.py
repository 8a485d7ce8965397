"""Without pyarrow, collections say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_missing_package_is_an_error_that_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import siltstone.collections.rows"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: collections need a package that is not installed (pyarrow")
    assert "; try: " in last
    assert "collections" in last or "'pyarrow>=" in last


def test_siltstone_and_collections_load_without_it() -> None:
    code = (
        "import sys, siltstone, siltstone.collections; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert "pyarrow" not in run.stdout.split()


def test_collections_need_no_numpy_which_pyarrow_does_not_bring() -> None:
    code = (
        "import sys, pkgutil, importlib, siltstone.collections as room; "
        "sys.modules['numpy'] = None; "
        "names = [one.name for one in pkgutil.walk_packages(room.__path__, room.__name__ + '.')]; "
        "print(*[importlib.import_module(name).__name__ for name in names])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "siltstone.collections.blocking.collection" in run.stdout.split()
