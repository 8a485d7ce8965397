"""The first process of the guest: prepares it, then runs the requested programs.

Run by the guest's kernel as a script: FOLDER ADDRESS. A request is a JSON file in
``FOLDER/shared``; its answer is another one next to it. Both appear by a rename, so they are whole.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.01
MODULES = (
    "net/dns_resolver/dns_resolver",
    "net/sunrpc/sunrpc",
    "fs/nfs_common/grace",
    "fs/nfs_common/nfs_acl",
    "fs/lockd/lockd",
    "fs/netfs/netfs",
    "fs/fscache/fscache",
    "fs/nfs/nfs",
    "fs/nfs/nfsv4",
)
"""In the order of their dependencies; some kernels have some of them built in."""


def main(folder: Path, address: str) -> None:
    """Prepare the guest and serve, until its kernel is killed."""
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    shared = folder / "shared"
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "-t", "sysfs", "sys", "/sys")
    subprocess.run(["mount", "-t", "devtmpfs", "dev", "/dev"], check=False)
    _run("mount", "-t", "tmpfs", "tmpfs", str(folder / "tmp"))
    _run("mount", "-t", "hostfs", "-o", str(shared), "none", str(shared))
    kernel = Path("/usr/lib/uml/modules") / os.uname().release / "kernel"
    for module in MODULES:
        path = kernel / f"{module}.ko"
        if path.exists():
            _run("insmod", str(path))
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "addr", "add", f"{address}/24", "dev", "vec0")
    _run("ip", "link", "set", "vec0", "up")
    (shared / "ready").touch()
    running: dict[int, Path] = {}
    while True:
        for request in sorted(shared.glob("*.request")):
            running[_begin(request)] = request
            request.unlink()
        _reap(running)
        time.sleep(POLL_S)


def _begin(request: Path) -> int:
    wanted = json.loads(request.read_text(encoding="utf-8"))
    with request.with_suffix(".output").open("wb") as output:
        return subprocess.Popen(
            wanted["command"],
            cwd=wanted["cwd"],
            env=wanted["environment"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ).pid


def _reap(running: dict[int, Path]) -> None:
    """Answer for ended programs; the first process inherits those for which no parent waits."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended == 0:
            return
        request = running.pop(ended, None)
        if request is not None:
            half = request.with_suffix(".half")
            half.write_text(json.dumps({"status": os.waitstatus_to_exitcode(status)}))
            half.rename(request.with_suffix(".answer"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
