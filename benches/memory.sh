#!/usr/bin/env bash
# What a limit takes in memory, the server's own share included: prints the figures of README.
#
#   memory.sh MODULE [KEYS]     1,000,000 keys by default
#
# Keys are called rl:user:000000000001 and so on and have their time to live. Bytes a key are the
# growth of used_memory over the number of keys; bytes a hit that of one key over its hits.
set -euo pipefail

module=$1
keys=${2:-1000000}
dir=$(mktemp -d)
socket=$dir/redis.sock
redis-server --port 0 --unixsocket "$socket" --save '' --dir "$dir" --logfile "$dir/log" \
  --loadmodule "$module" rl.client-time yes &
trap 'kill %1; wait; rm -rf "$dir"' EXIT
cli() { redis-cli -s "$socket" "$@"; }
until [ "$(cli PING 2>/dev/null)" = PONG ]; do sleep 0.1; done
used() { cli INFO memory | awk -F: '$1 == "used_memory" { print $2 + 0 }'; }

# grown COUNT: bytes since the last flush, over the count. The calls come on standard input.
grown() {
  local before
  cli FLUSHALL >/dev/null
  before=$(used)
  redis-cli -s "$socket" --pipe >/dev/null
  awk -v grown=$(($(used) - before)) -v count="$1" 'BEGIN { printf "%.1f", grown / count }'
}

# calls FORMAT: one call for each key, its number put in.
calls() { seq "$keys" | awk -v format="$1" '{ printf format "\r\n", $1 }'; }

# hits COUNT GAP: calls on one key, the time from one to the next random with this mean, in ms.
hits() {
  awk -v count="$1" -v gap="$2" 'BEGIN {
    srand(1); at = 1700000000000
    for (i = 0; i < count; i++) {
      at += -log(1 - rand()) * gap
      printf "RL.SLIDING k 9007199254740992 315360000000 AT %.0f\r\n", at
    }
  }'
}

# spread KEYS HITS GAP: as many hits of each key, GAP ms apart.
spread() {
  awk -v keys="$1" -v hits="$2" -v gap="$3" 'BEGIN {
    for (hit = 0; hit < hits; hit++) for (key = 1; key <= keys; key++)
      printf "RL.SLIDING rl:user:%012d 1000 315360000000 AT %.0f\r\n",
        key, 1700000000000 + hit * gap
  }'
}

field() { cli INFO "$1" | tr -d '\r' | awk -F: -v name="$2" '$1 == name { print $2 }'; }
echo "Redis $(field server redis_version), $(field memory mem_allocator), $keys keys"
row() { printf '%-58s %8s\n' "$1" "$2"; }
row 'token bucket, bytes a key' \
  "$(calls 'RL.TOKENBUCKET rl:user:%012d 1000 1.5 PER 86400000' | grown "$keys")"
row 'leaky bucket, bytes a key' \
  "$(calls 'RL.LEAKY rl:user:%012d 1000 1.5 PER 86400000' | grown "$keys")"
row 'bucket with the longest numbers, bytes a key' \
  "$(calls 'RL.TOKENBUCKET rl:user:%012d 9007199254740992 999999.999999999 PER 315360000000' \
    | grown "$keys")"
row 'sliding window with one hit, bytes a key' \
  "$(calls 'RL.SLIDING rl:user:%012d 100 86400000' | grown "$keys")"
row 'sliding window with five hits, 12 s apart, bytes a key' \
  "$(spread "$((keys / 10))" 5 12000 | grown "$((keys / 10))")"
row 'sliding window with ten hits, 6 s apart, bytes a key' \
  "$(spread "$((keys / 10))" 10 6000 | grown "$((keys / 10))")"
row 'sliding window with a hundred hits, 600 ms apart, bytes a key' \
  "$(spread "$((keys / 100))" 100 600 | grown "$((keys / 100))")"
row 'sliding window, 70,000 hits in a day, bytes a hit' "$(hits 70000 1234 | grown 70000)"
row 'sliding window, 5,000 hits a second, bytes a hit' "$(hits 300000 0.2 | grown 300000)"
