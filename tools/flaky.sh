#!/usr/bin/env bash
# Runs every test that starts processes or threads, time after time, with a busy loop on each core
# beside it, and names those that failed, with how often. Logs stay in build/flaky.
# Usage: tools/flaky.sh [PYTEST ARGUMENTS ...]   with arguments only those tests of Python are run
# FLAKY_ROUNDS sets how often (20). Which tests of Python start processes is said in conftest.py.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
rounds=${FLAKY_ROUNDS:-20}
cores=$(env -u OMP_NUM_THREADS nproc)
binaries=(runtime storage transport node integration)
[ $# -gt 0 ] && binaries=()
logs=build/flaky
rm -rf "$logs"
mkdir -p "$logs"

busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
for ((core = 0; core < cores; core++)); do
  while :; do :; done &
  busy+=($!)
done

# The names of tests that failed; a run that says none and fails is one by itself.
failed() { # LOG PATTERN WHAT
  sed -nE "$2" "$1" | sort -u | grep . || echo "$3 ended with an error: $1"
}
for ((round = 1; round <= rounds; round++)); do
  for name in "${binaries[@]}"; do
    log=$logs/$round-$name.log
    "build/bin/overlord_${name}_test" --gtest_shuffle --gtest_brief=1 >"$log" 2>&1 </dev/null ||
      failed "$log" 's/^\[  FAILED  \] ([A-Za-z]\w*[.\/][^ ,]+).*/\1/p' "$name" >>"$logs/failed"
  done
  log=$logs/$round-python.log
  python -m pytest -q -n "$cores" -m "processes and not soak and not chaos" "$@" \
    >"$log" 2>&1 </dev/null ||
    failed "$log" 's/^(FAILED|ERROR) (\S+).*/\2/p' pytest >>"$logs/failed"
  echo "round $round of $rounds, $SECONDS s: $(tail -n 1 "$log")"
done
if [ -s "$logs/failed" ]; then
  echo "failed, and how often in $rounds rounds:"
  sort "$logs/failed" | uniq -c | sort -rn
  exit 1
fi
echo "nothing failed in $rounds rounds"
