"""Looking at all containers of a store, where some may not open: those hide no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from siltstone.cli.exit_codes import ExitCode
from siltstone.core.errors import ChunkUnavailableError, SiltstoneError

if TYPE_CHECKING:
    from siltstone.cli.session import Session
    from siltstone.store.store import Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnopenedContainer:
    """A container that could not be opened for reading.

    Attributes:
        container: its index.
        failure: why.
    """

    container: int
    failure: SiltstoneError | OSError

    @property
    def code(self) -> ExitCode:
        """The exit code that this asks for."""
        from siltstone.cli.error_codes import exit_code  # It names errors of all that there is.

        return exit_code(self.failure) or ExitCode.FAILED

    def row(self) -> dict[str, object]:
        """What is shown of it."""
        return {"container": self.container, "state": "failed", "error": str(self.failure)}


def each_container(
    session: Session, look: Callable[[Store], Sequence[T]]
) -> list[T | UnopenedContainer]:
    """Return what ``look`` finds of each container: all at a time, else each alone.

    Raises:
        ChunkUnavailableError: long-term storage does not answer, so none can be opened.
        StoreNotFoundError: there is no such store; whatever else hides all containers.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.admin.inspection import open_inspection

    try:
        with session.open_reader() as store:
            return list(look(store))
    except ChunkUnavailableError:
        raise
    except (SiltstoneError, OSError):
        with open_inspection(session.for_reading()[0]) as inspection:
            indexes = inspection.containers
    found: list[T | UnopenedContainer] = []
    for index in indexes:
        try:
            with session.open_reader([index]) as store:
                found += look(store)
        except ChunkUnavailableError:
            raise
        except (SiltstoneError, OSError) as error:
            found.append(UnopenedContainer(container=index, failure=error))
    return found


def worst_code(found: Sequence[object], code: ExitCode) -> ExitCode:
    """The exit code of a look: that of the worst failure, else ``code``."""
    failed = [one.code for one in found if isinstance(one, UnopenedContainer)]
    return max([code, *failed])
