"""A separate Linux that mounts NFS: User-Mode Linux, the kernel as a plain process.

Few machines that run tests have a kernel with an NFS client, or let any user mount. This kernel
does both. Its root is the tree of files of this machine, which it can only read, so the same Python
runs the same checkout in it. It can write to ``shared``, to a ``tmp`` in memory, and to its mounts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.installed_program import SYSTEM_PATH
from services.server import Server

AGENT = Path(__file__).with_name("nfs_guest_agent.py")
CHECKOUT = AGENT.parent.parent
HERE = "10.99.0.1"
"""The address of this machine in the network that only the guest and the server see."""
GUEST = "10.99.0.2"
GUEST_IN_TABLE = socket.inet_aton(GUEST)[::-1].hex().upper()
"""As the kernel writes it, in the byte order of the machines on which the guest runs."""
TABLES = ("tcp", "tcp6")
SAID_ALL = "06"
"""The state of a closed connection that the kernel remembers for a minute."""
MEMORY = "1G"
READY = "ready"
CALL_S = 240.0
POLL_S = 0.02
BOOT = """
set -e
ip link set lo up
ip tuntap add tap0 mode tap
ip addr add {here}/24 dev tap0
ip link set tap0 up
echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries
exec linux.uml mem={memory} root=/dev/root rootfstype=hostfs rootflags=/ ro quiet con=null \
  vec0:transport=tap,ifname=tap0,depth=128,gro=1 init={python} -- -I -S {agent} {folder} {guest}
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A program that runs in the guest.

    Attributes:
        output: the file that it writes to, standard error too.
    """

    output: Path
    answer: Path

    @property
    def has_ended(self) -> bool:
        """Whether ``wait`` returns at once."""
        return self.answer.exists()

    def wait(self, patience_s: float = CALL_S) -> str:
        """Return what it wrote.

        Raises:
            AssertionError: it failed, or did not end in time.
        """
        until = time.monotonic() + patience_s
        while not self.answer.exists():
            if time.monotonic() > until:
                raise AssertionError(f"no end within {patience_s:g} s\n{self.text()}")
            time.sleep(POLL_S)
        status = json.loads(self.answer.read_text(encoding="utf-8"))["status"]
        if status:
            raise AssertionError(f"it ended with {status}\n{self.text()}")
        return self.text()

    def text(self) -> str:
        """What it wrote so far."""
        if not self.output.exists():
            return ""
        return self.output.read_text(encoding="utf-8", errors="replace")


class NfsGuest(Server):
    """The guest, in a network namespace that ends together with it.

    Attributes:
        shared: a folder that has the same path, and can be written to, here and in the guest.
        mounts: the folder below which the guest mounts.
    """

    def __init__(self) -> None:
        super().__init__("nfs-guest")
        self.port = 1  # It does not listen.
        self.shared = self.folder / "shared"
        self.mounts = self.folder / "mounts"
        for folder in (self.shared, self.mounts, self.folder / "tmp"):
            folder.mkdir()
        self._calls = 0
        self._is_silent = False

    def command(self) -> Sequence[str]:
        """See ``Server``. A kill of the first process kills all of the guest."""
        script = BOOT.format(
            agent=AGENT,
            folder=self.folder,
            guest=GUEST,
            here=HERE,
            memory=MEMORY,
            python=sys.executable,
        )
        namespaces = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
        return [*namespaces, "sh", "-c", script]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``; its memory is a file, best in memory."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(self.folder)
        return {"PATH": SYSTEM_PATH, "HOME": str(self.folder), "TMPDIR": memory}

    def is_ready(self) -> bool:
        """See ``Server``."""
        return (self.shared / READY).exists()

    def beside(self, *command: str) -> list[str]:
        """Return a command that runs on this machine, but in the network of the guest."""
        return ["nsenter", "--net", "--target", str(self.pid), *command]

    def mount(self, name: str, options: str, export: str = "/export") -> Path:
        """Mount an export with such options, and return where that is."""
        folder = self.mounts / name
        folder.mkdir()
        fixed = f"addr={HERE},clientaddr={GUEST},proto=tcp,sec=sys"
        source = f"{HERE}:{export}"
        self.run(["mount", "-i", "-t", "nfs4", "-o", f"{fixed},{options}", source, str(folder)])
        return folder

    def unmount(self, folder: Path) -> None:
        """Unmount it, even while a file there is open."""
        self.run(["umount", "-l", str(folder)])

    def run(self, command: Sequence[str], patience_s: float = CALL_S) -> str:
        """Run a program in the guest and return what it wrote. See ``Call.wait``."""
        return self.begin(command).wait(patience_s)

    def python(self, *arguments: str) -> list[str]:
        """Return a command that runs Python in the guest, as here."""
        return [sys.executable, "-B", *arguments]

    def begin(self, command: Sequence[str]) -> Call:
        """Start a program in the guest, in the checkout."""
        self._calls += 1
        request = {
            "command": [*command],
            "cwd": str(CHECKOUT),
            "environment": {
                "HOME": str(self.folder / "tmp"),
                "PATH": SYSTEM_PATH,
                "PYTHONPATH": str(CHECKOUT),
                "TMPDIR": str(self.folder / "tmp"),
            },
        }
        place = self.shared / f"call-{self._calls}"
        half = place.with_suffix(".half")
        half.write_text(json.dumps(request), encoding="utf-8")
        half.rename(place.with_suffix(".request"))
        return Call(place.with_suffix(".output"), place.with_suffix(".answer"))

    def has_connections(self) -> bool:
        """Whether this machine, or a dead server, still has bytes to send to the guest."""
        tables = [Path(f"/proc/{self.pid}/net/{name}").read_text("ascii") for name in TABLES]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        return any(
            remote.split(":")[0].endswith(GUEST_IN_TABLE) and state != SAID_ALL
            for _, _, remote, state, *_ in rows
        )

    def mute(self, *, silent: bool) -> None:
        """Drop packets from this machine to the guest, but not those of the guest; or undo that."""
        if silent is not self._is_silent:
            verb = "add" if silent else "del"
            route = self.beside("ip", "route", verb, "blackhole", f"{GUEST}/32")
            subprocess.run(route, check=True, capture_output=True, timeout=30)
            self._is_silent = silent
