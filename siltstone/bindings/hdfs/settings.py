"""What a person may set for the binding ``hdfs``. Imports no SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from siltstone.core.constants import MIB
from siltstone.core.remote.checks import PREFIX_BYTES_MAX, File, check_endpoint


class HdfsSettings(BaseModel):
    """Settings of the binding ``hdfs``.

    Attributes:
        namenode: ``hdfs://host:port``, or ``hdfs://name`` of a service that ``config_dir`` knows.
        path: the folder that belongs to the store. The first chunk makes it.
        config_dir: absolute path of the folder with ``core-site.xml`` and ``hdfs-site.xml``.
        webhdfs: URLs of the NameNodes' HTTP servers, for reading what is being written.
        webhdfs_token: a delegation token for them.
        insecure: allow such a URL without TLS: anyone on the network can read all of it.
        ca_bundle: absolute path of the certificates to trust instead of the usual ones.
        kerberos_principal, kerberos_keytab, kerberos_cache: who this process is.
        unsafe_append: let chunks grow. Needs ``webhdfs``; see ``docs/bindings/hdfs.md``.
        replication: copies of each block; unless set, as the NameNode says.
        block_size: bytes of each block; unless set, as the NameNode says.
        connect_timeout_s: seconds for a connection to a HTTP server, and of its silence.
        deadline_s: seconds after which a call ends, and one more for each MiB that it moves.
        lease_wait_s: seconds after which a writer that holds a chunk open is taken for dead.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    namenode: str
    path: str
    config_dir: Path | None = None
    webhdfs: tuple[str, ...] = Field(default=(), max_length=8)
    webhdfs_token: SecretStr | None = None
    insecure: bool = False
    ca_bundle: File = None
    kerberos_principal: str | None = Field(default=None, min_length=1)
    kerberos_keytab: File = None
    kerberos_cache: str | None = Field(default=None, min_length=1)
    unsafe_append: bool = False
    replication: int | None = Field(default=None, ge=1, le=512)
    block_size: ByteSize | None = Field(default=None, ge=MIB)
    connect_timeout_s: float = Field(default=10.0, gt=0, le=300)
    deadline_s: float = Field(default=60.0, gt=0, le=86_400)
    lease_wait_s: float = Field(default=10.0, gt=0, le=3_600)

    @property
    def folder(self) -> str:
        """What every path begins with; it ends in a slash."""
        return f"{self.path}/"

    @property
    def is_one_namenode(self) -> bool:
        """Whether ``namenode`` is the address of one, rather than the name of several."""
        return urlsplit(self.namenode).port is not None

    @field_validator("namenode")
    @classmethod
    def _namenode_is_a_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "hdfs" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError("must be hdfs://host:port, or hdfs://name")
        if parts.username or parts.password:
            raise ValueError("must hold no credentials")
        _ = parts.port  # Raises when it is no number.
        return url.rstrip("/")

    @field_validator("path")
    @classmethod
    def _path_is_a_folder(cls, path: str) -> str:
        path = path.removesuffix("/")
        head, *parts = path.split("/")
        if head or not parts or any(part in ("", ".", "..", ".snapshot") for part in parts):
            raise ValueError("must be the absolute path of a folder below the root")
        if "\0" in path or ":" in path or len(path.encode()) > PREFIX_BYTES_MAX:
            raise ValueError(f"has at most {PREFIX_BYTES_MAX} bytes, none of them NUL or a colon")
        return path

    @field_validator("webhdfs", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, urls: object) -> object:
        return (urls,) if isinstance(urls, str) else urls

    @field_validator("webhdfs")
    @classmethod
    def _webhdfs_are_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            check_endpoint(url)
            if urlsplit(url).path.strip("/"):
                raise ValueError("must end with the port")
        return tuple(url.rstrip("/") for url in urls)

    @field_validator("config_dir")
    @classmethod
    def _folder_is_there(cls, path: Path | None) -> Path | None:
        if path is not None and not (path.is_absolute() and path.is_dir()):
            raise ValueError("must be the absolute path of a folder")
        return path

    @model_validator(mode="before")
    @classmethod
    def _one_client(cls, told: object) -> object:
        for key in ("client", "driver", "transport"):
            if isinstance(told, dict) and key in told:
                raise ValueError(
                    f"{key}: hdfs-native is the only client; that of pyarrow needs Java in this "
                    "process, cannot sync, and overwrites"
                )
        return told

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        for reason in (*self._web(), *self._names()):
            raise ValueError(reason)
        return self

    def _web(self) -> list[str]:
        wrong = []
        plain = [url for url in self.webhdfs if url.startswith("http://")]
        if plain and not self.insecure:
            wrong.append("webhdfs is without TLS, which needs insecure: true")
        if plain and len(plain) < len(self.webhdfs):
            wrong.append("webhdfs is either with or without TLS")
        if self.insecure and not plain:
            wrong.append("insecure: true is for a webhdfs that begins with http://")
        if self.ca_bundle is not None and (plain or not self.webhdfs):
            wrong.append("ca_bundle is for a webhdfs with TLS")
        if self.webhdfs_token is not None and not self.webhdfs:
            wrong.append("webhdfs_token needs webhdfs")
        if self.unsafe_append and not self.webhdfs:
            wrong.append("unsafe_append needs webhdfs, which tells how many copies there are")
        return wrong

    def _names(self) -> list[str]:
        wrong = []
        if not self.is_one_namenode and self.config_dir is None:
            wrong.append("namenode has no port, which needs config_dir")
        if self.kerberos_keytab is not None and self.kerberos_principal is None:
            wrong.append("kerberos_keytab needs kerberos_principal")
        if self.kerberos_cache is not None and self.kerberos_principal is None:
            wrong.append("kerberos_cache needs kerberos_principal")
        if self.kerberos_keytab is not None and self.kerberos_cache is not None:
            wrong.append("kerberos_keytab and kerberos_cache exclude each other")
        return wrong
