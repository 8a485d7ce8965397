"""What is known of services that do not do all that the contract asks for, in a table.

A deviation is no excuse: a check that is named here has to fail. When the service is repaired, the
check says so, and the row is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One check that does not hold for one service.

    Attributes:
        check: its name; with ``[...]`` after it one case of it.
        service: which one, with its version.
        why: what the service does instead.
        is_certain: it fails in every run; else in some, as in a race.
    """

    check: str
    service: str
    why: str
    is_certain: bool = True


def expect_deviation(request: pytest.FixtureRequest, known: Sequence[Deviation]) -> None:
    """Expect the check of ``request`` to fail, if that is known of it."""
    item = request.node
    for deviation in known:
        if deviation.check in (item.name, item.originalname):
            reason = f"{deviation.service}: {deviation.why}"
            mark = pytest.mark.xfail(reason=reason, strict=deviation.is_certain)
            request.applymarker(mark)
