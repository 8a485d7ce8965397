"""NFS as in real use: a kernel's client, and a server that can be killed."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from services.ganesha import Ganesha
from services.installed_program import InstalledProgram
from services.nfs_guest import HERE, NfsGuest

PROGRAM = InstalledProgram(
    name="kernel-nfs",
    commands=("ganesha.nfsd", "linux.uml", "ip", "insmod", "mount", "nsenter", "unshare"),
    files=("/dev/net/tun", "/usr/lib/uml/modules"),
    packages=("nfs-ganesha", "nfs-ganesha-vfs", "user-mode-linux", "iproute2", "kmod"),
    probe=("unshare", "--net", "--pid", "--fork", "ip", "tuntap", "add", "tap0", "mode", "tap"),
)


class KernelNfs(NfsGuest):
    """A guest, and a server in a network that nothing else sees.

    Args:
        program: the file of the server.

    Attributes:
        server: the server from which the guest mounts; only it is ever stopped.
    """

    def __init__(self, program: Path) -> None:
        super().__init__()
        self.server = Ganesha(program, self)

    @property
    def endpoint(self) -> str:
        """Where the guest finds the export; nothing else sees that network."""
        return f"{HERE}:/export"

    @property
    def access(self) -> str:
        """How to get into that network, and where the files are."""
        return f"network={' '.join(self.beside())} folder={self.server.data}"

    def start(self) -> Self:
        """See ``Server``."""
        super().start()
        self.server.start()
        return self

    def close(self) -> None:
        """See ``Server``."""
        self.server.close()
        super().close()

    def log(self) -> str:
        """See ``Server``."""
        return "\n".join([super().log(), self.server.log()])
