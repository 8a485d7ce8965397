"""Checks of what a person may set, the same for every service at the other end of a network.

They raise ``ValueError`` with what it must be; most are parts of a type for a field of settings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

PREFIX_BYTES_MAX: Final = 256
"""Longer ones would leave too little of the 1,024 bytes of a key for names of chunks."""

URL: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
IN_HEAD: Final = re.compile(r"[!-~]+")


def without_slash(value: object) -> object:
    """A prefix without the slash at its end that many people write."""
    return value.removesuffix("/") if isinstance(value, str) else value


def check_prefix(prefix: str) -> str:
    """A folder of the service: parts between slashes, or nothing."""
    if prefix and any(part in ("", ".", "..") for part in prefix.split("/")):
        raise ValueError("no part may be empty, '.' or '..'")
    if "\0" in prefix or len(prefix.encode()) > PREFIX_BYTES_MAX:
        raise ValueError(f"has at most {PREFIX_BYTES_MAX} bytes, none of them NUL")
    return prefix


def check_endpoint(endpoint: str | None) -> str | None:
    """The URL of a service; what it says of TLS is looked at elsewhere."""
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that begins with https://")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold neither credentials nor a query")
    if not URL.fullmatch(endpoint):
        raise ValueError("holds a blank, or a control character")
    _ = parts.port  # raises when it is no number, or too large
    return endpoint


def check_in_head(secret: SecretStr | None) -> SecretStr | None:
    """What goes into the head of a request as it is; a line's end from a file often comes along."""
    if secret is not None and not IN_HEAD.fullmatch(secret.get_secret_value()):
        raise ValueError("is empty, or holds a blank, the end of a line or a letter beyond ASCII")
    return secret


def check_file(path: Path | None) -> Path | None:
    """A file that is there, wherever the process is."""
    if path is not None and not (path.is_absolute() and path.is_file()):
        raise ValueError("must be the absolute path of a file")
    return path


def check_threads(key: str, threads: int, connections: int) -> None:
    """Raise ``ValueError`` if the threads of the setting ``key`` would wait for connections."""
    if threads > connections:
        raise ValueError(f"{key} is {threads} and must not be above connections, {connections}")


Prefix = Annotated[str, BeforeValidator(without_slash), AfterValidator(check_prefix)]
InHead = Annotated[SecretStr | None, AfterValidator(check_in_head)]
Endpoint = Annotated[str | None, AfterValidator(check_endpoint)]
File = Annotated[Path | None, AfterValidator(check_file)]
