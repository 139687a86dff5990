#!/usr/bin/env bash
# Writes the golden files: what a server with this version of the module leaves on disk. Run once
# for each encoding version, with the oldest supported server, whose files all others read:
#
#   make build && tests/golden/generate.sh tests/golden/version-N
#
# A version that was released keeps its files for ever; this script is for the next. The folder gets
#
#   dump.rdb                a snapshot
#   preamble/, plain/       an append-only file whose first half was rewritten, with and without
#                           `aof-use-rdb-preamble`; the second half are the effects of the calls
#
# The calls are those of calls.txt: with instants of their own, and with keys that never expire, or
# in the year 3000. What they must be answered for ever is in answers.txt.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:?the folder to write}
[ ! -e "$out" ] || { echo "$out exists: golden files are never written again" >&2; exit 1; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
module=${RL_MODULE:-$root/target/release/libredis_rl.so}
port=${PORT:-17399}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cli() { redis-cli -e -p "$port" "$@"; }

start() { # start OPTION...: a server in the empty folder $work
  rm -rf "${work:?}"/*
  redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" --daemonize yes \
    --logfile server.log --pidfile "$work/pid" "$@" --loadmodule "$module" rl.client-time yes >/dev/null
  until cli ping >/dev/null 2>&1; do sleep 0.05; done
}

# calls HALF: the lines of calls.txt before or behind the line "rewrite".
calls() {
  local lines
  case $1 in
    first) lines=$(sed '/^rewrite$/,$d' "$root/tests/golden/calls.txt") ;;
    second) lines=$(sed '1,/^rewrite$/d' "$root/tests/golden/calls.txt") ;;
  esac
  awk '/^#/ { next }
    $1 != "each" { print; next }
    {
      start = $NF; call = $4
      for (word = 5; word < NF; word++) call = call " " $word
      for (n = 0; n < $2; n++) printf "%s %.0f\n", call, start + n * $3
    }' <<<"$lines" | cli >/dev/null
}

done_rewriting() {
  until cli info persistence | grep -q 'aof_rewrite_in_progress:0'; do sleep 0.05; done
}

start
calls first
calls second
cli save >/dev/null
cp "$work/dump.rdb" "$out/"
cli shutdown nosave

for form in preamble plain; do
  preamble=no
  [ $form = plain ] || preamble=yes
  start --appendonly yes --aof-use-rdb-preamble $preamble
  calls first
  cli bgrewriteaof >/dev/null
  sleep 0.2
  done_rewriting
  calls second
  cli shutdown nosave
  cp -r "$work/appendonlydir" "$out/$form"
done
