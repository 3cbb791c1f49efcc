#!/usr/bin/env bash
# Every check of the house over a finished build. All of them run, the names of those that failed come
# last, and the exit status tells whether there were any. Usage: tools/check.sh [NAME ...]
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
jobs=$(nproc)

check_format() { tools/cpp_files.sh | xargs -0 -r -n 16 -P "$jobs" clang-format --dry-run -Werror; }
check_ruff() { ruff check --quiet . && ruff format --check --quiet .; }
check_types() { mypy --no-error-summary; }
check_rooms() { python tools/rooms.py; }
check_stubs() { tools/stubs.sh --check; }
check_headers() { cmake --build build --target check_headers; }
check_cpp() { ctest --preset dev -j "$jobs"; }
check_python() { python -m pytest -q -n "$jobs"; }

checks=(format ruff types rooms stubs headers cpp python)
[ $# -gt 0 ] && checks=("$@")
failed=()
for name in "${checks[@]}"; do
  echo "--- $name"
  started=$SECONDS
  "check_$name" || failed+=("$name")
  echo "    $((SECONDS - started)) s"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed checks: ${failed[*]}"
  exit 1
fi
echo "all checks passed: ${checks[*]}"
