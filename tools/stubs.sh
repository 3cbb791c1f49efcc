#!/usr/bin/env bash
# Writes python/overlord/_core.pyi from the built extension; with --check it only compares the file in
# the repository with what the extension would give.
set -euo pipefail
cd "$(dirname "$0")/.."
stub=python/overlord/_core.pyi
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

# pyarrow goes first: it brings the Arrow libraries into the process.
PYTHONPATH=python .venv/bin/python -c '
import sys

import pyarrow  # noqa: F401
from nanobind.stubgen import main

main(["-q", "-m", "overlord._core", "-o", sys.argv[1]])
' "$fresh"

if [ "${1:-}" = --check ]; then
  if ! diff -u "$stub" "$fresh"; then
    echo "$stub is not what the extension says; run: make stubs" >&2
    exit 1
  fi
else
  cp "$fresh" "$stub"
fi
