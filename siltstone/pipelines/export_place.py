"""Where an export lies: in a folder that every worker sees, or below a prefix of a bucket.

A bucket is given by an address such as ``s3://bucket/prefix?region=eu-west-1``, as pyarrow reads
it. Credentials are those of the environment of each worker; an address that holds some is refused,
as it travels with the plan.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from siltstone.core.errors import SettingsError
from siltstone.core.posix import SystemFileCalls, make_folder
from siltstone.pipelines import folder_files
from siltstone.pipelines.work import PipelineError

SCHEMES: Final = ("s3",)
"""Of services where an object appears with its last byte, and of which that was tried."""

_CLIENTS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """An object, or what names of objects begin with, as much like a path as an export needs.

    Attributes:
        files: the file system of pyarrow; it is safe to use from several threads.
        path: bucket and key.
    """

    files: Any
    path: str

    def __truediv__(self, name: str) -> ObjectPlace:
        return ObjectPlace(self.files, f"{self.path}/{name}")

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2]

    def exists(self) -> bool:
        """Whether there is such an object, or one below it. Raises ``OSError``."""
        from pyarrow.fs import FileType

        (found,) = self.files.get_file_info([self.path])
        return bool(found.type != FileType.NotFound)

    def read_text(self, encoding: str) -> str:
        """All of the object. Raises ``OSError``."""
        with self.files.open_input_file(self.path) as file:
            return str(file.read(), encoding)


Place = Path | ObjectPlace


def is_address(target: Path | str) -> bool:
    """Whether this is the address of a bucket, and no path."""
    return isinstance(target, str) and "://" in target


def target_of(folder: Path | str) -> str:
    """What tells every worker the place of an export: an absolute path, or an address."""
    return str(folder) if is_address(folder) else str(Path(folder).absolute())


def place_of(target: str) -> Place:
    """The place of an export.

    Raises:
        SettingsError: no export can be there, or the address is wrong.
        PipelineError: pyarrow is missing, or it knows no such service.
    """
    if not is_address(target):
        return Path(target)
    address = urlsplit(target)
    if address.scheme not in SCHEMES:
        raise SettingsError(f"an export goes to a folder or to s3://, not to {address.scheme}://")
    if "@" in address.netloc:
        raise SettingsError(
            "the address of an export holds no credentials; they come from the environment, such "
            "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if not address.hostname or address.fragment:
        wrong = "names no bucket" if not address.hostname else "has a fragment, after its #"
        raise SettingsError(
            f"the address of an export is like s3://bucket/prefix, and {target!r} {wrong}"
        )
    return _objects(target)


@lru_cache(_CLIENTS_MAX)
def _objects(address: str) -> ObjectPlace:
    """A client costs a look at the environment and connections; tasks of one job share clients."""
    try:
        from pyarrow.fs import FileSystem
    except ImportError as error:
        raise PipelineError("an export into a bucket needs pyarrow, which is missing") from error
    try:
        files, path = FileSystem.from_uri(address)
    except (ValueError, NotImplementedError) as error:
        raise SettingsError(f"no place for an export: {error}") from error
    except OSError as error:
        raise PipelineError(f"the bucket gives no answer: {error}") from error
    return ObjectPlace(files, path.rstrip("/"))


def prepare(place: Place) -> None:
    """Make a folder, and remove what dead writers left there. Raises ``OSError``."""
    if isinstance(place, Path):
        make_folder(SystemFileCalls(), str(place))
        folder_files.remove_old_drafts(place, time.time())


def names_in(place: Place) -> list[str]:
    """Names of what lies right below a place, in order; none if there is nothing."""
    if isinstance(place, Path):
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    from pyarrow.fs import FileSelector

    found = place.files.get_file_info(FileSelector(place.path, allow_not_found=True))
    return sorted(info.base_name for info in found)


@contextmanager
def draft_of(place: Place) -> Iterator[Path]:
    """Yield a local file to write what shall become ``place``; it is gone at the end."""
    if isinstance(place, Path):
        with folder_files.draft_of(place) as draft:
            yield draft
        return
    with tempfile.TemporaryDirectory(prefix="siltstone-export-") as folder:
        yield Path(folder) / "draft"


def publish(draft: Path, place: Place) -> bool:
    """Let a draft become ``place``, whole; false if that exists, which then stays as it is.

    Two that publish the same object at the same time both write it: of one range of a segment every
    writer has the same bytes.
    """
    if isinstance(place, Path):
        return folder_files.publish(draft, place)
    import pyarrow

    if place.exists():
        return False
    with pyarrow.memory_map(str(draft)) as source:
        content = source.read_buffer()
        target = place.files.open_output_stream(place.path)
        # One call has all of it: what pyarrow closes, however that comes, is whole or fails.
        target.write(content)
        target.close()
    return True


@contextmanager
def opened(place: Place) -> Iterator[IO[bytes] | Any]:
    """A file to read at any offset. Raises ``OSError``."""
    if isinstance(place, Path):
        with place.open("rb") as file:
            yield file
        return
    with place.files.open_input_file(place.path) as file:
        yield file
