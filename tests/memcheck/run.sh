#!/usr/bin/env bash
# Runs server tests on a server with libc's malloc under valgrind's memcheck, and fails where it
# tells of the module: memory read or written that is nobody's, freed twice or not by whom it was
# taken, a decision by bytes that nobody wrote, memory that nothing points at when the server ends.
#
#   run.sh [SUITE [TEST...]]     those of the table below by default
#
# The module must be built (RL_MODULE); `make memcheck` sees to it. Every process, forked ones
# too, has a report of its own; what tells of the module is printed.
set -uo pipefail
cd "$(dirname "$0")/../.."

server=valkey-9.1.2
servers=tests/matrix/servers.sh
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
$servers fetch "$server" || exit 1

export RL_MEMCHECK=1 RL_MEMCHECK_REPORTS=$reports
export RL_STORM_CALLS=${RL_STORM_CALLS:-4000}
RL_SERVER="valgrind --tool=memcheck --leak-check=full --show-leak-kinds=definite,indirect
  --num-callers=40 --error-limit=no --suppressions=$PWD/tests/memcheck/server.supp
  --log-file=$reports/%p $($servers command "$server")"
export RL_SERVER

# A suite, and which of its tests, by parts of their names: those that load the module, refuse to
# unload it, block clients, and write and read files and streams. The storm does the rest. Tests that
# measure time or memory mean nothing here.
table='
storm
throttle name
citizen configuration lifetime
waiting ends roles at_once
persistence golden restart saving keyspace exchange
replication effects resync internal
'
[ $# -eq 0 ] || table="$*"
failed=()

while read -r suite tests; do
  [ -n "$suite" ] || continue
  start=$SECONDS
  # shellcheck disable=SC2086
  cargo test ${CARGO_FLAGS:-} --test "$suite" -- --test-threads=2 $tests || failed+=("$suite")
  echo "memcheck: $suite took $((SECONDS - start)) s"
done <<<"$table"

# A report is made of blocks, with an empty line behind each. Only what is wrong, or lost for good,
# has a block with a stack. Lost is what nothing points at when an empty server ends: see
# tests/support/memcheck.rs.
awk -v reports="$reports" '
  BEGIN { while (("ls " reports | getline name) > 0) if (sub(/\.empty$/, "", name)) empty[name] }
  FNR == 1 { process = FILENAME; sub(/.*\//, "", process) }
  { line = $0; sub(/^==[0-9]+== ?/, "", line) }
  line == "" { if (ours && (!lost || process in empty)) { print block; found++ }
    block = ""; ours = lost = 0; next }
  { block = block process ": " line "\n" }
  line ~ /libredis_rl/ { ours = 1 }
  line ~ / lost in loss record / { lost = 1 }
  END { print "memcheck: " found + 0 " findings in the module" }
' $(find "$reports" -type f ! -name '*.*') | tee "$reports/findings.txt"
findings=$(awk '/^memcheck: .* findings/ { print $2 }' "$reports/findings.txt")
processes=$(find "$reports" -type f ! -name '*.*' | wc -l)
empty=$(find "$reports" -name '*.empty' | wc -l)
echo "memcheck: $processes processes, $empty of them ended empty and were searched for leaks"
[ ${#failed[@]} -eq 0 ] || echo "memcheck: FAILED: ${failed[*]}"
[ ${#failed[@]} -eq 0 ] && [ "$findings" = 0 ] && [ "$empty" -gt 0 ]
