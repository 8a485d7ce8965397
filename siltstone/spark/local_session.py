"""A Spark session on this machine that needs no set-up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

import siltstone
from siltstone.core.errors import SettingsError
from siltstone.spark.data_source import register
from siltstone.spark.java import java_home
from siltstone.spark.jvm import CLASS_NAME, JarError, find_jar
from siltstone.spark.worker_python import worker_python

SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",  # nothing listens outside this machine
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # bars would fill a log
    "spark.python.unix.domain.socket.enabled": "true",  # other users cannot reach the workers
    "spark.sql.execution.arrow.maxBytesPerBatch": "4m",  # of large values 64m would wait in memory
    "spark.log.level": "ERROR",
}

REMOTE: Final = "SPARK_REMOTE"
"""The variable by which Spark is told of a server of Spark Connect."""

PYTHON: Final = "PYSPARK_PYTHON"
"""The variable by which Spark is told what starts its workers."""

FILE_SYSTEM: Final = "spark.hadoop.fs.silt.impl"
"""The setting by which Hadoop knows ``silt://``."""


def session(
    *,
    master: str = "local[*]",
    name: str = "siltstone",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a local session that knows the format ``siltstone``, and stop it when you are done.

    An active session of this process is returned as it is, the format added, one of Spark Connect
    as well. A new one also knows ``silt://``, if its jar was built. Java is found, or
    brought along by the extra ``spark``.

    Args:
        master: where tasks run; ``local[2,3]`` means two at a time and three attempts for each.
        name: of the application.
        settings: of Spark; they override those that are chosen here. ``spark.jars`` adds to them.

    Raises:
        SettingsError: there is no Java 17 or newer; or the environment asks for Spark Connect, and
            no session is active.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        if is_remote() or REMOTE in os.environ:
            raise SettingsError(
                "session() makes a session inside this process, and the environment asks for Spark "
                "Connect; make one by SparkSession.builder.remote(), and give it to "
                "siltstone.spark.register()"
            )
        if SparkContext._active_spark_context is None:
            active = _new_session(master, name, settings or {})
        else:
            active = SparkSession.builder.getOrCreate()  # it is active in another thread
    register(active)
    return active


def _new_session(master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    _prepare_environment()
    builder = SparkSession.builder.master(master).appName(name)
    chosen = session_settings(settings)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with workers_of(chosen.get("spark.master", master)):
        return builder.getOrCreate()


def session_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a new session, in which ``given`` takes precedence."""
    try:
        jars = [str(find_jar())]
    except JarError:
        return {**SETTINGS, **given}  # files() tells why there is none
    if more := given.get("spark.jars"):
        jars.append(more)
    silt = {FILE_SYSTEM: CLASS_NAME}
    return {**SETTINGS, **silt, **given, "spark.jars": ",".join(jars)}


@contextmanager
def workers_of(master: str) -> Iterator[None]:
    """Say what starts the workers of a new session.

    On this machine that is ``worker_python``, with the interpreter that the environment names if
    it does; other machines have no script of ours. What this process starts later does not inherit
    it.
    """
    given = os.environ.get(PYTHON)
    python = given or sys.executable
    os.environ[PYTHON] = worker_python(python) if master.startswith("local") else python
    try:
        yield
    finally:
        del os.environ[PYTHON]
        if given is not None:
            os.environ[PYTHON] = given


def _prepare_environment() -> None:
    """Set what the JVM and the workers take from the environment of this process."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers import siltstone from where this process has it, installed or not.
    place = str(Path(siltstone.__file__).resolve().parents[1])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if place not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([place, *filter(None, paths)])
