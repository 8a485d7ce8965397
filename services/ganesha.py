"""nfs-ganesha: an NFS server that is a plain process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from services.installed_program import SYSTEM_PATH
from services.nfs_guest import HERE, NfsGuest
from services.server import Server

PORT = 2049
SERVING = "NFS SERVER INITIALIZED"
CONFIGURATION = """
NFS_CORE_PARAM {{
  NFS_Protocols = 4;
  Bind_addr = {address};
  NFS_Port = {port};
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Enable_UDP = false;
}}
NFSv4 {{
  Minor_Versions = 0, 1, 2;
  Grace_Period = 5;
  Lease_Lifetime = 10;
  Graceless = true;
  RecoveryBackend = fs;
  RecoveryRoot = "{folder}/recovery";
}}
NFS_KRB5 {{ Active_krb5 = false; }}
LOG {{ Default_Log_Level = EVENT; }}
"""
EXPORT = """EXPORT {{
  Export_Id = {number};
  Path = "{folder}";
  Pseudo = "{name}";
  Access_Type = {access};
  Squash = {squash};
  SecType = sys;
  Protocols = 4;
  Transports = TCP;
  FSAL {{ Name = VFS; }}
}}
"""
READ_ONLY = "/read-only"
SQUASHED = "/squashed"
FULL = "/full"
FULL_BYTES = 8 * 2**20


class Ganesha(Server):
    """A server of NFSv4 for one guest. What it exports is its ``data``, a plain folder.

    Other exports of it are narrow: ``READ_ONLY``; ``SQUASHED``, where root is the user ``nobody``;
    and ``FULL`` of ``FULL_BYTES`` in memory, which is empty after each start.

    Args:
        program: the file.
        guest: the client; it runs.

    Attributes:
        narrow: the folder of each narrow export except ``FULL``, which only the guest sees.
    """

    def __init__(self, program: Path, guest: NfsGuest) -> None:
        super().__init__("ganesha")
        self.port = PORT  # No other server is in that network.
        self._program = program
        self._guest = guest
        self._configuration = self.folder / "configuration"
        self._own_log = self.folder / "ganesha.log"
        (self.folder / "recovery").mkdir()
        self._full = self.folder / "full"
        self._full.mkdir()
        self.narrow = {name: self.folder / name[1:] for name in (READ_ONLY, SQUASHED)}
        for folder in self.narrow.values():
            folder.mkdir()
            folder.chmod(0o755)  # ``nobody`` may read it, whatever mask this process has.
        self._configuration.write_text(self._configured(), encoding="ascii")

    def command(self) -> Sequence[str]:
        """See ``Server``."""
        pid = self.folder / "pid"
        pid.unlink(missing_ok=True)  # A killed server left it.
        self._own_log.unlink(missing_ok=True)
        options = ["-F", "-f", self._configuration, "-L", self._own_log, "-p", pid]
        # The mount is in a namespace of the server alone, so it ends with it. Where mounts of this
        # machine are shared, the server sees others go; elsewhere it holds what it has copied.
        mounted = f'mount -t tmpfs -o size={FULL_BYTES},mode=777 none "$0" && exec "$@"'
        inside = ["unshare", "--mount", "--propagation", "slave"]
        inside += ["sh", "-c", mounted, str(self._full)]
        return self._guest.beside(*inside, str(self._program), *map(str, options))

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"PATH": SYSTEM_PATH, "HOME": str(self.folder)}

    def _configured(self) -> str:
        exports = (
            ("/export", self.data, "RW", "No_Root_Squash"),
            (READ_ONLY, self.narrow[READ_ONLY], "RO", "No_Root_Squash"),
            (SQUASHED, self.narrow[SQUASHED], "RW", "Root_Squash"),
            (FULL, self._full, "RW", "No_Root_Squash"),
        )
        head = CONFIGURATION.format(address=HERE, folder=self.folder, port=PORT)
        return head + "".join(
            EXPORT.format(number=number, name=name, folder=folder, access=access, squash=squash)
            for number, (name, folder, access, squash) in enumerate(exports, 1)
        )

    def is_ready(self) -> bool:
        """See ``Server``."""
        try:
            return SERVING in self._own_log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False

    def log(self) -> str:
        """Its own log of this life, after its other output."""
        try:
            own = self._own_log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            own = ""
        return "\n".join([super().log(), *own.splitlines()[-40:]])
