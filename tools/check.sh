#!/usr/bin/env bash
# Builds everything and runs every check of the house. All of them run, each prints what it said when it is over, the
# names of those that failed come last, and the exit status tells whether there were any.
# Usage: tools/check.sh [NAME ...]   with names those alone, one after the other, over a finished build.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
# Hundreds of processes import the same modules: each is compiled once, also where the shell says never.
unset PYTHONDONTWRITEBYTECODE
jobs=$(env -u OMP_NUM_THREADS nproc)  # which takes OpenMP's limit for its own
logs=build/checks
rm -rf "$logs"
mkdir -p "$logs"

check_format() { tools/cpp_files.sh | xargs -0 -r -n 16 -P "$jobs" clang-format --dry-run -Werror; }
check_ruff() { ruff check --quiet . && ruff format --check --quiet .; }
check_types() { mypy --no-error-summary; }
check_rooms() { python tools/rooms.py; }
check_stubs() { tools/stubs.sh --check; }
check_build() { cmake --build build -j "$jobs"; }
check_headers() { cmake --build build -j "$jobs" --target check_headers; }
check_cpp() { ctest --preset dev -j "$jobs"; }
# One worker more than cores: some wait. Threads of torch that spin for a core that another has make a test take thrice
# as long. What all of them would compile when they start is compiled by one before.
check_python() {
  python -m pytest -q --collect-only >"$logs/collected.log" 2>&1
  OMP_NUM_THREADS=1 python -m pytest -q -n $((jobs + 1)) --dist worksteal --ignore=python/tests/house/test_wheel.py
}
check_wheel() { python -m pytest -q python/tests/house/test_wheel.py; }

run_check() {  # NAME
  local started=$SECONDS
  "check_$1" >"$logs/$1.log" 2>&1 </dev/null && touch "$logs/$1.passed"
  {
    flock 9  # what one says stays together
    echo "--- $1"
    cat "$logs/$1.log"
    echo "    $((SECONDS - started)) s"
  } 9>"$logs/lock"
}
run_checks() { for name in "$@"; do run_check "$name"; done; }

beside=(build cpp types format ruff rooms stubs headers wheel)
checks=(python "${beside[@]}")
if [ $# -gt 0 ]; then
  checks=("$@")
  run_checks "$@"
else
  tools/setup.sh test &  # while the compiler works
  cmake --build build -j "$jobs" --target product overlord_bench_extension || exit 1  # all that Python's tests need
  wait $! || exit 1
  # Tests of Python wait for something a third of their time; compiling the others' and all other checks fill that, and
  # stand back where both could. Two builds at once would break the build folder, so who builds is among these.
  (
    renice -n 5 $BASHPID >/dev/null
    run_checks "${beside[@]}"
  ) &
  run_checks python
  wait
fi
failed=()
for name in "${checks[@]}"; do  # one that never ran has not passed
  [ -e "$logs/$name.passed" ] || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed checks: ${failed[*]}"
  exit 1
fi
echo "all checks passed: ${checks[*]}"
