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
EXPORT {{
  Export_Id = 1;
  Path = "{data}";
  Pseudo = "/export";
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  Protocols = 4;
  Transports = TCP;
  FSAL {{ Name = VFS; }}
}}
NFS_KRB5 {{ Active_krb5 = false; }}
LOG {{ Default_Log_Level = EVENT; }}
"""


class Ganesha(Server):
    """A server of NFSv4 for one guest. What it exports is its ``data``, a plain folder.

    Args:
        program: the file.
        guest: the client; it runs.
    """

    def __init__(self, program: Path, guest: NfsGuest) -> None:
        super().__init__("ganesha")
        self.port = PORT  # Nobody else is in that network.
        self._program = program
        self._guest = guest
        self._configuration = self.folder / "configuration"
        self._own_log = self.folder / "ganesha.log"
        (self.folder / "recovery").mkdir()
        self._configuration.write_text(
            CONFIGURATION.format(
                address=HERE,
                data=self.data,
                folder=self.folder,
                port=PORT,
            ),
            encoding="ascii",
        )

    def command(self) -> Sequence[str]:
        """See ``Server``."""
        pid = self.folder / "pid"
        pid.unlink(missing_ok=True)  # One that was killed left it.
        self._own_log.unlink(missing_ok=True)
        options = ["-F", "-f", self._configuration, "-L", self._own_log, "-p", pid]
        return self._guest.beside(str(self._program), *map(str, options))

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"PATH": SYSTEM_PATH, "HOME": str(self.folder)}

    def is_ready(self) -> bool:
        """See ``Server``."""
        try:
            return SERVING in self._own_log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False

    def log(self) -> str:
        """Its own log of this life, behind what it wrote elsewhere."""
        try:
            own = self._own_log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            own = ""
        return "\n".join([super().log(), *own.splitlines()[-40:]])
