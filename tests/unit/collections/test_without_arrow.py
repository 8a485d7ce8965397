"""Where pyarrow is not installed, all but collections works, and they say what to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.migration.backup.create import create_backup

HIDDEN = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def without_arrow(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import pyarrow."""
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["open_collections", "open_collections_async", "Collection"])
def test_a_public_name_says_what_to_install(name: str) -> None:
    ran = without_arrow(f"import siltstone\nsiltstone.open\nsiltstone.{name}")
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: collections need a package that is not installed (pyarrow")
    assert "'pyarrow>=21'" in last


@pytest.mark.slow
def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    siltstone.init(tmp_path / "store")
    run = "from siltstone.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    store = ("--store", str(tmp_path / "store"))
    ran = without_arrow(run, *store, "collection", "ls")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("siltstone: collections need a package that is not installed")
    assert ran.stderr.count("\n") == 1
    assert without_arrow(run, *store, "ls").returncode == 0


@pytest.mark.slow
def test_backups_moves_and_salvages_need_no_arrow_and_see_that_there_are_collections(
    tmp_path: Path,
) -> None:
    settings = siltstone.init(tmp_path / "store")
    siltstone.open(settings).close()
    schema = pyarrow.schema([("n", pyarrow.int64())])
    with siltstone.open_collections(settings) as collections:
        collections.create("gusts", schema, key=["n"])
    run = "from siltstone.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    ran = without_arrow(run, "--store", str(settings), "backup", "create", str(tmp_path / "place"))
    assert (ran.returncode, "not part of the backup" in ran.stderr) == (0, True)
    create_backup(settings, tmp_path / "whole")
    new = tmp_path / "new"
    ran = without_arrow(run, "backup", "restore", str(tmp_path / "whole"), str(new))
    assert (ran.returncode, "the backup has collections, which need" in ran.stderr) == (1, True)
    assert not (new / "siltstone.yaml").exists()
    moves = "siltstone.migration.relocate.switch, siltstone.migration.salvage.salvage_store"
    assert without_arrow(f"import {moves}").returncode == 0


@pytest.mark.slow
def test_health_says_that_it_could_not_look_at_collections(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path / "store")
    siltstone.open(settings).close()
    schema = pyarrow.schema([("n", pyarrow.int64())])
    with siltstone.open_collections(settings) as collections:
        collections.create("gusts", schema, key=["n"])
    run = "from siltstone.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    ran = without_arrow(run, "--store", str(settings), "health", "--json")
    (row,) = json.loads(ran.stdout)["collections"]
    assert (ran.returncode, row["collection"], row["kind"]) == (0, None, "unknown")
    assert row["message"].startswith("collections need a package that is not installed")


def test_errors_and_the_list_of_names_need_no_arrow() -> None:
    code = "import siltstone\nsiltstone.UpperMismatchError\nassert 'Collection' in dir(siltstone)"
    ran = without_arrow(code)
    assert (ran.returncode, ran.stderr) == (0, "")
