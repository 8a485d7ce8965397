"""The binding ``absent``, which imports what it lacks too early."""

from __future__ import annotations

import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
