#!/usr/bin/env bash
# Builds the wheel of this checkout and repairs it: the libraries of the codecs go inside, Arrow's stay pyarrow's,
# and the name says which glibc it needs. Usage: tools/wheel.sh FOLDER   FOLDER is made anew and holds one file after.
# The objects of the development build are used where there are any: what ships is compiled alike in every build.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

rm -rf "$folder"
mkdir -p "$folder"
# One at a time: two builds in one folder break what the build knows of its objects.
mkdir -p build
exec 9>build/.wheel-lock
flock 9
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
python -m pip wheel . -qq --no-deps --no-build-isolation --config-settings=build-dir=build -w "$bare" </dev/null
python tools/repair_wheel.py "$bare"/overlord_data-*.whl "$folder"
