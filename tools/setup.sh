#!/usr/bin/env bash
# Makes this checkout ready to build: system packages, then a virtual environment in .venv.
# Usage: tools/setup.sh [run|wheel|test|extended]   `run` (the default) is enough to build and use the package;
# `wheel` adds what makes a wheel of it, `test` adds to that what `make test` needs, `extended` clang for
# `make clang-check`. Finished steps leave a stamp, so a second call returns at once.
# OVERLORD_PYTHON names the interpreter to use; by default the first of Python 3.10 or newer is taken.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
level=${1:-run}
venv=$root/.venv

inputs=$(cat pyproject.toml tools/setup.sh tools/install.py | sha256sum | cut -d' ' -f1)
stamp="$root $(uname -m) $inputs"
is_done() { [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.setup-$1" 2>/dev/null)" = "$stamp" ]; }
case $level in
run) enough=(run wheel test extended) groups=(build) ;;
wheel) enough=(wheel test extended) groups=(build wheel) ;;
test) enough=(test extended) groups=(build wheel test) ;;
extended) enough=(extended) groups=(build wheel test) ;;
*) echo "setup: run, wheel, test or extended, not $level" >&2 && exit 2 ;;
esac
for done_level in "${enough[@]}"; do
  if is_done "$done_level"; then exit 0; fi
done

recent_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
find_python() {
  local candidate
  for candidate in ${OVERLORD_PYTHON:-} python3 /usr/bin/python3 python3.{14,13,12,11,10}; do
    if recent_enough "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}
python=$(find_python)

# --- System packages -------------------------------------------------------------------------------
packages=(g++ libzstd-dev zlib1g-dev libsimdjson-dev libgtest-dev libbenchmark-dev libxxhash-dev
  libjpeg-dev libspng-dev libwebp-dev libsndfile1-dev libavcodec-dev
  libcurl4-openssl-dev)
[ "$level" != extended ] || packages+=(clang-14 libclang-rt-14-dev libc++-14-dev libc++abi-14-dev)
if [ -z "$python" ]; then
  packages+=(python3 python3-venv python3-dev)
else
  # The distribution splits its own Python into packages; any other build of Python is whole.
  "$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
  [ -f "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
    packages+=(python3-dev)
fi

missing=()
if command -v dpkg >/dev/null; then
  for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
  done
else
  echo "setup: not a Debian family system; make sure it has the like of: ${packages[*]}" >&2
fi
if [ ${#missing[@]} -gt 0 ]; then
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      echo "setup: system packages are missing and this user may not install them. Run:" >&2
      echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
  python=$(find_python)
fi
if [ -z "$python" ]; then
  echo "setup: Python 3.10 or newer is needed; set OVERLORD_PYTHON to its path" >&2
  exit 1
fi

# --- Virtual environment ---------------------------------------------------------------------------
# A virtual environment cannot be moved: one that was made elsewhere is made anew.
if [ ! -x "$venv/bin/python" ] || [ "$(cat "$venv/.home" 2>/dev/null)" != "$root" ]; then
  echo "setup: making .venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  echo "$root" >"$venv/.home"
fi

echo "setup: installing Python packages (${groups[*]})"
# What only tests use is large, and they import a small part of it: compiled when it is imported.
compile=()
[ "$level" != run ] || compile=(--compile)
"$venv/bin/python" tools/install.py "${compile[@]}" "${groups[@]}"

# The package is used in place: the environment's path leads to python/, the command is a script.
site_packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
echo "$root/python" >"$site_packages/overlord_in_place.pth"
cat >"$venv/bin/overlord" <<SCRIPT
#!$venv/bin/python
import sys

from overlord.cli import main

sys.exit(main())
SCRIPT
chmod +x "$venv/bin/overlord"
echo "$stamp" >"$venv/.setup-$level"
