"""Plays seeds.

``python -m tests.simulation SEED [SEED ...] [--count N] [--kafka] [--short] [--collections]
[--trace]``
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation.play import play


def main() -> None:
    """Play what the command line says; the first failure ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", type=int, nargs="+", help="what to play")
    parser.add_argument("--count", type=int, default=1, help="this many seeds from each on")
    parser.add_argument("--kafka", action="store_true", help="logs in a model of Kafka")
    parser.add_argument("--short", action="store_true", help="owners that live for seconds")
    parser.add_argument("--collections", action="store_true", help="a story of collections")
    parser.add_argument("--keyspaces", action="store_true", help="a story of a keyspace")
    parser.add_argument("--trace", action="store_true", help="print everything that happened")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    for first in arguments.seeds:
        for seed in range(first, first + arguments.count):
            begin = time.perf_counter()
            played = play(
                seed,
                kafka=arguments.kafka,
                short=arguments.short,
                collections=arguments.collections,
                keyspaces=arguments.keyspaces,
            )
            if arguments.trace:
                sys.stdout.write("\n".join(played.lines) + "\n")
            sys.stdout.write(
                f"seed {seed}: {played.digest[:16]} calls={len(played.lines)} "
                f"acknowledged={played.acknowledged} epochs={played.epoch} "
                f"seconds={time.perf_counter() - begin:.2f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
