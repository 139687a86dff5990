#!/usr/bin/env bash
# Runs the server tests on every server of the matrix, and says at the end which passed.
#
#   run.sh [NAME...]     all servers of servers.sh by default
#
# The module must be built (RL_MODULE) and the test programs too; `make test-matrix` sees to both.
# A server that cannot be had fails the run where CI is set, and is skipped, and named, elsewhere.
set -uo pipefail
cd "$(dirname "$0")/../.."

suites=(scenarios errors citizen concurrency persistence garbage replication clock cluster memory
  introspection notifications observability waiting several throttle storm)
servers=tests/matrix/servers.sh
[ $# -gt 0 ] || set -- $($servers list)
failed=() passed=() skipped=() again=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suites_on NAME: all suites on one server; prints their results, or all there is where one fails.
suites_on() {
  if RL_SERVER=$($servers command "$1") \
    cargo test ${CARGO_FLAGS:-} "${suites[@]/#/--test=}" >"$log" 2>&1; then
    grep '^test result' "$log"
  else
    cat "$log"
    return 1
  fi
}

for name in "$@"; do
  if ! $servers fetch "$name"; then
    skipped+=("$name")
    continue
  fi
  echo "matrix: $name"
  start=$SECONDS
  if suites_on "$name"; then
    passed+=("$name")
  else
    echo "matrix: $name FAILED, its output is above; once more, to tell a fault from a busy machine"
    again+=("$name")
    if suites_on "$name"; then passed+=("$name"); else failed+=("$name"); fi
  fi
  echo "matrix: $name took $((SECONDS - start)) s"
done

echo "matrix: passed: ${passed[*]:-none}"
[ ${#again[@]} -eq 0 ] || echo "matrix: failed at the first try: ${again[*]}"
[ ${#skipped[@]} -eq 0 ] || echo "matrix: NOT TESTED, could not be had: ${skipped[*]}"
[ ${#failed[@]} -eq 0 ] || echo "matrix: FAILED: ${failed[*]}"
[ ${#failed[@]} -eq 0 ] && { [ ${#skipped[@]} -eq 0 ] || [ -z "${CI:-}" ]; }
