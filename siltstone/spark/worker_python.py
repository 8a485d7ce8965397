"""The Python that Spark starts for its workers.

Spark leads them to its own archive of pyspark, and out of an archive nothing is kept compiled: each
new process takes half a second of the processor to compile it again, and every stream has some. So
where pyspark is installed for this interpreter, they are started by a script that takes the archive
off their path.

And a worker that waits for work when Spark ends takes the end for work, which fails, and prints so.
So the script has it look first.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

import py4j
import pyspark

_DAEMON: Final = """\
import socket
from pyspark import daemon
work = daemon.worker
def worker(sock, authenticated):
    # Where Spark has closed, nothing is asked: 1 lets the process end.
    return work(sock, authenticated) if sock.recv(1, socket.MSG_PEEK) else 1
daemon.worker = worker
daemon.manager()
"""
"""What the module ``pyspark.daemon`` does as a program, with workers that notice the end."""

_SCRIPT: Final = """\
#!/bin/sh
# Of the path that Spark gives, archives of Spark are left out: what is in them is installed.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
        *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
export PYTHONPATH="$kept"
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    exec {python} -c {daemon} "$@"
fi
exec {python} "$@"
"""


@cache
def worker_python() -> str:
    """Return the path of what starts workers; it is there as long as this process.

    That is this interpreter itself where pyspark is not installed for it, or no script can be run.
    """
    if not all(map(_is_installed, (pyspark, py4j))):
        return sys.executable
    folder = Path(tempfile.mkdtemp(prefix="siltstone-python-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / "python"
    text = _SCRIPT.format(python=shlex.quote(sys.executable), daemon=shlex.quote(_DAEMON))
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else sys.executable


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # and not a child of it that ends
        shutil.rmtree(folder, ignore_errors=True)


def _is_installed(module: ModuleType) -> bool:
    """Whether this interpreter finds a package where its others are, whatever its path."""
    places = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    return Path(str(module.__file__)).resolve().parents[1] in places
