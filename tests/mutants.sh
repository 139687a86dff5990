#!/usr/bin/env bash
# Mutation testing of what knows no server: cargo-mutants breaks each function in small ways, one at
# a time, and the tests of its file must notice.
#
#   mutants.sh [GROUP...] [-- OPTION...]    some groups of files, or all; options of cargo-mutants
#
# A group is files and the tests that are theirs. So a mutant is built with one or two test binaries
# instead of all, which takes most of the time, and a survivor tells which test lacks a case. JOBS
# (2) mutants are tested at once, each in a copy of the project below target/mutants. PROPTEST_CASES
# (48) bounds the cases of a property: what survives is worth a second run with more. Lists of what
# was caught, missed, and could not be built are left in target/mutants/GROUP.
# Exits with 1 if a mutant survives. Which are equivalent, and so are not tried, says
# .cargo/mutants.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

# group | files below src | tests
GROUPS_OF_FILES='
reply|reply.rs report.rs error.rs|--test=reply
args|args/mod.rs args/rules.rs watch/args.rs|--test=args --test=watch
departures|departures.rs|--test=departures
packed|packed/mod.rs packed/bucket.rs packed/window.rs|--lib --test=packed
watch|watch/counters.rs watch/denial_log.rs watch/kept_key.rs watch/top_denied.rs|--test=watch
codec|codec.rs|--test=codec
bucket|algorithm/mod.rs algorithm/bucket.rs algorithm/token_bucket.rs algorithm/leaky_bucket.rs|--test=args --test=bounds --test=reply --test=properties
limits|limits.rs|--test=args --test=codec
window|algorithm/sliding_window.rs|--test=window --test=codec --test=properties
hit_log|algorithm/hit_log/mod.rs algorithm/hit_log/blocks.rs algorithm/hit_log/recent.rs|--test=hit_log --test=codec --test=properties
'

JOBS=${JOBS:-2}
OUT=$PWD/target/mutants
export PROPTEST_CASES=${PROPTEST_CASES:-48} CARGO_BUILD_JOBS=1
# A mutant may ask for memory without end.
ulimit -v 8000000

row() { awk -F'|' -v name="$1" '$1 == name' <<<"$GROUPS_OF_FILES"; }

# Copies of the project as it stands, each with a target folder of its own that is kept. All files are
# as new, so that nothing is taken as built that a mutant of an interrupted run left behind.
copy() {
  mkdir -p "$1"
  find "$1" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
  git ls-files -z --cached --others --exclude-standard --deduplicate |
    tar --null --files-from=- --ignore-failed-read -cf - | tar -xmf - -C "$1"
  # Nobody loads the module of a mutant: it need not be linked.
  sed -i 's/^crate-type = .*/crate-type = ["rlib"]/' "$1/Cargo.toml"
}

# part GROUP NUMBER OPTION...: one of JOBS parts of a group.
part() {
  local group=$1 number=$2 files tests word words=()
  IFS='|' read -r _ files tests <<<"$(row "$group")"
  for word in $files; do words+=("--file=src/$word"); done
  for word in $tests; do words+=("--cargo-arg=$word"); done
  local status=0
  (cd "$OUT/copy-$number" && cargo mutants --in-place --colors=never --sharding=round-robin \
    --shard="$number/$JOBS" --output="$OUT/$group/$number" "${words[@]}" "${@:3}") \
    >"$OUT/$group/$number.log" 2>&1 || status=$?
  # 2 and 3: mutants were missed or never ended. Everything else is no result.
  case $status in 0 | 2 | 3) ;; *) tail -20 "$OUT/$group/$number.log"; return 1 ;; esac
}

# list GROUP KIND: the mutants of a kind.
list() { cat "$OUT/$1"/*/mutants.out/"$2.txt" | sort; }

groups=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ -n "$(row "$1")" ] || { echo "mutants: no group $1"; exit 2; }
  groups+=("$1")
  shift
done
[ $# = 0 ] || shift
[ ${#groups[@]} -gt 0 ] || mapfile -t groups < <(awk -F'|' 'NF { print $1 }' <<<"$GROUPS_OF_FILES")

last=$((JOBS - 1))
for number in $(seq 0 $last); do copy "$OUT/copy-$number"; done
survivors=0
for group in "${groups[@]}"; do
  rm -rf "${OUT:?}/$group"
  mkdir -p "$OUT/$group"
  began=$SECONDS parts=()
  for number in $(seq 0 $last); do part "$group" "$number" "$@" & parts+=($!); done
  for one in "${parts[@]}"; do wait "$one"; done
  echo "mutants: $group: $(list "$group" caught | wc -l) caught," \
    "$(list "$group" timeout | wc -l) never end, $(list "$group" unviable | wc -l) do not build," \
    "$(list "$group" missed | wc -l) survive ($((SECONDS - began)) s)"
  list "$group" missed | sed 's/^/  survives: /'
  survivors=$((survivors + $(list "$group" missed | wc -l)))
done
[ "$survivors" = 0 ]
