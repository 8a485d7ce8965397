"""WebHDFS, for what the SDK cannot do: to read what is being written, and to ask some things.

For bytes, a NameNode answers with the address of a DataNode, which answers with the bytes.
"""

from __future__ import annotations

import getpass
import http.client
import json
import os
import ssl
from contextlib import closing
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.core.remote.timed_answers import TimedAnswers

ROOT: Final = "/webhdfs/v1"
USER: Final = "HADOOP_USER_NAME"
"""Who this process is, where there is no Kerberos; the SDK looks there too."""
MOVED: Final = (302, 307)
STEP_BYTES: Final = MIB


def read_open_file(
    settings: HdfsSettings,
    name: str,
    path: str,
    offset: int,
    buffer: memoryview,
    deadline: Deadline,
) -> None:
    """Fill ``buffer`` with bytes that are there, of a file that may be open for writing.

    Raises:
        ChunkUnavailableError: no NameNode led to all of them.
    """
    query = {"op": "OPEN", "offset": str(offset), "length": str(len(buffer))}
    last: Exception | None = None
    for url in settings.webhdfs:
        try:
            _read(settings, _target(settings, url, path, query), buffer, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            deadline.check()
            last = error
        else:
            return
    raise ChunkUnavailableError(
        "no whole answer of WebHDFS",
        chunk=name,
        operation="read_into",
        error=type(last).__name__,
    ) from last


def asked(
    settings: HdfsSettings, path: str, operation: str, deadline: Deadline
) -> dict[str, Any] | str:
    """Ask one NameNode after another; return what the first one that answers says.

    Returns:
        Or what is wrong, in words, if none does.
    """
    wrong = "is not set"
    for url in settings.webhdfs:
        target = _target(settings, url, path, {"op": operation})
        try:
            with closing(_connected(settings, target, deadline)) as connection:
                connection.request("GET", _path_of(target))
                # Nothing else closes an answer that ends with its connection.
                with connection.getresponse() as answer:
                    found = json.loads(answer.read(STEP_BYTES))
            if answer.status == 200 and isinstance(found, dict):
                return found
            wrong = f"answered with status {answer.status}"
        except DeadlineError:
            raise
        except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
            wrong = f"gave no answer of WebHDFS ({type(error).__name__})"
    return wrong


def look_at_web(settings: HdfsSettings, deadline: Deadline) -> str | None:
    """Ask for the root; return what is wrong, if no NameNode answers."""
    if not settings.webhdfs:
        return None
    found = asked(settings, "/", "GETFILESTATUS", deadline)
    if isinstance(found, str):
        return found
    return None if "FileStatus" in found else "gave no answer of WebHDFS"


def copies_told(settings: HdfsSettings, path: str, deadline: Deadline) -> int:
    """How many DataNodes have told the NameNode that they hold the last block of a file."""
    found: Any = asked(settings, path, "GETFILEBLOCKLOCATIONS", deadline)
    try:
        blocks = found["BlockLocations"]["BlockLocation"]
        return max(((block["offset"], len(block["names"])) for block in blocks), default=(0, 0))[1]
    except (KeyError, TypeError):
        return 0


def room_told(settings: HdfsSettings, deadline: Deadline) -> int | None:
    """Bytes that the DataNodes have room for; ``None`` where Hadoop is older than 3.4.

    Raises:
        ChunkUnavailableError: no DataNode is there, so that it is unknown. It is not a full disk.
    """
    found: Any = asked(settings, "/", "GETSTATUS", deadline)
    try:
        capacity, room = (int(found["FsStatus"][key]) for key in ("capacity", "remaining"))
    except (KeyError, TypeError, ValueError):
        return None
    if not capacity:
        raise ChunkUnavailableError("no DataNode is there", chunk="", operation="free_space")
    return room


def _target(settings: HdfsSettings, url: str, path: str, query: dict[str, str]) -> str:
    if settings.webhdfs_token is not None:
        query = {**query, "delegation": settings.webhdfs_token.get_secret_value()}
    elif settings.kerberos_principal is None:
        query = {**query, "user.name": os.environ.get(USER) or getpass.getuser()}
    return f"{url}{ROOT}{quote(path, safe='/')}?{urlencode(query)}"


def _read(settings: HdfsSettings, target: str, buffer: memoryview, deadline: Deadline) -> None:
    """Follow one redirection, and read exactly as much as was asked for."""
    for _ in range(2):
        with closing(_connected(settings, target, deadline)) as connection:
            connection.request("GET", _path_of(target))
            with connection.getresponse() as answer:
                if answer.status in MOVED:
                    target = _next(settings, answer)
                    continue
                if answer.status != 200:
                    raise ValueError("refused")
                _fill(answer, buffer, deadline)
                return
    raise ValueError("redirected twice")


def _fill(answer: http.client.HTTPResponse, buffer: memoryview, deadline: Deadline) -> None:
    done = 0
    while done < len(buffer):
        deadline.check()
        count = answer.readinto(buffer[done : done + STEP_BYTES])
        if not count:
            raise ValueError("the answer broke off")
        done += count
    if answer.read(1):
        raise ValueError("more than was asked for")


def _next(settings: HdfsSettings, answer: http.client.HTTPResponse) -> str:
    """Where the NameNode sends us; never from TLS to plain HTTP, for the token goes there."""
    target = answer.getheader("Location") or ""
    parts = urlsplit(target)
    wanted = urlsplit(settings.webhdfs[0]).scheme
    if parts.scheme != wanted or not parts.hostname:
        raise ValueError("redirected elsewhere")
    return target


def _path_of(target: str) -> str:
    parts = urlsplit(target)
    return f"{parts.path}?{parts.query}"


def _connected(
    settings: HdfsSettings, target: str, deadline: Deadline
) -> http.client.HTTPConnection:
    parts = urlsplit(target)
    left_s = deadline.left_s()
    timeout_s = min(settings.connect_timeout_s, left_s)
    connection: _Plain | _Secured
    if parts.scheme == "http":
        connection = _Plain(parts.netloc, timeout=timeout_s)
    else:
        trusted: Any = None if settings.ca_bundle is None else str(settings.ca_bundle)
        context = ssl.create_default_context(cafile=trusted)
        connection = _Secured(parts.netloc, timeout=timeout_s, context=context)
    connection.answer_s = left_s
    return connection


class _Plain(TimedAnswers, http.client.HTTPConnection):
    pass


class _Secured(TimedAnswers, http.client.HTTPSConnection):
    pass
