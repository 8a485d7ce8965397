"""Workers of Spark import pyspark from its installation, and not from Spark's archive."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.spark.local_session import PYTHON, workers_of
from siltstone.spark.worker_python import worker_python

TELL = "import json, sys; print(json.dumps([sys.executable, sys.path, sys.argv[1:]]))"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    worker_python.cache_clear()
    yield
    worker_python.cache_clear()


@pytest.fixture
def another_python(tmp_path: Path) -> str:
    """Another interpreter by its name; it says so in its environment."""
    python = tmp_path / "my python"
    python.write_text(f'#!/bin/sh\nexport MINE=yes\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return str(python)


def started(
    path: str, *arguments: str, python: str = sys.executable
) -> tuple[str, list[str], list[str]]:
    """What a worker with this ``PYTHONPATH`` sees."""
    done = subprocess.run(
        [worker_python(python), "-c", TELL, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    executable, places, rest = json.loads(done.stdout)
    return executable, places, rest


def test_a_worker_is_this_interpreter_with_the_path_that_it_was_given_but_for_archives() -> None:
    given = [
        "/spark/python/lib/pyspark.zip",
        "/spark/python/lib/py4j-0.10.9.9-src.zip",
        "/spark/jars/spark-core_2.13-4.0.0.jar",
        "/my own/*/place",
        "/my/job.zip",
        "/my/$HOME.jar",
    ]
    executable, places, arguments = started(":".join(given), "a b", "", "*")
    assert executable == sys.executable
    assert places[1:4] == given[3:]
    assert not any("spark/" in place for place in places)
    assert arguments == ["a b", "", "*"]


@pytest.mark.slow
def test_pyspark_is_found_without_a_path() -> None:
    done = subprocess.run(
        [worker_python(sys.executable), "-c", "import pyspark, py4j; print(pyspark.__file__)"],
        env=os.environ | {"PYTHONPATH": "/spark/python/lib/pyspark.zip"},
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [False, True])
def test_a_worker_that_waits_when_spark_ends_says_nothing(
    another_python: str, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen:
        monkeypatch.setenv(PYTHON, another_python)
    with workers_of("local"):
        command = os.environ[PYTHON]
    # Not the folder of the test: the path of a socket has at most about a hundred characters.
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [command, "-m", "pyspark.daemon", "pyspark.worker"],
            env=os.environ
            | {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": folder}
            | {"SPARK_REUSE_WORKER": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as daemon,
    ):
        assert daemon.stdout is not None
        place = daemon.stdout.read(int.from_bytes(daemon.stdout.read(4)))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(place)
            worker = os.pidfd_open(int.from_bytes(spark.recv(4, socket.MSG_WAITALL)))
        select.select([worker], [], [])
        os.close(worker)
        _, told = daemon.communicate()
    assert told.decode() == ""


def test_where_pyspark_is_not_installed_workers_keep_the_path_that_they_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, another_python: str
) -> None:
    archive = "/spark/python/lib/pyspark.zip"
    assert archive in started(archive, python=another_python)[1]
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "pyspark" / "__init__.py"))
    assert archive in started(archive)[1]


def test_where_no_script_can_be_run_workers_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert worker_python(sys.executable) == sys.executable


@pytest.mark.slow
def test_the_script_is_there_as_long_as_the_process_that_made_it() -> None:
    code = (
        "import os, sys; from siltstone.spark.worker_python import worker_python as made\n"
        "python = sys.executable; script = made(python); assert made(python) == script\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0); assert os.path.exists(script); print(script)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    script = Path(done.stdout.strip())
    assert script.name == "python"
    assert not script.parent.exists()


@pytest.mark.parametrize(
    ("master", "is_here"),
    [("local", True), ("local[2,3]", True), ("local-cluster[1,1,512]", True), ("yarn", False),
     ("spark://there:7077", False)],
)  # fmt: skip
def test_only_workers_of_this_machine_are_started_by_the_script(
    monkeypatch: pytest.MonkeyPatch, master: str, is_here: bool
) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    with workers_of(master):
        assert os.environ[PYTHON] == (worker_python(sys.executable) if is_here else sys.executable)
    assert PYTHON not in os.environ


def test_what_the_environment_says_of_workers_goes_first(
    monkeypatch: pytest.MonkeyPatch, another_python: str
) -> None:
    monkeypatch.setenv(PYTHON, another_python)
    with workers_of("local"):
        command = [os.environ[PYTHON], "-c", "import os; print(os.environ.get('MINE'))"]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"yes\n"
    assert os.environ[PYTHON] == another_python
    with workers_of("yarn"):
        assert os.environ[PYTHON] == another_python
    assert os.environ[PYTHON] == another_python
