#!/usr/bin/env bash
# Storms of the simulated world over fresh seeds, on all cores: SEEDS worlds of every storm (20000), from FIRST on
# (drawn by chance; storms that are parts of one share them). Tells of every storm how many worlds it had, how long they
# were in simulated time and which faults landed, and each seed that fails with the command that runs it again.
# Usage: tools/soak.sh [BINARY]   STORMS picks some of them, as --gtest_filter does; JOBS how many at once.
set -uo pipefail
cd "$(dirname "$0")/.."
binary=${1:-build/bin/overlord_simulation_test}
seeds=${SEEDS:-20000}
first=${FIRST:-$((RANDOM * 32768 * 32768 + RANDOM * 32768 + RANDOM))}
jobs=${JOBS:-$(env -u OMP_NUM_THREADS nproc)}

# A storm is a test that asks for seeds: run with none, it says so.
storms=$(OVERLORD_SIM_SEEDS=0 "$binary" --gtest_filter="${STORMS:-*}" 2>/dev/null | sed -n 's/^STORM //p' | sort -u)
if [ -z "$storms" ]; then
  echo "soak: no storm in $binary matches ${STORMS:-*}" >&2
  exit 2
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
echo "soak: $seeds worlds of each of $(wc -l <<<"$storms") storms from seed $first on, $jobs at once"

run_part() {  # STORM PART
  local share=$(((seeds + jobs - 1) / jobs))
  OVERLORD_SIM_SEEDS=$share OVERLORD_SIM_FIRST=$((first + $2 * share)) \
    "$binary" --gtest_filter="$1" --gtest_brief=1 >"$logs/${1//\//_}-$2" 2>&1
}
export -f run_part
export binary seeds first jobs logs
for storm in $storms; do
  for ((part = 0; part < jobs; ++part)); do printf '%s\n%s\n' "$storm" "$part"; done
done | xargs -n 2 -P "$jobs" bash -c 'run_part "$0" "$1"'
failed=$?

# Storm by storm: worlds, simulated hours, faults by kind.
grep -h '^STORMED ' "$logs"/* | awk '
  { storm = $2; worlds[storm] += $3; ns[storm] += $4
    for (i = 1; i <= 4; ++i) sub(/^[^ ]+ /, "")
    count = split($0, kinds, ", ")
    for (i = 1; i <= count; ++i) {
      last = match(kinds[i], / [0-9]+$/)
      if (last) landed[storm, substr(kinds[i], 1, last - 1)] += substr(kinds[i], last + 1)
    } }
  END {
    for (one in landed) {
      split(one, parts, SUBSEP)
      text[parts[1]] = text[parts[1]] (text[parts[1]] == "" ? "" : ", ") parts[2] " " landed[one]
    }
    for (storm in worlds) printf "%s: %d worlds, %.4f simulated hours; %s\n", storm, worlds[storm], ns[storm] / 3.6e12, text[storm]
  }' | sort
simulated_ns=$(grep -h '^STORMED ' "$logs"/* | awk '{ ns += $4 } END { printf "%.0f", ns }')

grep -h '^FAILING SEED' "$logs"/* | sort -u | while read -r _ _ storm seed; do
  echo "FAILING SEED $storm $seed   (again: OVERLORD_SIM_SEEDS=1 OVERLORD_SIM_FIRST=$seed $binary --gtest_filter=$storm)"
done
awk -v ns="$simulated_ns" -v real="$SECONDS" 'BEGIN {
  printf "soak: %.3f simulated hours in %d s, %.5f a second\n", ns / 3.6e12, real, ns / 3.6e12 / (real > 0 ? real : 1) }'
if [ "$failed" -ne 0 ]; then
  # What ended without naming a seed crashed, or is a check over the whole storm.
  for log in "$logs"/*; do
    grep -q '^\[  PASSED' "$log" || { echo "--- ${log##*/}"; tail -n 15 "$log"; }
  done
  echo "soak: FAILED"
  exit 1
fi
echo "soak: all clean in $SECONDS s"
