#!/usr/bin/env bash
# Trains with the real packages as docs/trainers shows it: under torchrun on CPUs, killed on the way, going on with other
# numbers of ranks. Called by `make trainers`. The packages lie in .venv-trainers, apart from .venv, because there are many; torch
# and ours are those of .venv.
# Usage: tools/trainers.sh [NAME ...]   with names the tests whose names have one of them.
set -euo pipefail
cd "$(dirname "$0")/.."
# Many processes import the same large packages: each is compiled once, also where the shell says never.
unset PYTHONDONTWRITEBYTECODE
trainers=.venv-trainers
stamp="$PWD $(cat tools/trainers.txt tools/trainers.sh pyproject.toml | sha256sum)"
if [ "$(cat "$trainers/.setup" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$trainers"
  .venv/bin/python -m venv "$trainers"
  site=$("$trainers/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  base=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  printf '%s\n%s\n' "$base" "$PWD/python" >"$site/overlord_base.pth"
  "$trainers/bin/python" -m pip install -qq --disable-pip-version-check -r tools/trainers.txt </dev/null
  echo "$stamp" >"$trainers/.setup"
fi
export OMP_NUM_THREADS=1
exec "$trainers/bin/python" -m pytest -q -p no:cacheprovider -m "trainers or not chaos and not soak" \
  python/tests/trainers ${1:+-k "$(printf '%s or ' "$@" | sed 's/ or $//')"}
