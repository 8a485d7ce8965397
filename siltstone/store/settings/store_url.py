"""A store named by the URL of its long-term storage, such as ``s3://archive/logs``.

A URL says where the chunks are, and no more: tier 1, which has what was acknowledged last, lies
somewhere else. So each URL has one folder on each machine, its home, where ``init`` puts the
settings file, the tier-1 log and the index. Where there is none, long-term storage alone can be
read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from siltstone.core.errors import SettingsError
from siltstone.core.near_names import meant

SCHEMES: Final[Mapping[str, str]] = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gcs", "gcs": "gcs",
    "az": "azure", "azure": "azure", "abfs": "azure", "abfss": "azure", "wasb": "azure",
    "wasbs": "azure",
    "hdfs": "hdfs",
}  # fmt: skip
"""The binding of each scheme: those of Hadoop and of the services' own tools."""

_NAME_CHARACTERS_MAX: Final = 200
"""Of a folder's name: every file system of Linux takes 255 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """Where the chunks of a store are.

    Attributes:
        place: the URL without its query, in one spelling.
        binding: name of the binding.
        where: settings of the binding that say so, as text.
        more: other settings of it, which stand after a ``?``; may hold secrets.
    """

    place: str
    binding: str
    where: Mapping[str, str]
    more: Mapping[str, str] = field(repr=False)

    @property
    def option_texts(self) -> tuple[str, ...]:
        """All settings, as ``--option`` takes them."""
        return tuple(f"{key}={value}" for key, value in (*self.where.items(), *self.more.items()))

    @property
    def home(self) -> Path:
        """The folder of this machine and user for the store."""
        data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        name = quote(self.place.partition("://")[2], safe="")
        if len(name) > _NAME_CHARACTERS_MAX:
            digest = hashlib.sha256(name.encode()).hexdigest()
            name = f"{name[: _NAME_CHARACTERS_MAX - len(digest) - 1]}-{digest}"
        return Path(data) / "siltstone" / self.binding / name


def is_url(text: str) -> bool:
    """Whether a person who writes ``text`` means a URL: no path begins so."""
    return "://" in text


def parse_store_url(text: str) -> StoreUrl:
    """Read ``SCHEME://BUCKET/PREFIX``, and after a ``?`` more settings, ``KEY=VALUE&KEY=VALUE``.

    Bucket and prefix are taken as they are written, values after the ``?`` may have ``%26`` for
    ``&``.

    Raises:
        SettingsError: there is no such scheme, or no bucket, container, host or path.
    """
    plain, _, query = text.partition("?")
    scheme, _, rest = plain.partition("://")
    host, _, path = rest.partition("/")
    binding, path = SCHEMES.get(scheme.lower()), path.strip("/")
    if binding is None:
        near = meant(scheme, SCHEMES)
        known = ", ".join(SCHEMES)
        raise SettingsError(f"no store can be named by {scheme}://{near or ';'} known: {known}")
    if not host or (binding == "hdfs" and not path):
        wanted = "HOST:PORT/PATH" if binding == "hdfs" else "BUCKET/PREFIX"
        raise SettingsError(f"write {scheme}://{wanted}, not {plain!r}")
    where, more = _where(binding, host, path), _more(query)
    for key in more:
        if key in where:
            raise SettingsError(f"{key} stands in the URL, and after its '?' again")
    place = f"{binding}://{host}/{path}".rstrip("/")
    return StoreUrl(place=place, binding=binding, where=where, more=more)


def _more(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, sign, value = part.partition("=")
        if not key or not sign or key in found:
            raise SettingsError("after the '?' of a URL stand KEY=VALUE, each once, with & between")
        found[key] = unquote(value)
    return found


def _where(binding: str, host: str, path: str) -> dict[str, str]:
    if binding == "hdfs":
        return {"namenode": f"hdfs://{host}", "path": f"/{path}"}
    prefix = {"prefix": path} if path else {}
    if binding != "azure":
        return {"bucket": host, **prefix}
    container, sign, account = host.partition("@")
    of = {"account": account.partition(".")[0]} if sign else {}
    return {"container": container, **of, **prefix}
