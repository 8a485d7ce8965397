"""What to install where a package is missing."""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Final

OURS: Final = "siltstone"


def install_hint(extra: str, of: Distribution | None = None) -> str:
    """Return the command that installs what the extra ``extra`` brings.

    It names the packages themselves, with their bounds, as the metadata has them: a distribution
    that came from a checkout or a wheel may be on no index, and then pip cannot find
    ``name[extra]``.

    Args:
        extra: of that distribution, as its metadata spells it.
        of: the distribution; ``None`` means Siltstone.

    Returns:
        ``pip install 'boto3<2,>=1.36'``; where the metadata does not tell the packages,
        ``install the extra s3 of siltstone``.
    """
    asked = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    try:
        lines = (distribution(OURS) if of is None else of).requires or ()
    except PackageNotFoundError:  # It runs from a folder that was never installed.
        lines = ()
    parts = (line.partition(";") for line in lines)
    packages = [f"'{package.strip()}'" for package, _, marker in parts if asked.search(marker)]
    if packages:
        return f"pip install {' '.join(packages)}"
    return f"install the extra {extra} of {OURS if of is None else of.name}"
