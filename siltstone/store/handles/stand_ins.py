"""Stand-ins for a container that cannot serve, or not write.

A handle holds the container itself, so that an append costs two frames of Python. Everything that
may happen to a store meanwhile (closed, fenced, being opened again, forked) is done by giving its
handles another object to hold; no call on the way checks a flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from siltstone.core.errors import ReadOnlyError, SiltstoneError

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.reader.read_container import ReadContainer
    from siltstone.store.handles.read_calls import ReadCalls

    def _read_calls_of(container: Container | ReadContainer) -> ReadCalls:
        """Both kinds of containers have these calls, which lets mypy check those of handles."""
        return container


class _ReadOnlyContainer:
    def __init__(self, reader: ReadCalls) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._reader, name)
        except AttributeError:
            # Only a refusal pays for this import.
            from siltstone.container.container import Container

            if hasattr(Container, name) or name in Container.__annotations__:
                raise ReadOnlyError("the store was opened read-only", verb=name) from None
            raise


class _RefusingContainer:
    def __init__(self, make_error: Callable[[], SiltstoneError]) -> None:
        self._make_error = make_error

    def __getattr__(self, name: str) -> Any:
        raise self._make_error()


def read_only_container(reader: ReadCalls) -> Container:
    """Return a container that reads as ``reader`` does and refuses with ``ReadOnlyError``."""
    return cast("Container", _ReadOnlyContainer(reader))


def refusing_container(make_error: Callable[[], SiltstoneError]) -> Container:
    """Return a container of which every use raises a new error of ``make_error``."""
    return cast("Container", _RefusingContainer(make_error))
