"""Sequential reads from S3 in a network of their own: ``python -m bench.link_child FOLDER QUICK``.

Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.s3_place import s3_place
from bench.s3_segments import in_order
from bench.workshop import Workshop


def main() -> None:
    """Do what the arguments say."""
    workshop = Workshop(folder=Path(sys.argv[1]), quick=sys.argv[2] == str(True))
    with s3_place() as place:
        print(json.dumps(in_order(workshop, place)))


if __name__ == "__main__":
    main()
