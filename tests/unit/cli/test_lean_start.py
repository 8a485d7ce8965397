"""A verb imports what it needs and nothing more, so that the command starts at once.

Times are compared in ``python -m bench starts``; modules make them long, and are named here. Each
process lists its own modules at its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.cli.main import siltstone as root
from siltstone.cli.verbs import VERBS
from siltstone.core.hooks import BUILT_IN

ROOT = Path(__file__).parents[3]

SDKS = {
    "azure", "boto3", "botocore", "google", "hdfs_native", "kafka", "numpy", "obstore", "pandas",
    "prometheus_client", "py4j", "pyarrow", "pyspark", "requests", "rich", "urllib3",
}  # fmt: skip
"""Modules that no verb of a store in folders needs."""

OF_A_STORE = {"asyncio", "crc32c", "importlib.metadata", "pluggy", "pydantic", "rocksdict", "yaml"}
"""Modules that a verb needs to open a store, and that its help does not need."""

OTHERS = {
    "siltstone.cli.backup_commands", "siltstone.cli.migrate_commands", "siltstone.collections",
    "siltstone.cli.spark_commands", "siltstone.cli.table_commands", "siltstone.migration",
    "siltstone.pipelines", "siltstone.spark",
    *(f"{group}.{name}" for group, names in BUILT_IN.items() for name in names),
} - {"siltstone.bindings.nfs", "siltstone.tier1.file"}  # fmt: skip
"""Other verbs, and plugins that the settings do not name."""

LISTED = """
import atexit, json, os, sys
report = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT)
atexit.register(lambda: os.write(report, json.dumps(sorted(sys.modules)).encode()))
from siltstone.cli.process import main
main()
"""


def modules(folder: Path, *arguments: str, **variables: str) -> set[str]:
    """The modules that a run of the command has imported at its end."""
    report = folder / "modules.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", LISTED, str(report), *arguments],
        input=b"bytes",
        capture_output=True,
        check=False,
        timeout=240,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(report.read_bytes()))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lean") / "store"
    siltstone.init(path)
    with siltstone.open(path) as store:
        store.create("a").append(b"bytes")
        objects.create(store, "photos").put("b", "k", b"bytes")
    return path


HELPS = [["--help"], ["--version"], *([verb, "--help"] for verb in ("ls", "stat", "cat", "append"))]
HELPS += [["collection", "--help"], ["collection", "append", "--help"]]
HELPS += [["objects", "--help"], ["objects", "put", "--help"]]
HELPS += [[verb, "--help"] for verb in ("create", "init", "flush", "tail", "rm", "help")]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", HELPS, ids=" ".join)
def test_a_help_brings_nothing_of_a_store(tmp_path: Path, arguments: list[str]) -> None:
    heavy = OF_A_STORE - ({"importlib.metadata"} if arguments == ["--version"] else set())
    found = modules(tmp_path, *arguments)
    assert found & (heavy | SDKS | OTHERS) == set()
    assert not any(name.startswith(("siltstone.bindings.", "siltstone.tier1.")) for name in found)


def test_the_verbs_are_completed_without_one_of_them(tmp_path: Path) -> None:
    found = modules(
        tmp_path, _SILTSTONE_COMPLETE="bash_complete", COMP_TYPED="siltstone st", COMP_BREAKS=" "
    )
    assert found & (OF_A_STORE | SDKS | OTHERS) == set()
    assert not any(name.endswith(("_command", "_commands")) for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        *[
            ["ls"],
            ["stat", "a"],
            ["stat"],
            ["cat", "a"],
            ["append", "a"],
            ["flush"],
            ["create", "b"],
        ],
        *[["objects", verb, *rest] for verb, *rest in (["keys", "photos", "b"], ["check"])],
        ["objects", "put", "photos", "b", "k"],
        ["objects", "rebuild", "photos"],
    ],
    ids=" ".join,
)
def test_a_verb_brings_its_own_binding_and_log_alone(
    tmp_path: Path, store: Path, arguments: list[str]
) -> None:
    found = modules(tmp_path, "--store", str(store), *arguments)
    assert found & (SDKS | OTHERS) == set()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["backup create", "copy", "import", "migrate export", "help copy"])
def test_a_verb_that_can_work_on_spark_brings_nothing_of_it(
    tmp_path: Path, store: Path, verb: str
) -> None:
    other = siltstone.init(tmp_path / "other").parent
    rest = {
        "copy": [str(store), str(other)],
        "help copy": [],
        "import": ["in", str(store / "siltstone.yaml")],
    }.get(verb, [str(tmp_path / "new")])
    where = ["--store", str(other if verb == "import" else store)]
    found = modules(tmp_path, *where, *verb.split(), *rest)
    assert found & {"pyspark", "py4j", "pyarrow", "siltstone.spark"} == set()


def test_what_a_list_of_verbs_shows_is_what_each_says_of_itself() -> None:
    for name, verb in VERBS.items():
        assert verb.summary == root.commands[name].get_short_help_str(limit=1_000)
        assert root.commands[name].name == name


def test_the_plugins_of_our_own_are_those_that_are_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == BUILT_IN
