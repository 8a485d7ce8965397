"""The Python that Spark starts for its workers.

Spark leads them to its own archive of pyspark, and out of an archive nothing is kept compiled: each
new process takes half a second of the processor to compile it again, and every stream has some. So
they are started by a script, which takes the archive off their path where pyspark is installed for
this interpreter.

And a worker that waits for work when Spark ends takes the end for work, fails, and prints that. So
the script has it look first, with whatever interpreter was chosen.
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

_FILTER: Final = """\
# Of the path that Spark gives, archives of Spark are left out: what is in them is installed.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
        *) kept=$kept${kept:+:}$entry ;;
    esac
done
export PYTHONPATH="$kept"
"""

_SCRIPT: Final = """\
#!/bin/sh
{filter}if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    exec {python} -c {daemon} "$@"
fi
exec {python} "$@"
"""


@cache
def worker_python(python: str) -> str:
    """Return the path of what starts workers; it is there as long as this process.

    That is the interpreter itself where no script can be run.

    Args:
        python: the interpreter: a path, or a name that is looked for as a shell does.
    """
    ours = python == sys.executable and all(map(_is_installed, (pyspark, py4j)))
    folder = Path(tempfile.mkdtemp(prefix="siltstone-python-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / "python"
    text = _SCRIPT.format(
        filter=_FILTER if ours else "", python=shlex.quote(python), daemon=shlex.quote(_DAEMON)
    )
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else python


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # and not a child of it that ends
        shutil.rmtree(folder, ignore_errors=True)


def _is_installed(module: ModuleType) -> bool:
    """Whether this interpreter finds a package where its others are, whatever its path."""
    places = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    return Path(str(module.__file__)).resolve().parents[1] in places
