"""Coverage-guided fuzzing of one decoder: ``python -m tests.fuzz.guided NAME RUNS FOLDER``.

The examples of the format pages are put into ``FOLDER``, where the fuzzer leaves what it finds. It
ends with an error at the first exception that is neither of the two.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["siltstone"]):
    from siltstone.core.errors import CorruptDataError, FormatError
    from tests.fuzz.bytes_to_try import EXAMPLES
    from tests.fuzz.decoders import decoders, sums_that_match

    DECODERS = decoders()  # which imports what is to be followed

LENGTH_MAX = 4096
CALL_S = 10
MEMORY_MIB = 1024


def main() -> None:
    """Do what the arguments say."""
    name, runs, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    decoder = DECODERS[name]
    for number, example in enumerate(EXAMPLES):
        (folder / f"example-{number}").write_bytes(example)

    def attempt(data: bytes) -> None:
        with contextlib.suppress(CorruptDataError, FormatError):
            decoder(data)

    options = (
        f"-runs={runs}",
        f"-max_len={LENGTH_MAX}",
        f"-timeout={CALL_S}",
        f"-rss_limit_mb={MEMORY_MIB}",
    )
    with sums_that_match():
        atheris.Setup([sys.argv[0], *options, str(folder)], attempt)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
